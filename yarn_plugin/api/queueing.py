"""Fair queues and shared polls: many callers, and something slow that answers few of them at a time."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

AT_ONCE = 4
"""Changes of one owner that the arbiter has undecided at a time; further ones wait for these."""

MOST_WAITING = 256
"""Requests of one owner that wait, at most: each holds a connection."""


class CrowdedError(Exception):
    """As many requests of this owner wait as may."""


class _Queue:
    def __init__(self, at_once: int) -> None:
        self.free, self.asking = asyncio.Semaphore(at_once), 0


class Turns:
    """Used on the server's event loop alone.

    Args:
        at_once: how many of one owner have their turn at a time.
        of: what waits, in the plural.
    """

    def __init__(self, at_once: int = AT_ONCE, of: str = "changes") -> None:
        self._at_once, self._of = at_once, of
        self._queues: dict[str, _Queue] = {}

    @contextlib.asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None, None]:
        """Wait for this owner's turn, and have it until the block ends.

        Raises:
            CrowdedError: too many of the owner's wait already.
        """
        queue = self._queues.setdefault(owner, _Queue(self._at_once))
        if queue.asking >= self._at_once + MOST_WAITING:
            raise CrowdedError(f"you have {queue.asking} {self._of} waiting; wait for their answers")
        queue.asking += 1
        try:
            async with queue.free:
                yield
        finally:
            queue.asking -= 1
            if not queue.asking:
                del self._queues[owner]


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
