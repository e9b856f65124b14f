"""A thread that makes calls one after another."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


class OneByOne:
    """Makes calls one by one, in a daemon thread that starts with the first of them.

    Executors of the standard library refuse calls once the main thread has ended, while others still run queries.
    """

    def __init__(self, name: str) -> None:
        self._name, self._lock, self._closed = name, threading.Lock(), False
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, call: Callable[[], Result]) -> "Future[Result]":
        """Make a call when those before it have been made; when this is closed, it is cancelled."""
        made: Future[Result] = Future()
        with self._lock:
            if self._closed:
                made.cancel()
                return made
            self._waiting.put((made, call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return made

    def close(self) -> None:
        """Cancel the calls that have not begun; returns at once."""
        with self._lock:
            self._closed = True
        with suppress(queue.Empty):
            while (one := self._waiting.get_nowait()) is not None:
                one[0].cancel()
        self._waiting.put(None)

    def _run(self) -> None:
        while (one := self._waiting.get()) is not None:
            made, call = one
            if made.set_running_or_notify_cancel():
                try:
                    made.set_result(call())
                except BaseException as problem:  # noqa: BLE001 - raised where the result is asked for
                    made.set_exception(problem)
            # So that neither lives until the next call.
            del one, made, call
