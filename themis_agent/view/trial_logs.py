"""The log of one rank of a trial over all its starts, while it is written and afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 16


class TrialLog:
    """The log of a rank, start after start. `directory`: of the trial's logs.

    A log that is full becomes NAME.1, in place of that one: only what was overwritten before it was read is missing.
    """

    def __init__(self, directory: Path, rank: int) -> None:
        self._directory, self._name = directory, f"rank-{rank}.log"
        self._file: BinaryIO | None = None
        self._path: Path | None = None

    def new(self) -> Iterator[tuple[int, bytes]]:
        """What has been written since the last call, as (start, bytes); of a new start at first nothing."""
        while True:
            yield from self._rest()
            following = self._next()
            if following is None:
                return
            if self._file is not None:
                # What came until the next one was there.
                yield from self._rest()
                self._file.close()
            self._path, self._file = following, following.open("rb")
            yield _start(following), b""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _rest(self) -> Iterator[tuple[int, bytes]]:
        if self._file is None or self._path is None:
            return
        while data := self._file.read(CHUNK):
            yield _start(self._path), data

    def _next(self) -> Path | None:
        """The file after the present one, if it is there."""
        found = sorted(
            (_start(path), path.name == self._name, path)
            for path in self._directory.glob(f"epoch-*/{self._name}*")
            if path.name in (self._name, f"{self._name}.1")
        )
        if self._path is None or self._file is None:
            return found[0][2] if found else None
        here = _start(self._path)
        if not _is_at(self._file, self._path) and self._path.name == self._name:
            # It was renamed while it was read; what follows has its name.
            return self._path if self._path.exists() else None
        later = [path for start, is_last, path in found if start > here or (start == here and is_last)]
        return next((path for path in later if path != self._path), None)


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        named = path.stat()
    except OSError:
        return False
    opened = os.fstat(file.fileno())
    return (named.st_ino, named.st_dev) == (opened.st_ino, opened.st_dev)


def _start(path: Path) -> int:
    return int(path.parent.name.removeprefix("epoch-"))
