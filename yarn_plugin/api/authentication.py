"""Authentication and body limits, before any route. No body is read from a caller without a token."""

import asyncio
from collections.abc import Iterable
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yarn_plugin.api import wire
from yarn_plugin.api.refusals import REASONS, Limits, Refusals, answer
from yarn_plugin.api.tokens import Principal, Tokens

OPEN_PATHS = frozenset({"/v1/health", "/v1/ready", "/openapi.json"})
"""Paths that need no token."""

MAX_TOKEN_LENGTH = 1024
"""Characters of a token; a longer one is refused unread."""

MAX_DISCARDED_BYTES, DISCARD_TIMEOUT = 32 * 1024 * 1024, 1.0
"""How much of a refused body is discarded after the answer, in bytes and in seconds: a client that is cut off while it
still sends may never read the answer."""


class AuthenticationMiddleware:
    """Passes on requests that have a token of this arbiter and a complete body within the limits."""

    def __init__(self, app: ASGIApp, tokens: Tokens, limits: Limits, refusals: Refusals) -> None:
        self._app, self._tokens, self._limits, self._refusals = app, tokens, limits, refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 408 or 413 at once, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = find_principal(self._tokens, scope["headers"])
        is_open = scope["path"] in OPEN_PATHS
        if caller is None and not is_open:
            expected = "must be 'Bearer TOKEN', with a valid token of this arbiter"
            await self._refuse(scope, receive, send, 401, wire.Problem(field="Authorization", expected=expected))
            return
        limit = 0 if is_open else self._limits.max_body
        body = await _read(scope, receive, limit, self._limits.header_timeout)
        if isinstance(body, bytes):
            scope.setdefault("state", {})["principal"] = caller
            await self._app(scope, _replaying(body, receive), send)
        elif body == "too large":
            problem = wire.Problem(
                field="body", expected=f"must have at most {limit} bytes" if limit else "must be empty"
            )
            await self._refuse(scope, receive, send, 413, problem)
        elif body == "too slow":
            expected = f"must arrive completely within {self._limits.header_timeout:g} s"
            await self._refuse(scope, receive, send, 408, wire.Problem(field="body", expected=expected))

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, problem: wire.Problem) -> None:
        """Answer at once, then close the connection; what the client still sends is discarded."""
        self._refusals.count(REASONS[status])
        response = answer(status, [problem], {"Connection": "close", **_CHALLENGE.get(status, {})})
        await send({"type": "http.response.start", "status": status, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        if status != 408:
            await _discard(scope, receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


_CHALLENGE = {401: {"WWW-Authenticate": "Bearer"}}


def find_principal(tokens: Tokens, headers: Iterable[tuple[bytes, bytes]]) -> Principal | None:
    """Whose token a request carries, in exactly one Authorization header; None where it is nobody's."""
    found = [value for name, value in headers if name.lower() == b"authorization"]
    if len(found) != 1 or len(found[0]) > MAX_TOKEN_LENGTH:
        return None
    return tokens.check(found[0].decode("latin-1").removeprefix("Bearer ").strip())


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
