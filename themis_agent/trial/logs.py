"""Log files of bounded size, and the lines of a stream of output."""

import contextlib
import re
from collections import deque
from pathlib import Path
from typing import BinaryIO

from themis_agent.trial.wire import LAST_LINES

_LONGEST_LINE = 4096
_END = re.compile(rb"[\r\n]")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


class BoundedLog:
    """A file that holds the latest output: when it is half of `limit` long, it becomes NAME.1, in place of that one."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit = path, limit
        self._file: BinaryIO | None = None
        self._size = 0
        with contextlib.suppress(OSError):
            self._open()

    def _open(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()
        return self._file

    def write(self, data: bytes) -> None:
        """Append. A full disk stops no training: what cannot be written is not."""
        try:
            file = self._file or self._open()
            if self._size and self._size + len(data) > self._limit // 2:
                file.close()
                self._file = None
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                file = self._open()
            self._size += file.write(data[-(self._limit // 2) :])
        except (OSError, ValueError):
            return

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class Lines:
    """Cuts output into lines, without terminal control sequences; a progress bar's `\\r` ends a line too."""

    def __init__(self) -> None:
        self._rest = b""
        self.last: deque[str] = deque(maxlen=LAST_LINES)

    def cut(self, data: bytes) -> list[str]:
        """The lines that are complete with this output; of a very long one the beginning."""
        *ended, rest = _END.split(self._rest + data)
        self._rest = rest[:_LONGEST_LINE]
        return self._kept(ended)

    def end(self) -> list[str]:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return self._kept([rest])

    def _kept(self, ended: list[bytes]) -> list[str]:
        texts = [_ESCAPES.sub("", one[:_LONGEST_LINE].decode(errors="replace")).rstrip() for one in ended]
        lines = [text for text in texts if text]
        self.last.extend(line[:1000] for line in lines)
        return lines
