"""An append-only file of records, one per line with a checksum; locked, and safe against truncation.

Why not SQLite: recovery reads everything once, in order, and nothing is ever changed; a truncated file loses only its
last record; and the lines can be read with `less` and `jq` when it matters.

Only the owner can read the files: journals contain names, queues and SQL of users.
"""

import contextlib
import fcntl
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
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.files import PRIVATE_MODE
from yarn_plugin.quantities import count

Record = dict[str, Any]

_CHOOSE_STATE = "choose a --state directory that you can write"

_RECORD_START = re.compile(rb"[0-9a-f]{8} \{")


class JournalError(ReportedError):
    """The journal cannot be used."""


class JournalInUseError(JournalError):
    """Another process has this journal open."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"journal {str(path)!r}: another process is using it; stop that process, or choose another --state"
        )


class JournalUnavailableError(JournalError):
    """The journal cannot be written now, mostly because the disk is full. The write was rolled back."""


class JournalDamagedError(JournalError):
    """Records in the middle of the journal are damaged, so the records after them cannot be replayed."""


class NotARecordError(JournalError):
    """A line with a valid checksum is no record: no release wrote it. The message says why, and not where."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The damaged part of a journal: `at` its first byte, `size` from there to the end of the file.

    `in_the_middle`: valid records follow it, so it is not an incomplete last write.
    """

    at: int
    size: int
    lines: int
    in_the_middle: bool

    def __str__(self) -> str:
        more = f" and {count(self.lines, 'line')} after it" if self.lines > 1 else ""
        return f"a truncated or damaged record at byte {self.at}{more}, {self.size} bytes in all"


class Records(Protocol):
    """The storage of a journal's records: a `RecordFile` or `MemoryRecords`.

    `size`: current bytes. `rewritten_size`: bytes after the last rewrite.
    """

    dropped: str | None
    lost: tuple[Record, ...]
    size: int
    rewritten_size: int

    def read(self) -> Iterator[Record]:
        """All valid records, oldest first."""
        ...

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Append records; with `durable`, they are synced to disk.

        Raises:
            JournalUnavailableError: they could not be written; none is stored.
        """
        ...

    def probe(self) -> None:
        """Check that records can be written, without appending one.

        Raises:
            JournalUnavailableError: they cannot.
        """
        ...

    def rewrite(self, *records: Record | bytes) -> None:
        """Atomically replace all records.

        Raises:
            JournalUnavailableError: they could not be written; nothing was replaced.
        """
        ...

    def close(self) -> None:
        """Release the records, so that another process can open them."""
        ...


class RecordFile:
    """The records of a journal file, opened for writing.

    Two locks keep other processes out: that of the file `.lock`, and that of the journal's own file, which no `rm` of
    the first one undoes.

    `dropped`: a description of the damage that was removed when the file was opened, or None. `lost`: the valid records
    after that damage, which were removed too (`accept_loss`). `writer`: where several processes may believe that they
    have it open, as a lock is not seen by other machines: the name of this one.

    Raises:
        JournalInUseError: another process has it open.
        JournalDamagedError: valid records follow the damage, and `accept_loss` is not given.
        JournalError: the folder cannot be written, or the file is not a journal.
    """

    def __init__(
        self,
        path: Path,
        accept_loss: bool = False,
        before_loss: Callable[[tuple[Record, ...]], object] = lambda lost: None,
        writer: str = "",
    ) -> None:
        self.path = path
        self._writer: str | bool = writer or True
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
            raise JournalError(f"journal {str(path)!r}: {os_reason(problem)}; {_CHOOSE_STATE}") from None
        try:
            self._file = _open_locked(path)
        except JournalInUseError:
            self._lock.release()
            raise
        except OSError as problem:
            self._lock.release()
            raise JournalError(f"journal {str(path)!r}: {os_reason(problem)}; {_CHOOSE_STATE}") from None
        try:
            os.fchmod(self._file, PRIVATE_MODE)
            self._remove_damage(accept_loss, before_loss)
        except OSError as problem:
            self.close()
            raise JournalError(f"journal {str(path)!r}: {os_reason(problem)}; {_CHOOSE_STATE}") from None
        except JournalError:
            self.close()
            raise
        self.size = path.stat().st_size
        self.rewritten_size = 0

    def read(self) -> Iterator[Record]:
        """All valid records, oldest first."""
        return read_records(self.path)

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Append records (values or JSON); with `durable`, they are synced to disk.

        Raises:
            JournalUnavailableError: they could not be written; the file is unchanged.
        """
        encoded = b"".join(encode(record) for record in records)
        try:
            self._require_in_place()
            # An earlier append may have failed without being rolled back.
            if os.fstat(self._file).st_size != self.size:
                os.ftruncate(self._file, self.size)
            _write_all(self._file, encoded)
            if durable:
                os.fsync(self._file)
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise _unavailable(self.path, problem) from None
        self.size += len(encoded)
        self.written += len(encoded)

    def probe(self) -> None:
        """Check that records can be written, without appending one.

        Raises:
            JournalUnavailableError: they cannot.
        """
        try:
            self._require_in_place()
            os.ftruncate(self._file, self.size)
            _write_all(self._file, b"\n" * 65536)
            os.ftruncate(self._file, self.size)
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise _unavailable(self.path, problem) from None

    def rewrite(self, *records: Record | bytes) -> None:
        """Atomically replace the file: a reader finds either the old one or the new one.

        Raises:
            JournalUnavailableError: they could not be written; the file is unchanged.
        """
        opened = -1
        try:
            with files.draft(self.path, PRIVATE_MODE, durable=True, sole_writer=self._writer) as file:
                size = sum(file.write(encode(record)) for record in records)
                self.before_replacement()
                # Before the file is renamed: afterwards nothing may fail.
                opened = os.dup(file.fileno())
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if opened >= 0:
                os.close(opened)
            raise _unavailable(self.path, problem) from None
        os.close(self._file)
        self._file = opened
        self.size = self.rewritten_size = size
        self.written += size

    def before_replacement(self) -> None:
        """Called when `rewrite` is about to replace the file. A subclass may raise an exception: then it stays."""

    def close(self) -> None:
        """Let another process use the journal."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()

    def _require_in_place(self) -> None:
        """Refuse to write to a file that has lost its name: nobody would ever read it.

        Raises:
            JournalUnavailableError: another program has removed or replaced the journal.
        """
        # With a named writer, another may have replaced the file: who that is says what was written to this one.
        if self._writer is True and not _is_at(self._file, self.path):
            raise JournalUnavailableError(
                f"journal {str(self.path)!r}: was removed or replaced while in use; stop this process, restore the "
                "directory from a backup, and start it again"
            )

    def _remove_damage(self, accept_loss: bool, before_loss: Callable[[tuple[Record, ...]], object]) -> None:
        damage = find_damage(self.path)
        if damage is None:
            return
        if damage.at == 0 and not damage.in_the_middle and not _may_be_journal(self.path):
            raise JournalError(f"journal {str(self.path)!r}: not a journal; choose another --state")
        if damage.in_the_middle and not accept_loss:
            raise JournalDamagedError(
                f"journal {str(self.path)!r}: {damage}; valid records follow it, so the disk may be failing; "
                "restore the directory from a backup, or discard all records from there on with --accept-loss"
            )
        if damage.in_the_middle:
            self.lost = tuple(_valid_records_after(self.path, damage.at))
            before_loss(self.lost)
        aside = self.path.with_name(f"{self.path.name}.dropped-{int(time.time())}")
        with (
            self.path.open("rb") as file,
            files.draft(aside, PRIVATE_MODE, durable=True, sole_writer=self._writer) as copy,
        ):
            file.seek(damage.at)
            shutil.copyfileobj(file, copy)
        os.ftruncate(self._file, damage.at)
        os.fsync(self._file)
        self.dropped = f"{damage}; saved as {aside.name}"


def read_records(path: Path) -> Iterator[Record]:
    """The valid records of a journal, oldest first, up to the first damaged one. Writes and locks nothing.

    Raises:
        JournalError: one is not a JSON object, although its checksum is right.
    """
    for number, (end, body) in enumerate(_valid_bodies(path), 1):
        try:
            record = _record(body)
        except NotARecordError as problem:
            where = f"record {number}, which ends at byte {end}"
            raise JournalError(
                f"journal {str(path)!r}: {where}: {problem}, although its checksum is right: no release wrote it; "
                "restore the directory from a backup"
            ) from None
        yield record


def find_damage(path: Path) -> Damage | None:
    """The damage in a journal, or None. Writes and locks nothing."""
    end = max((end for end, _ in _valid_bodies(path)), default=0)
    size = path.stat().st_size - end
    if size <= 0:
        return None
    lines, valid = 0, False
    with path.open("rb") as file:
        file.seek(end)
        for line in file:
            lines += line.endswith(b"\n")
            valid = valid or _body(line) is not None
    return Damage(end, size, lines, valid)


def encode(record: Record | bytes) -> bytes:
    """A record (a value, or its JSON) as its line: checksum, space, JSON."""
    body = record if isinstance(record, bytes) else json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(body), body)


def decode(line: bytes) -> Record | None:
    """The record of a line; None if the line is truncated or damaged.

    Raises:
        NotARecordError: it is no record, although its checksum is right.
    """
    body = _body(line)
    return None if body is None else _record(body)


def _record(body: bytes) -> Record:
    """The record in a text.

    Raises:
        NotARecordError: it is not a JSON object.
    """
    try:
        record = json.loads(body)
    except UnicodeDecodeError as problem:
        raise NotARecordError(f"its byte {problem.start} is not UTF-8") from None
    except RecursionError:
        raise NotARecordError("its lists and objects are nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise NotARecordError(f"it is not JSON: {problem.msg[:1].lower()}{problem.msg[1:]}") from None
    except ValueError:
        raise NotARecordError("it has a number with thousands of digits") from None
    if not isinstance(record, dict):
        raise NotARecordError(f"it must be a JSON object, not a {type(record).__name__}")
    return record


def _body(line: bytes) -> bytes | None:
    """The JSON of a line; None if the line is truncated or damaged."""
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    return body if line.endswith(b"\n") and body and checksum == b"%08x" % crc32(body) else None


def _valid_bodies(path: Path) -> Iterator[tuple[int, bytes]]:
    """The JSON of each valid record with the offset after it; stops at the first damaged one."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            body = _body(line)
            if body is None:
                return
            end += len(line)
            yield end, body


def _valid_records_after(path: Path, start: int) -> Iterator[Record]:
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            with contextlib.suppress(NotARecordError):
                if (record := decode(line)) is not None:
                    yield record


def _may_be_journal(path: Path) -> bool:
    """Whether a file without a valid record may be a journal with a truncated first record."""
    with path.open("rb") as file:
        begin = file.read(10)
    return _RECORD_START.match(begin + b"00000000 {"[len(begin) :]) is not None


def _unavailable(path: Path, problem: OSError) -> JournalUnavailableError:
    return JournalUnavailableError(
        f"journal {str(path)!r}: {os_reason(problem)}; check the disk's space and the file's permissions"
    )


def _open_locked(path: Path) -> int:
    """Open a journal, and lock it until it is closed.

    Raises:
        JournalInUseError: another process has locked it.
        OSError: it cannot be opened or locked.
    """
    while True:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_MODE)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            raise JournalInUseError(path) from None
        except OSError:
            os.close(opened)
            raise
        # It may have been replaced between the two.
        if _is_at(opened, path):
            return opened
        os.close(opened)


def _is_at(opened: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), path.stat())
    except FileNotFoundError:
        return False


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class MemoryRecords:
    """Records in memory, for simulations and tests."""

    def __init__(self) -> None:
        self.dropped: str | None = None
        self.lost: tuple[Record, ...] = ()
        self.size = self.rewritten_size = self.written = 0
        self._lines: list[bytes] = []

    def read(self) -> Iterator[Record]:
        """All records, oldest first."""
        return (json.loads(line.partition(b" ")[2]) for line in self._lines)

    def content(self) -> bytes:
        """The records as bytes of a journal file."""
        return b"".join(self._lines)

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Append records."""
        self._add(records)

    def probe(self) -> None:
        """Do nothing: records can always be written."""

    def rewrite(self, *records: Record | bytes) -> None:
        """Replace all records."""
        self._lines.clear()
        self.size = 0
        self._add(records)
        self.rewritten_size = self.size

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _add(self, records: tuple[Record | bytes, ...]) -> None:
        lines = [encode(record) for record in records]
        self._lines += lines
        added = sum(map(len, lines))
        self.size += added
        self.written += added
