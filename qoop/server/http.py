"""Thrift over HTTP: a message is the body of a POST, its answer that of the response."""

import asyncio
import base64
import binascii
from typing import Any, Protocol

import h11

from qoop.server.authentication import Authenticator
from qoop.server.caller import Caller, Service
from qoop.server.errors import AuthenticationError, MalformedError, ServerError
from qoop.server.limits import Received, ServerLimits
from qoop.server.sasl import Credentials

PATHS = ("/cliservice", "/cliservice/")
OF_DBT = "/sql/protocolv1/o/"
"""How the path begins that dbt's `method: http` asks for."""

TYPE = b"application/x-thrift"

OF_BROWSERS = frozenset({b"origin", b"sec-fetch-site", b"sec-fetch-mode"})
"""Headers that a browser sends with each POST of a page, and no client of databases does.

Without passwords, a page that any site shows to somebody at this machine could otherwise run statements here.
"""


MAX_PARTS = 20_000
"""Chunks of a body: each takes time, however small it is, in the one thread that reads for all clients."""


class ByteStream(Protocol):
    """A connection."""

    peer: str

    async def read_some(self) -> bytes:
        """Some bytes; none if the connection has ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Send."""
        ...

    def admit(self, user: str) -> None:
        """The client is known. Idempotent.

        Raises:
            LimitError: the user has too many connections.
        """
        ...


class Refused(Exception):  # noqa: N818 - an answer
    """A request is not served."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class HttpConnection:
    """One connection with HTTP/1.1. Its sessions do not end with it, as some clients open one for each call."""

    def __init__(
        self,
        stream: ByteStream,
        service: Service,
        authenticator: Authenticator,
        limits: ServerLimits,
        received: Received,
    ) -> None:
        self._stream, self._service, self._authenticator, self._limits = stream, service, authenticator, limits
        self._received = received
        self._http = h11.Connection(h11.SERVER)
        self._method = b""

    async def serve(self, first: bytes) -> None:
        """Answer requests until the connection ends; `first`: its first bytes."""
        self._http.receive_data(first)
        while True:
            try:
                await self._serve_one()
            except h11.RemoteProtocolError as problem:
                await self._send(problem.error_status_hint, b"not HTTP\n", close=True)
                return
            finally:
                self._received.release()
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _serve_one(self) -> None:
        async with asyncio.timeout(self._limits.receive_timeout_s):
            request = await self._next()
        if not isinstance(request, h11.Request):
            raise ConnectionError("the connection ended")
        self._method = request.method
        try:
            user = await self._check(request)
            self._stream.admit(user)
            async with asyncio.timeout(self._limits.receive_timeout_s):
                body = await self._body()
            answer = await self._service.answer(body, Caller(user))
        except Refused as refused:
            await self._send(refused.status, f"{refused}\n".encode(), close=True)
        except AuthenticationError as refused:
            await self._send(401, f"{refused}\n".encode(), close=True)
        except MalformedError as refused:
            await self._send(400, f"{refused}\n".encode(), close=True)
        except ServerError as refused:
            await self._send(503, f"{refused}\n".encode(), close=True)
        else:
            await self._send(200, answer)

    async def _check(self, request: h11.Request) -> str:
        """The user who sends a request."""
        path = request.target.partition(b"?")[0].decode(errors="replace")
        if path not in PATHS and not path.startswith(OF_DBT):
            raise Refused(404, f"path {path[:100]!r}: must be /cliservice")
        if request.method != b"POST":
            raise Refused(405, "method: must be POST")
        headers = dict(request.headers)
        if not headers.keys().isdisjoint(OF_BROWSERS):
            raise Refused(403, "header Origin: a web page may not use this server")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # A proxy in front may take the one for the message's end, and h11 the other.
            raise Refused(400, "headers Content-Length, Transfer-Encoding: only one may be given")
        length = headers.get(b"content-length", b"0")
        if len(length) > 12 or int(length) > self._limits.max_message_bytes:
            raise Refused(413, f"body: must have at most {self._limits.max_message_bytes} bytes")
        return await self._authenticator.user(self._credentials(headers.get(b"authorization", b"")))

    def _credentials(self, header: bytes) -> Credentials:
        scheme, _, value = header.decode(errors="replace").partition(" ")
        if scheme.lower() == "bearer":
            return Credentials("", value.strip())
        if scheme.lower() == "basic":
            try:
                user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                raise AuthenticationError("header Authorization: must be Basic, with user:password in base64") from None
            return Credentials(user, password)
        if self._authenticator.required:
            raise AuthenticationError("header Authorization: required; give a token of the arbiter's as the password")
        return Credentials("", "")

    async def _body(self) -> bytes:
        if self._http.they_are_waiting_for_100_continue:
            await self._stream.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        body, parts = bytearray(), 0
        while isinstance(event := await self._next(), h11.Data):
            parts += 1
            if parts > MAX_PARTS:
                raise Refused(413, f"body: must have at most {MAX_PARTS} chunks")
            self._received.expect(len(event.data))
            body += event.data
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionError("the connection ended")
        return bytes(body)

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.read_some())
        return event

    async def _send(self, status: int, body: bytes, close: bool = False) -> None:
        headers = [
            ("Content-Type", TYPE.decode() if status == 200 else "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            *([("Connection", "close")] if close else []),
            *([("WWW-Authenticate", 'Basic realm="qoop"')] if status == 401 else []),
        ]
        head = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
        # The answer to HEAD has no body.
        data = b"" if self._method == b"HEAD" else self._http.send(h11.Data(data=body)) or b""
        end = self._http.send(h11.EndOfMessage()) or b""
        await self._stream.write(head + data + end)
