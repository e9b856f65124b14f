"""Looks at the ResourceManager for those who ask, however many ask at once: one at a time."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

log = logging.getLogger("yarn_plugin.arbiter")

PAUSE = 0.5
"""Seconds between two looks, at least."""


class Looks:
    """Has `look` called, in a thread of its own, for everybody who asks.

    Who asks while a look goes on shares the next one with all others who do: the present one may have begun before
    what they want seen was there.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._next: Future[None] | None = None
        self._running = False

    async def look(self) -> None:
        """Return when a look that began after this call has ended, or failed: what is known then has to do."""
        with self._lock:
            if self._next is None:
                self._next = Future()
            seen = self._next
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="look", daemon=True).start()
        await asyncio.shield(asyncio.wrap_future(seen))

    def _run(self) -> None:
        while (seen := self._take()) is not None:
            try:
                self._look()
            except Exception:
                log.exception("a look that was asked for failed")
            with contextlib.suppress(Exception):
                seen.set_result(None)
            time.sleep(PAUSE)

    def _take(self) -> "Future[None] | None":
        with self._lock:
            seen, self._next = self._next, None
            self._running = seen is not None
            return seen
