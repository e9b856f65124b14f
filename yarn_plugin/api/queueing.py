"""Fair queues and shared polls: many callers, and something slow that answers few of them at a time."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

log = logging.getLogger("yarn_plugin.arbiter")

MAX_CONCURRENT_CHANGES = 4
"""Changes of one owner that the arbiter has undecided at a time; further ones wait for these."""

MAX_WAITING = 256
"""Requests of one owner that may wait: each holds a connection."""

MIN_POLL_INTERVAL = 5.0
"""Seconds between the starts of two polls on request: as often as applications are listed anyway (`[poll] apps_s`)."""


class QueueFullError(Exception):
    """Too many requests of this owner wait."""


class _OwnerQueue:
    def __init__(self, slots: int) -> None:
        self.slots, self.length = asyncio.Semaphore(slots), 0


class FairQueue:
    """A queue for each owner, so that many requests of one owner delay that owner only.

    Used on the server's event loop alone.

    Args:
        slots: how many requests of one owner are served at a time.
        requests: what waits, in the plural.
    """

    def __init__(self, slots: int = MAX_CONCURRENT_CHANGES, requests: str = "changes") -> None:
        self._slots, self._requests = slots, requests
        self._queues: dict[str, _OwnerQueue] = {}

    @contextlib.asynccontextmanager
    async def slot(self, owner: str) -> AsyncGenerator[None, None]:
        """Wait for a slot of this owner, and hold it until the block ends.

        Raises:
            QueueFullError: too many of the owner's requests wait already.
        """
        queue = self._queues.setdefault(owner, _OwnerQueue(self._slots))
        if queue.length >= self._slots + MAX_WAITING:
            raise QueueFullError(
                f"{queue.length} {self._requests} of this user are waiting, which is the limit; retry later"
            )
        queue.length += 1
        try:
            async with queue.slots:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[owner]


class SharedPoll:
    """Polls the ResourceManager on request, in a thread of its own: one poll at a time, however many callers ask.

    Callers that ask during a poll share the next one: the present one may have started before what they want to see
    was there.
    """

    def __init__(self, poll: Callable[[], None]) -> None:
        self._poll = poll
        self._lock = threading.Lock()
        self._next: Future[None] | None = None
        self._running = False

    async def run(self) -> None:
        """Return when a poll that started after this call has ended, successful or not."""
        with self._lock:
            if self._next is None:
                self._next = Future()
            done = self._next
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="poll", daemon=True).start()
        await asyncio.shield(asyncio.wrap_future(done))

    def _run(self) -> None:
        while (done := self._take()) is not None:
            next_at = time.monotonic() + MIN_POLL_INTERVAL
            try:
                self._poll()
            except Exception:
                log.exception(
                    "an API request's poll of the ResourceManager failed; it is answered from the previous poll"
                )
            with contextlib.suppress(Exception):
                done.set_result(None)
            time.sleep(max(next_at - time.monotonic(), 0.0))

    def _take(self) -> "Future[None] | None":
        with self._lock:
            done, self._next = self._next, None
            self._running = done is not None
            return done
