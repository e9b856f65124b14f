"""Takes turns between those who want something: one who asks for much delays only their own requests."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

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
