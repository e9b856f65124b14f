"""Results that wait to be fetched: in memory up to a limit over all statements, beyond it in files without a name."""

import tempfile
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO

import pyarrow as pa

from qoop.server.errors import InvalidHandleError, LimitError
from qoop.server.limits import EVERYONE, MIB, Budget


class ResultRoom:
    """The room for the results of all statements. Thread-safe.

    Args:
        memory: the bytes of them that are kept in memory.
        disk: how many more in files.
        folder: where these are; None: in the system's folder for temporary files.
        user: whose results they are.
    """

    def __init__(self, memory: Budget, disk: Budget, folder: str | None = None, user: str = EVERYONE) -> None:
        self._memory, self._disk, self._folder, self._user = memory, disk, folder, user

    def of(self, user: str) -> "ResultRoom":
        """The room for a user's results, in that of all."""
        return ResultRoom(self._memory, self._disk, self._folder, user)

    def take_memory(self, count: int) -> bool:
        """Take room in memory; False if there is none."""
        return self._memory.take(count, self._user)

    def take_disk(self, count: int) -> None:
        """Take room on the disk.

        Raises:
            LimitError: there is none.
        """
        if not self._disk.take(count, self._user):
            raise LimitError(
                f"results: those that wait to be fetched take too much of the {self._disk.limit // MIB} MiB for them "
                "on the server's disk; fetch or close some, add a LIMIT, or store the rows with CREATE TABLE AS"
            )

    def give_back(self, memory: int, disk: int) -> None:
        """Give back what a result has taken."""
        self._memory.give_back(memory, self._user)
        self._disk.give_back(disk, self._user)

    @property
    def used(self) -> tuple[int, int]:
        """The bytes in memory, and on the disk, of all users."""
        return self._memory.used, self._disk.used

    def new_file(self) -> IO[bytes]:
        """A file that has no name, so nothing is left of it however the server ends."""
        return tempfile.TemporaryFile(dir=self._folder)


@dataclass(frozen=True, slots=True)
class _InFile:
    """A batch of rows that was written to the file."""

    offset: int
    length: int
    rows: int


class Result:
    """The rows of one statement, in the order in which they are read. Appended to by one thread, then read.

    Args:
        schema: of its rows if there are none; otherwise the batches have their own.
    """

    def __init__(self, room: ResultRoom, schema: pa.Schema) -> None:
        self.schema = schema
        self._room = room
        self._lock = threading.Lock()
        self._batches: list[pa.RecordBatch | _InFile] = []
        self._ends: list[int] = []
        self._file: IO[bytes] | None = None
        self._memory = self._disk = 0
        self._closed = False

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows, which may be empty.

        Raises:
            LimitError: there is no room for them.
        """
        size = int(batch.nbytes)
        with self._lock:
            if self._closed:
                raise LimitError("the statement was closed before its rows had arrived")
            if not self._batches:
                self.schema = batch.schema
            if self._room.take_memory(size):
                self._memory += size
                self._add(batch)
            else:
                self._add(self._written(batch))

    def _add(self, batch: pa.RecordBatch | _InFile) -> None:
        self._batches.append(batch)
        self._ends.append(self.rows + _rows(batch))

    def _written(self, batch: pa.RecordBatch) -> _InFile:
        data = batch.serialize()
        self._room.take_disk(data.size)
        self._disk += data.size
        if self._file is None:
            self._file = self._room.new_file()
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return _InFile(offset, data.size, batch.num_rows)

    def reorder(self, order: Sequence[int]) -> None:
        """Put the batches into another order; `order[i]` is the present place of the i-th, empty ones included.

        Raises:
            ValueError: it does not name each batch once.
        """
        with self._lock:
            if sorted(order) != list(range(len(self._batches))):
                raise ValueError(f"order of {len(order)} batches, not {len(self._batches)}")
            self._batches = [self._batches[place] for place in order]
            self._ends = list(accumulate(map(_rows, self._batches)))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._ends[-1] if self._ends else 0

    def page(self, start: int, max_rows: int, max_bytes: int) -> pa.Table:
        """Rows from row `start` on, at most `max_rows` and about `max_bytes`, but at least one if there is one.

        Raises:
            InvalidHandleError: the result is closed, so that it would seem to have no more rows.
        """
        parts: list[pa.RecordBatch] = []
        with self._lock:
            if self._closed:
                raise InvalidHandleError("the statement was closed while its rows were fetched")
            index, left_bytes = bisect_right(self._ends, start), float(max_bytes)
            while index < len(self._batches) and max_rows > 0 and (left_bytes > 0 or not parts):
                if start >= self._ends[index]:
                    index += 1
                    continue
                batch = self._read(self._batches[index])
                first = start - (self._ends[index] - batch.num_rows)
                fitting = max(int(left_bytes * batch.num_rows / max(batch.nbytes, 1)), 0 if parts else 1)
                part = batch.slice(first, min(max_rows, fitting))
                if not part.num_rows:
                    break
                parts.append(part)
                start, max_rows, left_bytes = start + part.num_rows, max_rows - part.num_rows, left_bytes - part.nbytes
        return pa.Table.from_batches(parts, self.schema)

    def _read(self, batch: pa.RecordBatch | _InFile) -> pa.RecordBatch:
        if not isinstance(batch, _InFile):
            return batch
        assert self._file is not None
        self._file.seek(batch.offset)
        return pa.ipc.read_record_batch(pa.py_buffer(self._file.read(batch.length)), self.schema)

    def close(self) -> None:
        """Forget the rows. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._batches, self._ends = [], []
            if self._file is not None:
                self._file.close()
            self._room.give_back(self._memory, self._disk)


def _rows(batch: pa.RecordBatch | _InFile) -> int:
    return batch.rows if isinstance(batch, _InFile) else int(batch.num_rows)


def of_rows(room: ResultRoom, schema: pa.Schema, rows: Sequence[Sequence[object]]) -> Result:
    """A result with these rows."""
    result = Result(room, schema)
    values = [[row[place] for row in rows] for place in range(len(schema))]
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    result.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return result
