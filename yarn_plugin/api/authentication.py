"""Before any route: who asks, and how much they send. Nothing of a body is read for somebody without a token."""

import asyncio
from collections.abc import Iterable
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yarn_plugin.api import wire
from yarn_plugin.api.refusals import REASONS, Limits, Refusals, answer
from yarn_plugin.api.tokens import Principal, Tokens

OPEN_PATHS = frozenset({"/v1/health", "/v1/ready", "/openapi.json"})
"""What is answered without a token."""

LONGEST_TOKEN = 1024
"""Characters of a token that are looked at, at most."""

DISCARDED, DISCARDING = 32 * 1024 * 1024, 1.0
"""How much of a refused body is thrown away after the answer, in bytes and in seconds: a client that is cut off while
it still sends may never read why."""


class AuthenticationMiddleware:
    """Passes on requests with a token of this arbiter, their bodies read whole and within the limits."""

    def __init__(self, app: ASGIApp, tokens: Tokens, limits: Limits, refusals: Refusals) -> None:
        self._app, self._tokens, self._limits, self._refusals = app, tokens, limits, refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 408 or 413 at once, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asking = find_principal(self._tokens, scope["headers"])
        is_open = scope["path"] in OPEN_PATHS
        if asking is None and not is_open:
            expected = "send 'Authorization: Bearer TOKEN' with a token of this arbiter"
            await self._refuse(scope, receive, send, 401, wire.Problem(field="Authorization", expected=expected))
            return
        most = 0 if is_open else self._limits.max_body
        body = await _read(scope, receive, most, self._limits.header_timeout)
        if isinstance(body, bytes):
            scope.setdefault("state", {})["principal"] = asking
            await self._app(scope, _replaying(body, receive), send)
        elif body == "too large":
            problem = wire.Problem(field="body", expected=f"send at most {most} bytes" if most else "send no body")
            await self._refuse(scope, receive, send, 413, problem)
        elif body == "too slow":
            expected = f"send the whole of it within {self._limits.header_timeout:g} s"
            await self._refuse(scope, receive, send, 408, wire.Problem(field="body", expected=expected))

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, problem: wire.Problem) -> None:
        """Answer at once, then close the connection: what the client still sends is not kept."""
        self._refusals.count(REASONS[status])
        said = answer(status, [problem], {"Connection": "close", **_CHALLENGE.get(status, {})})
        await send({"type": "http.response.start", "status": status, "headers": said.raw_headers})
        await send({"type": "http.response.body", "body": said.body, "more_body": True})
        if status != 408:
            await _discard(scope, receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


_CHALLENGE = {401: {"WWW-Authenticate": "Bearer"}}


def find_principal(tokens: Tokens, headers: Iterable[tuple[bytes, bytes]]) -> Principal | None:
    """Whose token a request carries: in exactly one Authorization header."""
    found = [value for name, value in headers if name.lower() == b"authorization"]
    if len(found) != 1 or len(found[0]) > LONGEST_TOKEN:
        return None
    return tokens.check(found[0].decode("latin-1").removeprefix("Bearer ").strip())


def _declared(scope: Scope) -> int | None:
    """How long the body says it is: None where it comes in pieces; -1 where it says something that is no length."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        return -1
    # Nobody sends 10**17 bytes, and Python refuses to read numbers of very many digits.
    return int(length) if len(length) < 18 else 10**17


async def _read(
    scope: Scope, receive: Receive, most: int, seconds: float
) -> bytes | Literal["too large", "too slow", "gone"]:
    declared = _declared(scope)
    if declared == 0:
        return b""
    if declared is not None and not 0 <= declared <= most:
        return "too large"
    if most == 0:
        return "too large"
    try:
        async with asyncio.timeout(seconds):
            return await _collect(receive, most)
    except TimeoutError:
        return "too slow"


async def _collect(receive: Receive, most: int) -> bytes | Literal["too large", "gone"]:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return "gone"
        body += message.get("body", b"")
        if len(body) > most:
            return "too large"
        if not message.get("more_body", False):
            return bytes(body)


async def _discard(scope: Scope, receive: Receive) -> None:
    """Throw away what is still sent, for a moment."""
    if _declared(scope) == 0:
        return
    thrown = 0
    try:
        async with asyncio.timeout(DISCARDING):
            while thrown < DISCARDED:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                thrown += len(message.get("body", b""))
    except TimeoutError:
        return


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Gives the body that has been read, then whatever else happens on the connection."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
