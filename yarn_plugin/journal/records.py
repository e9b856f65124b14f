"""A file of records, each on a line of its own with a checksum; append-only, locked, safe against being cut.

Why not SQLite: recovery reads everything once, in order, and nothing is ever changed; a cut file loses its last
record and no other; and a line is readable with `less` and `jq` on the day it matters.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from filelock import FileLock, Timeout

from yarn_plugin.errors import ReportedError

Record = dict[str, Any]


class JournalError(ReportedError):
    """The journal cannot be used."""


class JournalInUseError(JournalError):
    """Another process writes this journal."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"journal {str(path)!r}: another process is using it; end that one, or choose another --state")


class RecordFile:
    """The records of one journal.

    `dropped` says in words what was not whole when the file was opened; None when everything was.

    Raises:
        JournalInUseError: another process has it open.
        JournalError: the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(str(path) + ".lock", mode=0o600)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise JournalInUseError(path) from None
        except OSError as problem:
            raise JournalError(f"journal {str(path)!r}: {problem.strerror}; choose a --state you can write") from None
        self._cut_what_is_not_whole()
        self._file = path.open("ab")
        self.size = path.stat().st_size

    def read(self) -> Iterator[Record]:
        """Every whole record, oldest first."""
        for _, record in _whole_records(self.path):
            yield record

    def append(self, *records: Record, durable: bool = True) -> None:
        """Add records; when this returns and `durable`, they survive the loss of power."""
        data = b"".join(encode(record) for record in records)
        self._file.write(data)
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())
        self.size += len(data)

    def rewrite(self, *records: Record) -> None:
        """Replace the whole file by these records, at once: a reader finds the old file or the new one."""
        draft = self.path.with_name(self.path.name + ".part")
        with draft.open("wb") as file:
            file.writelines(encode(record) for record in records)
            file.flush()
            os.fsync(file.fileno())
        self._file.close()
        draft.replace(self.path)
        _sync_folder(self.path.parent)
        self._file = self.path.open("ab")
        self.size = self.path.stat().st_size

    def close(self) -> None:
        """Let another process use the journal."""
        self._file.close()
        self._lock.release()

    def _cut_what_is_not_whole(self) -> None:
        self.path.touch(mode=0o600)
        end = max((end for end, _ in _whole_records(self.path)), default=0)
        rest = self.path.stat().st_size - end
        if not rest:
            return
        aside = self.path.with_name(f"{self.path.name}.dropped-{int(time.time())}")
        with self.path.open("rb+") as file:
            file.seek(end)
            damaged = file.read()
            aside.write_bytes(damaged)
            file.truncate(end)
            os.fsync(file.fileno())
        lines = damaged.count(b"\n")
        more = f" and {lines} line(s) after it" if lines > 1 else ""
        self.dropped = f"a record cut or damaged at byte {end}{more}, {rest} bytes in all; kept in {aside.name}"


def encode(record: Record) -> bytes:
    """A record as its line: checksum, space, JSON."""
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(body), body)


def decode(line: bytes) -> Record | None:
    """The record of a line; None when the line is not whole."""
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % crc32(body):
        return None
    record: Record = json.loads(body)
    return record


def _whole_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Each whole record with the offset after it; stops at the first that is not whole."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            record = decode(line)
            if record is None:
                return
            end += len(line)
            yield end, record


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
