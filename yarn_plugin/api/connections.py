"""The service's connections: how many there are, and how long each may take over a request.

uvicorn bounds neither what is accepted nor how long a request's head may take, so both are added here to its protocol
on h11. h11 reads requests to the letter: two lengths, a length beside pieces, or a folded header are refused.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from yarn_plugin.api import wire
from yarn_plugin.api.refusals import RETRY_AFTER, Limits, Refusals, answer

LONGEST_HEAD = 32 * 1024
"""Bytes of a request's line and headers, at most."""


class Connections:
    """How many connections are open, of how many that may be."""

    def __init__(self, most: int, refusals: Refusals) -> None:
        self.most, self.open = most, 0
        self._refusals = refusals

    def take(self) -> bool:
        """Count one more in; False if there are as many as may be."""
        if self.open >= self.most:
            self._refusals.count("connections")
            return False
        self.open += 1
        return True

    def give_back(self) -> None:
        """Count one out."""
        self.open -= 1


class CountedSocket(socket.socket):
    """An accepted connection; closing it counts it out."""

    counted: Connections | None = None

    def close(self) -> None:
        """Close, and make room for another."""
        counted, self.counted = self.counted, None
        if counted is not None:
            counted.give_back()
        super().close()


class CountingListener(socket.socket):
    """A listening socket that accepts so many connections and turns others away at once.

    What is counted begins before TLS is agreed on, and so does what is turned away. One a call: between two of them,
    the event loop serves those that are in.

    Args:
        opened: the socket that listens; this one takes it over.
        connections: counts.
        secure: TLS is spoken here, so a refusal cannot be.
    """

    def __init__(self, opened: socket.socket, connections: Connections, secure: bool) -> None:
        super().__init__(opened.family, opened.type, opened.proto, fileno=opened.detach())
        self.setblocking(False)
        self._connections, self._turned_away = connections, b"" if secure else refusal()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            BlockingIOError: there is none now, or it was turned away.
        """
        accepted, address = super().accept()
        if not self._connections.take():
            with accepted:
                accepted.setblocking(False)
                # It is new, so there is room for what is said; where the other end is gone already, nothing is lost.
                if self._turned_away:
                    _try(lambda: accepted.send(self._turned_away))
                    _try(lambda: accepted.shutdown(socket.SHUT_WR))
            raise BlockingIOError
        counted = CountedSocket(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        counted.counted = self._connections
        return counted, address


def refusal() -> bytes:
    """The answer to a connection beyond those that may be."""
    expected = "the limit of open connections is reached; try again later"
    said = answer(503, [wire.Problem(field="connection", expected=expected)])
    head = (
        f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(said.body)}\r\n"
        f"retry-after: {RETRY_AFTER}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + bytes(said.body)


def protocol(limits: Limits, refusals: Refusals) -> type[H11Protocol]:
    """uvicorn's protocol within these limits, for `uvicorn.Config(http=...)`."""

    class Limited(_LimitedProtocol):
        _limits, _refusals = limits, refusals

    return Limited


class _LimitedProtocol(H11Protocol):
    """A connection that is closed when a request's head does not come in time, or what is sent is not read in time."""

    _limits: Limits
    _refusals: Refusals
    _head_due: asyncio.TimerHandle | None = None
    _read_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_due = _cancelled(self._head_due)
        self._read_due = _cancelled(self._read_due)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_due is None:
            self._read_due = self.loop.call_later(self._limits.write_timeout, self._end, "slow_reader")

    def resume_writing(self) -> None:
        self._read_due = _cancelled(self._read_due)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with problems, as everything else."""
        self._refusals.count("malformed")
        expected = "send a valid HTTP/1.1 request, its line and headers within 32 KiB"
        said = answer(400, [wire.Problem(field="request", expected=expected)])
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(said.body)}\r\n"
        # Amid an answer to an earlier request there is no place for this one.
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + bytes(said.body))
        self.transport.close()

    def _expect_head(self) -> None:
        """While no request is being answered, the next one's head is due; bytes that trickle in do not put that off."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.is_closing():
            self._head_due = _cancelled(self._head_due)
        elif self._head_due is None:
            self._head_due = self.loop.call_later(self._limits.header_timeout, self._end, "slow_head")

    def _end(self, reason: str) -> None:
        self._head_due = self._read_due = None
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing() or (reason == "slow_head" and answering):
            return
        self._refusals.count(reason)
        self.transport.abort()


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer: this one, if it is one, is cancelled."""
    if timer is not None:
        timer.cancel()
    return None


def _try(say: Callable[[], object]) -> None:
    try:
        say()
    except OSError:
        return
