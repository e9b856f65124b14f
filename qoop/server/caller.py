"""Who sends a message, and what answers it: what the transports have in common."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a message. `connection`: the TCP connection that its sessions end with; None with HTTP."""

    user: str
    connection: object | None = None


class Service(Protocol):
    """Answers messages."""

    async def answer(self, message: bytes, caller: Caller) -> bytes:
        """The answer to a message.

        Raises:
            MalformedError: it is none.
        """
        ...

    async def gone(self, connection: object) -> None:
        """A connection has ended."""
        ...
