"""Limits on connections: how many may be open, and how long each may take to send a request or read an answer.

uvicorn limits neither the number of connections nor the time for a request's head, so both are added here to its
protocol on h11. h11 is strict: it refuses two lengths, a length with chunked encoding, and folded headers.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from yarn_plugin.api import wire
from yarn_plugin.serving.limits import Limits
from yarn_plugin.serving.refusals import RETRY_AFTER, Refusals, answer

MAX_HEAD_BYTES = 32 * 1024
"""The size limit of a request's line and headers."""


class Connections:
    """The number of open connections, and its limit."""

    def __init__(self, limit: int, refusals: Refusals) -> None:
        self.limit, self.open = limit, 0
        self._refusals = refusals

    def acquire(self) -> bool:
        """Count one more connection; False if the limit is reached."""
        if self.open >= self.limit:
            self._refusals.count("connections")
            return False
        self.open += 1
        return True

    def release(self) -> None:
        """Count one connection less."""
        self.open -= 1


class CountedSocket(socket.socket):
    """An accepted connection, which is counted until it is closed."""

    counted: Connections | None = None

    def close(self) -> None:
        """Close the connection, and make room for another."""
        counted, self.counted = self.counted, None
        if counted is not None:
            counted.release()
        super().close()


class CountingListener(socket.socket):
    """A listening socket that accepts connections up to a limit, and refuses others at once.

    Connections are counted, and refused, before the TLS handshake. Each call of `accept` takes one, so that the event
    loop serves the accepted ones in between.

    Args:
        opened: the socket that listens; this object takes it over.
        connections: counts open connections.
        secure: the listener is for TLS, so a refusal cannot be sent in plain text.
    """

    def __init__(self, opened: socket.socket, connections: Connections, secure: bool) -> None:
        super().__init__(opened.family, opened.type, opened.proto, fileno=opened.detach())
        self.setblocking(False)
        self._connections, self._refusal = connections, b"" if secure else refusal()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            BlockingIOError: there is none now, or it was refused.
        """
        accepted, address = super().accept()
        if not self._connections.acquire():
            with accepted:
                accepted.setblocking(False)
                # The send buffer of a new connection has room; where the client is gone already, nothing is lost.
                if self._refusal:
                    _ignore_errors(lambda: accepted.send(self._refusal))
                    _ignore_errors(lambda: accepted.shutdown(socket.SHUT_WR))
            raise BlockingIOError
        counted = CountedSocket(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        counted.counted = self._connections
        return counted, address


def refusal() -> bytes:
    """The answer to a connection beyond the limit."""
    expected = "the limit of open connections is reached; retry later"
    response = answer(503, [wire.Problem(field="connection", expected=expected)])
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
        f"content-length: {len(response.body)}\r\n"
        f"retry-after: {RETRY_AFTER}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + bytes(response.body)


def limited_protocol(limits: Limits, refusals: Refusals) -> type[H11Protocol]:
    """uvicorn's protocol with these limits, for `uvicorn.Config(http=...)`."""

    class Limited(_LimitedProtocol):
        _limits, _refusals = limits, refusals

    return Limited


class _LimitedProtocol(H11Protocol):
    """A connection that is closed when a request's head arrives too slowly, or an answer is read too slowly."""

    _limits: Limits
    _refusals: Refusals
    _head_deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_deadline = _cancelled(self._head_deadline)
        self._read_deadline = _cancelled(self._read_deadline)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_deadline is None:
            self._read_deadline = self.loop.call_later(self._limits.write_timeout, self._abort, "slow_reader")

    def resume_writing(self) -> None:
        self._read_deadline = _cancelled(self._read_deadline)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP with problems, as the routes do."""
        self._refusals.count("malformed")
        expected = "must be valid HTTP/1.1, its line and headers within 32 KiB"
        response = answer(400, [wire.Problem(field="request", expected=expected)])
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(response.body)}\r\n"
        # Not in the middle of an answer to an earlier request.
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + bytes(response.body))
        self.transport.close()

    def _expect_head(self) -> None:
        """Set the deadline of the next request's head while none is being answered; single bytes do not extend it."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.is_closing():
            self._head_deadline = _cancelled(self._head_deadline)
        elif self._head_deadline is None:
            self._head_deadline = self.loop.call_later(self._limits.header_timeout, self._abort, "slow_head")

    def _abort(self, reason: str) -> None:
        self._head_deadline = self._read_deadline = None
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing() or (reason == "slow_head" and answering):
            return
        self._refusals.count(reason)
        self.transport.abort()


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer, if there is one, and return None in its place."""
    if timer is not None:
        timer.cancel()
    return None


def _ignore_errors(send: Callable[[], object]) -> None:
    try:
        send()
    except OSError:
        return
