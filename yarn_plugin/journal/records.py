"""A file of records, each on a line of its own with a checksum; append-only, locked, safe against being cut.

Why not SQLite: recovery reads everything once, in order, and nothing is ever changed; a cut file loses its last
record and no other; and a line is readable with `less` and `jq` on the day it matters.

All files are their owner's alone: journals hold names, queues and SQL of their users.
"""

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from filelock import FileLock, Timeout

from yarn_plugin import files
from yarn_plugin.errors import ReportedError
from yarn_plugin.files import PRIVATE_MODE
from yarn_plugin.quantities import count

Record = dict[str, Any]

_BEGINS_LIKE_A_RECORD = re.compile(rb"[0-9a-f]{8} \{")


class JournalError(ReportedError):
    """The journal cannot be used."""


class JournalInUseError(JournalError):
    """Another process writes this journal."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"journal {str(path)!r}: another process is using it; end that one, or choose another --state")


class JournalUnavailableError(JournalError):
    """The journal takes no records now (a full disk, mostly). Nothing of the refused records is in it."""


class JournalDamagedError(JournalError):
    """Records that were on the disk are damaged: what follows them cannot be decided on again."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is not whole in a journal: `at` its first byte, `size` from there to the end of the file.

    `in_the_middle`: whole records follow it, so it was on the disk before them and is no write that was cut short.
    """

    at: int
    size: int
    lines: int
    in_the_middle: bool

    def __str__(self) -> str:
        more = f" and {count(self.lines, 'line')} after it" if self.lines > 1 else ""
        return f"a record cut or damaged at byte {self.at}{more}, {self.size} bytes in all"


class Records(Protocol):
    """Where a journal's records are: a `RecordFile`, or memory.

    `size`: bytes now. `rewritten_size`: bytes when it was last rewritten.
    """

    dropped: str | None
    lost: tuple[Record, ...]
    size: int
    rewritten_size: int

    def read(self) -> Iterator[Record]:
        """Every whole record, oldest first."""
        ...

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records; when this returns and `durable`, they survive the loss of power.

        Raises:
            JournalUnavailableError: they could not be written; nothing of them is kept.
        """
        ...

    def probe(self) -> None:
        """Find out whether records can be written, without adding one.

        Raises:
            JournalUnavailableError: they cannot.
        """
        ...

    def rewrite(self, *records: Record | bytes) -> None:
        """Replace all by these records, or nothing.

        Raises:
            JournalUnavailableError: they could not be written; all is as it was before.
        """
        ...

    def close(self) -> None:
        """Let another process use them."""
        ...


class RecordFile:
    """The records of one journal, opened to be written.

    `dropped` says in words what was not whole when the file was opened; None when everything was. `lost` holds the
    records that were whole after damage which was accepted (`accept_loss`), and are in the journal no more.

    Raises:
        JournalInUseError: another process has it open.
        JournalDamagedError: damage before records that were on the disk, and `accept_loss` is not given.
        JournalError: the folder cannot be written, or the file holds something else.
    """

    def __init__(
        self,
        path: Path,
        accept_loss: bool = False,
        before_loss: Callable[[tuple[Record, ...]], object] = lambda lost: None,
    ) -> None:
        self.path = path
        self.dropped: str | None = None
        self.lost: tuple[Record, ...] = ()
        self.written = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(str(path) + ".lock", mode=PRIVATE_MODE)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise JournalInUseError(path) from None
        except OSError as problem:
            raise JournalError(f"journal {str(path)!r}: {problem.strerror}; choose a --state you can write") from None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_MODE)
            os.fchmod(self._file, PRIVATE_MODE)
            self._cut_what_is_not_whole(accept_loss, before_loss)
        except OSError as problem:
            self._lock.release()
            raise JournalError(f"journal {str(path)!r}: {problem.strerror}; choose a --state you can write") from None
        except JournalError:
            os.close(self._file)
            self._lock.release()
            raise
        self.size = path.stat().st_size
        self.rewritten_size = 0

    def read(self) -> Iterator[Record]:
        """Every whole record, oldest first."""
        return read_records(self.path)

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records (as values, or as JSON); when this returns and `durable`, they survive the loss of power.

        Raises:
            JournalUnavailableError: they could not be written; the file is as it was before.
        """
        data = b"".join(encode(record) for record in records)
        try:
            # Also after an append that failed and could not be taken back at once.
            if os.fstat(self._file).st_size != self.size:
                os.ftruncate(self._file, self.size)
            _write_all(self._file, data)
            if durable:
                os.fsync(self._file)
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise JournalUnavailableError(f"journal {str(self.path)!r}: {problem.strerror}") from None
        self.size += len(data)
        self.written += len(data)

    def probe(self) -> None:
        """Find out whether records can be written, without adding one.

        Raises:
            JournalUnavailableError: they cannot.
        """
        try:
            os.ftruncate(self._file, self.size)
            _write_all(self._file, b"\n" * 65536)
            os.ftruncate(self._file, self.size)
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise JournalUnavailableError(f"journal {str(self.path)!r}: {problem.strerror}") from None

    def rewrite(self, *records: Record | bytes) -> None:
        """Replace the whole file by these records, at once: a reader finds the old file or the new one.

        Raises:
            JournalUnavailableError: they could not be written; the file is as it was before.
        """
        opened = -1
        try:
            with files.draft(self.path, PRIVATE_MODE, durable=True, sole_writer=True) as file:
                size = sum(file.write(encode(record)) for record in records)
                # Before it has its name: afterwards nothing may fail.
                opened = os.dup(file.fileno())
        except OSError as problem:
            if opened >= 0:
                os.close(opened)
            raise JournalUnavailableError(f"journal {str(self.path)!r}: {problem.strerror}") from None
        os.close(self._file)
        self._file = opened
        self.size = self.rewritten_size = size
        self.written += size

    def close(self) -> None:
        """Let another process use the journal."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()

    def _cut_what_is_not_whole(self, accept_loss: bool, before_loss: Callable[[tuple[Record, ...]], object]) -> None:
        damage = find_damage(self.path)
        if damage is None:
            return
        if damage.at == 0 and not damage.in_the_middle and not _begins_like_a_journal(self.path):
            raise JournalError(f"journal {str(self.path)!r}: it holds something else than a journal; choose another")
        if damage.in_the_middle and not accept_loss:
            raise JournalDamagedError(
                f"journal {str(self.path)!r}: {damage}, before others that are whole; the disk may be failing. "
                "Restore the folder from a backup, or start with --accept-loss to go on with what precedes the damage"
            )
        if damage.in_the_middle:
            self.lost = tuple(_whole_after(self.path, damage.at))
            before_loss(self.lost)
        aside = self.path.with_name(f"{self.path.name}.dropped-{int(time.time())}")
        with self.path.open("rb") as file, files.draft(aside, PRIVATE_MODE, durable=True, sole_writer=True) as copy:
            file.seek(damage.at)
            shutil.copyfileobj(file, copy)
        os.ftruncate(self._file, damage.at)
        os.fsync(self._file)
        self.dropped = f"{damage}; kept in {aside.name}"


def read_records(path: Path) -> Iterator[Record]:
    """The whole records of a journal, oldest first, up to the first that is not whole. Writes and locks nothing."""
    for _, body in _whole_bodies(path):
        yield json.loads(body)


def find_damage(path: Path) -> Damage | None:
    """What is not whole in a journal; None when everything is. Writes and locks nothing."""
    end = max((end for end, _ in _whole_bodies(path)), default=0)
    size = path.stat().st_size - end
    if size <= 0:
        return None
    lines, whole = 0, False
    with path.open("rb") as file:
        file.seek(end)
        for line in file:
            lines += line.endswith(b"\n")
            whole = whole or _body(line) is not None
    return Damage(end, size, lines, whole)


def encode(record: Record | bytes) -> bytes:
    """A record (a value, or its JSON) as its line: checksum, space, JSON."""
    body = record if isinstance(record, bytes) else json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(body), body)


def decode(line: bytes) -> Record | None:
    """The record of a line; None when the line is not whole."""
    body = _body(line)
    if body is None:
        return None
    record: Record = json.loads(body)
    return record


def _body(line: bytes) -> bytes | None:
    """The JSON of a line; None when the line is not whole."""
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    return body if line.endswith(b"\n") and body and checksum == b"%08x" % crc32(body) else None


def _whole_bodies(path: Path) -> Iterator[tuple[int, bytes]]:
    """The JSON of each whole record with the offset after it; stops at the first that is not whole."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            body = _body(line)
            if body is None:
                return
            end += len(line)
            yield end, body


def _whole_after(path: Path, start: int) -> Iterator[Record]:
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            record = decode(line)
            if record is not None:
                yield record


def _begins_like_a_journal(path: Path) -> bool:
    """Whether a file without a whole record may be a journal whose first record was cut."""
    with path.open("rb") as file:
        begin = file.read(10)
    return _BEGINS_LIKE_A_RECORD.match(begin + b"00000000 {"[len(begin) :]) is not None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class MemoryRecords:
    """Records as a `RecordFile` would hold them, gone with the process."""

    def __init__(self) -> None:
        self.dropped: str | None = None
        self.lost: tuple[Record, ...] = ()
        self.size = self.rewritten_size = self.written = 0
        self._lines: list[bytes] = []

    def read(self) -> Iterator[Record]:
        """Every record, oldest first."""
        return (json.loads(line.partition(b" ")[2]) for line in self._lines)

    def content(self) -> bytes:
        """What a file would hold."""
        return b"".join(self._lines)

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records."""
        self._add(records)

    def probe(self) -> None:
        """Find out whether records can be written: they can."""

    def rewrite(self, *records: Record | bytes) -> None:
        """Replace all by these records."""
        self._lines.clear()
        self.size = 0
        self._add(records)
        self.rewritten_size = self.size

    def close(self) -> None:
        """Nothing is held open."""

    def _add(self, records: tuple[Record | bytes, ...]) -> None:
        lines = [encode(record) for record in records]
        self._lines += lines
        added = sum(map(len, lines))
        self.size += added
        self.written += added
