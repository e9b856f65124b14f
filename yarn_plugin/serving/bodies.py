"""A request's body is read within limits, before its handler runs; not at all from a caller who may not send one."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yarn_plugin.api import wire
from yarn_plugin.serving.limits import Limits
from yarn_plugin.serving.refusals import REASONS, Refusals, answer

MAX_DISCARDED_BYTES, DISCARD_TIMEOUT = 32 * 1024 * 1024, 1.0
"""How much of a refused body is discarded after the answer, in bytes and in seconds: a client that is cut off while it
still sends may never read the answer."""


SMALL_BODY = 1024
"""A body up to this many bytes is read at once: it has mostly arrived with the head."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a caller who may not send a request."""

    status: int
    problem: wire.Problem
    headers: Mapping[str, str] = field(default_factory=dict)


class NoTurnError(Exception):
    """Too many bodies of a caller wait to be read."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.problem.expected)
        self.refusal = refusal


def _at_once(scope: Scope) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class BodyLimitMiddleware:
    """Passes on requests that are admitted, with a complete body within the limits.

    Args:
        admit: how many bytes the body of a request may have; or why the request is refused.
        turn: entered to read a body that is not small; waits so that the bodies of one caller do not keep the event
            loop from all others, and raises NoTurnError where too many wait. What is not read yet is not sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        admit: Callable[[Scope], int | Refusal],
        limits: Limits,
        refusals: Refusals,
        turn: Callable[[Scope], AbstractAsyncContextManager[None]] = _at_once,
    ) -> None:
        self._app, self._admit, self._limits, self._refusals, self._turn = app, admit, limits, refusals, turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 408 or 413 at once, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._admit(scope)
        if isinstance(limit, Refusal):
            await self._refuse(scope, receive, send, limit)
            return
        try:
            body = await self._read_in_turn(scope, receive, limit)
        except NoTurnError as full:
            await self._refuse(scope, receive, send, full.refusal)
            return
        if isinstance(body, bytes):
            await self._app(scope, _replaying(body, receive), send)
        elif body == "too large":
            expected = f"must have at most {limit} bytes" if limit else "must be empty"
            await self._refuse(scope, receive, send, Refusal(413, wire.Problem(field="body", expected=expected)))
        elif body == "too slow":
            expected = f"must arrive completely within {self._limits.header_timeout:g} s"
            await self._refuse(scope, receive, send, Refusal(408, wire.Problem(field="body", expected=expected)))

    async def _read_in_turn(
        self, scope: Scope, receive: Receive, limit: int
    ) -> bytes | Literal["too large", "too slow", "gone"]:
        declared = _declared_length(scope)
        # One that is refused unread is, too; its sender may be unknown.
        is_small = not limit or (declared is not None and not SMALL_BODY < declared <= limit)
        async with _at_once(scope) if is_small else self._turn(scope):
            return await _read(scope, receive, limit, self._limits.header_timeout)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
        """Answer at once, then close the connection; what the client still sends is discarded."""
        self._refusals.count(REASONS[refusal.status])
        response = answer(refusal.status, [refusal.problem], {"Connection": "close", **refusal.headers})
        await send({"type": "http.response.start", "status": refusal.status, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        if refusal.status != 408:
            await _discard(scope, receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _declared_length(scope: Scope) -> int | None:
    """The length that the headers declare; None for chunked encoding, -1 where the length is malformed."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        return -1
    # Python refuses to parse numbers with thousands of digits.
    return int(length) if len(length) < 18 else 10**17


async def _read(
    scope: Scope, receive: Receive, limit: int, timeout: float
) -> bytes | Literal["too large", "too slow", "gone"]:
    declared = _declared_length(scope)
    if declared == 0:
        return b""
    if declared is not None and not 0 <= declared <= limit:
        return "too large"
    if limit == 0:
        return "too large"
    try:
        async with asyncio.timeout(timeout):
            return await _collect(receive, limit)
    except TimeoutError:
        return "too slow"


async def _collect(receive: Receive, limit: int) -> bytes | Literal["too large", "gone"]:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return "gone"
        body += message.get("body", b"")
        if len(body) > limit:
            return "too large"
        if not message.get("more_body", False):
            return bytes(body)


async def _discard(scope: Scope, receive: Receive) -> None:
    """Discard what the client still sends, up to the limits."""
    if _declared_length(scope) == 0:
        return
    discarded = 0
    try:
        async with asyncio.timeout(DISCARD_TIMEOUT):
            while discarded < MAX_DISCARDED_BYTES:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                discarded += len(message.get("body", b""))
    except TimeoutError:
        return


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Passes on the body that has been read, then further events of the connection."""
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
