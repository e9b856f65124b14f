"""Copies what a launcher writes to its logs into a store, while it grows, in a thread of its own."""

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from themis_agent.errors import StoreError
from themis_agent.trial.webhdfs import HdfsStore, MissingError

EVERY_S = 2.0
CHUNK = 4 << 20
"""The most that is sent at once."""

FULL = ".1"
"""The end of a full log's name: see `BoundedLog`."""


@dataclass
class _Log:
    """`is_there`: the copy. `before`: bytes in it that were there before; None: not known yet. `sent`: of this file;
    None: what became of the last append is not known."""

    file: BinaryIO
    is_there: bool = False
    before: int | None = None
    sent: int | None = 0


class LogCopies:
    """`directory`: of the logs; `folder`: of their copies in the store."""

    def __init__(self, directory: Path, store: HdfsStore, folder: str, every_s: float = EVERY_S) -> None:
        self._directory, self._store, self._folder, self._every_s = directory, store, folder, every_s
        self._logs: dict[str, _Log] = {}
        self._one_at_a_time, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Copy what has been written until now.

        Raises:
            StoreError: the store refuses, or is away. The rest is copied later.
            OSError: a log cannot be read.
        """
        with self._one_at_a_time:
            for path in sorted(self._directory.glob("*")):
                # One that is full has another name a moment before there is a new one.
                with contextlib.suppress(FileNotFoundError):
                    if not path.name.endswith(FULL):
                        self._copy(path)

    def close(self, wait_s: float) -> None:
        """Copy the rest; give up after so many seconds."""
        self._closed.set()
        self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            closing = self._closed.wait(self._every_s)
            try:
                self.flush()
            except (StoreError, OSError):
                # It stays in the local log, and is tried again.
                if closing:
                    time.sleep(min(self._every_s, 0.5))
                continue
            if closing:
                for log in self._logs.values():
                    log.file.close()
                return

    def _copy(self, path: Path) -> None:
        log = self._logs.get(path.name)
        if log is None:
            log = self._logs[path.name] = _Log(path.open("rb"))
        name = f"{self._folder}/{path.name}"
        self._send(log, name)
        if os.fstat(log.file.fileno()).st_ino != path.stat().st_ino:
            # It is full and has another name now, with what was written until then.
            self._send(log, name)
            # It has that name there already, if the answer was lost.
            with contextlib.suppress(MissingError):
                self._store.rename(name, f"{name}{FULL}")
            log.file.close()
            del self._logs[path.name]

    def _send(self, log: _Log, name: str) -> None:
        if log.before is None or log.sent is None:
            there = self._length(name)
            log.is_there, size = there is not None, there or 0
            if log.before is None or size < log.before:
                log.before = size
            log.sent = size - log.before
        log.file.seek(log.sent)
        # One that is empty is there too.
        while (data := log.file.read(CHUNK)) or not log.is_there:
            sent, log.sent = log.sent, None
            if log.is_there:
                self._store.append(name, data)
            else:
                self._store.write(name, data)
            log.sent, log.is_there = sent + len(data), True

    def _length(self, name: str) -> int | None:
        """Of the copy; None: there is none."""
        try:
            return self._store.status(name).size
        except MissingError:
            return None
