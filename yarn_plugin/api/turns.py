"""Takes turns between those who want something decided: one who asks for much holds up himself, and not the others."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

AT_ONCE = 4
"""Changes of one owner that the arbiter has undecided at a time; further ones wait for these."""

MOST_WAITING = 256
"""Changes of one owner that wait, at most: each holds a connection."""


class CrowdedError(Exception):
    """As many changes of this owner wait as may."""


@dataclass(slots=True)
class _Queue:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    asking: int = 0


class Turns:
    """Used on the server's event loop alone."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    @contextlib.asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None, None]:
        """Wait for this owner's turn, and have it until the block ends.

        Raises:
            CrowdedError: too many of the owner's wait already.
        """
        queue = self._queues.setdefault(owner, _Queue())
        if queue.asking >= AT_ONCE + MOST_WAITING:
            raise CrowdedError(f"{queue.asking} changes of yours wait to be decided on; wait for their answers")
        queue.asking += 1
        try:
            async with queue.free:
                yield
        finally:
            queue.asking -= 1
            if not queue.asking:
                del self._queues[owner]
