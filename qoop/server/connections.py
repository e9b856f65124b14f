"""TCP connections: one port for SASL PLAIN, plain Thrift (NOSASL) and HTTP, told apart by the first byte."""

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

from qoop.server import sasl
from qoop.server.admission import Admission, AdmittingListener
from qoop.server.authentication import ANONYMOUS, Authenticator
from qoop.server.caller import Caller, Service
from qoop.server.errors import AuthenticationError, LimitError, ServerError
from qoop.server.http import HttpConnection
from qoop.server.limits import Budget, Received, ServerLimits
from qoop.server.messages import read_framed, read_unframed
from yarn_plugin.errors import BadInputError, describe
from yarn_plugin.serving.connections import Connections
from yarn_plugin.serving.limits import BACKLOG, allowed_connections
from yarn_plugin.serving.refusals import Refusals

log = logging.getLogger("qoop.server")

SASL_START, THRIFT = sasl.Status.START, 0x80
"""What the first byte of a connection says."""

LENGTH = struct.Struct("!i")

KEEPALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
"""A client whose machine has gone is noticed after two minutes: 60 s of silence, then four probes each 15 s."""


class _Protocol(asyncio.StreamReaderProtocol):
    """A stream whose end is noticed although nobody reads it, as while a call is answered."""

    def __init__(
        self, serve: Callable[["Stream"], Awaitable[None]], limits: ServerLimits, admission: Admission
    ) -> None:
        loop = asyncio.get_running_loop()
        # asyncio itself refers to it weakly.
        self._reader = asyncio.StreamReader(loop=loop)
        super().__init__(self._reader, loop=loop)
        self._serve, self._limits, self._admission = serve, limits, admission
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE.items():
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
        stream = Stream(self._reader, transport, self, self._ended, self._limits, self._admission)
        self._task = asyncio.get_running_loop().create_task(_served(self._serve, stream))

    def eof_received(self) -> bool:
        self._ended.set()
        super().eof_received()
        # A client that sends nothing more has gone: asyncio closes the connection.
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        super().connection_lost(exc)


async def _served(serve: Callable[["Stream"], Awaitable[None]], stream: "Stream") -> None:
    try:
        await serve(stream)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
        pass
    except ServerError as problem:
        log.warning("connection from %s: closed: %s", stream.peer, problem)
    except Exception as problem:
        log.exception("connection from %s: closed: %s", stream.peer, describe(problem))
    finally:
        stream.close()


class Stream:
    """A connection: reads within a time, and writes only as fast as the client reads."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        transport: asyncio.Transport,
        protocol: asyncio.StreamReaderProtocol,
        ended: asyncio.Event,
        limits: ServerLimits,
        admission: Admission,
    ) -> None:
        self._reader, self._transport, self._ended, self._limits = reader, transport, ended, limits
        self._writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if address else "a client"
        self._admission = admission
        self._user: str | None = None

    def admit(self, user: str) -> None:
        """The client is known. Idempotent.

        Raises:
            LimitError: the user has too many connections.
        """
        if self._user is None:
            self._admission.admit(self._transport.get_extra_info("socket").fileno(), user)
            self._user = user

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        return await self._reader.readexactly(count)

    async def read_some(self) -> bytes:
        """Some bytes; none if the connection has ended."""
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        """Send, and wait until the client has read most of it.

        Raises:
            TimeoutError: it reads too slowly.
        """
        self._writer.write(data)
        async with asyncio.timeout(self._limits.write_timeout_s):
            await self._writer.drain()

    async def or_end(self, answer: Awaitable[bytes]) -> bytes:
        """The answer to a call.

        Raises:
            ConnectionError: the connection ended first; the call is cancelled.
        """
        task = asyncio.ensure_future(answer)
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ConnectionError("the connection ended")
        finally:
            ended.cancel()
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    def close(self) -> None:
        """Close the connection; what the client does not read is dropped."""
        if self._user is not None:
            self._admission.leave(self._user)
            self._user = None
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()


class Listener:
    """Accepts connections, and serves them until it is closed.

    Args:
        listening: the socket.
        certificate: for TLS.
    """

    def __init__(
        self,
        listening: socket.socket,
        service: Service,
        authenticator: Authenticator,
        limits: ServerLimits,
        certificate: ssl.SSLContext | None = None,
    ) -> None:
        self._service, self._authenticator, self._limits, self._certificate = (
            service,
            authenticator,
            limits,
            certificate,
        )
        self._received = Budget(limits.max_received_bytes)
        connections = Connections(allowed_connections(limits.max_connections), Refusals())
        self._admission = Admission(connections)
        self._listening = AdmittingListener(listening, connections, self._admission)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        limits, admission = self._limits, self._admission
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(self._serve, limits, admission),
            sock=self._listening,
            backlog=BACKLOG,
            ssl=self._certificate,
            ssl_handshake_timeout=limits.handshake_timeout_s if self._certificate else None,
        )

    @property
    def where(self) -> str:
        """The address, with the port that it has."""
        host, port = self._listening.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, stream: Stream) -> None:
        async with asyncio.timeout(self._limits.handshake_timeout_s):
            first = await stream.read(1)
        if first[0] == SASL_START:
            await self._serve_sasl(stream)
        elif first[0] == THRIFT:
            await self._serve_unframed(stream, first)
        else:
            received = Received(self._limits.max_message_bytes, self._received)
            await HttpConnection(stream, self._service, self._authenticator, self._limits, received).serve(first)

    async def _serve_sasl(self, stream: Stream) -> None:
        async with asyncio.timeout(self._limits.handshake_timeout_s):
            user = await self._negotiate(stream)
        if user is None:
            return
        caller = Caller(user, stream)
        try:
            while True:
                length = LENGTH.unpack(await self._idle_read(stream, LENGTH.size))[0]
                answer = await self._answer(stream, caller, self._framed(stream, length))
                await stream.write(LENGTH.pack(len(answer)) + answer)
        finally:
            await self._service.gone(stream)

    async def _negotiate(self, stream: Stream) -> str | None:
        """The user; None if it is refused."""
        try:
            status, length = sasl.header(b"\x01" + await stream.read(4))
            sasl.check_mechanism(status, await stream.read(length))
            status, length = sasl.header(await stream.read(5))
            user = await self._authenticator.user(sasl.credentials(await stream.read(length)))
            stream.admit(user)
        except (AuthenticationError, LimitError) as refused:
            log.warning("connection from %s: refused: %s", stream.peer, refused)
            await stream.write(sasl.message(sasl.Status.BAD, str(refused).encode()))
            return None
        await stream.write(sasl.message(sasl.Status.COMPLETE))
        return user

    async def _serve_unframed(self, stream: Stream, first: bytes) -> None:
        if self._authenticator.required:
            raise AuthenticationError("NOSASL: has no password; use SASL PLAIN or HTTP, with a token as the password")
        caller = Caller(ANONYMOUS, stream)
        try:
            while True:
                await stream.write(await self._answer(stream, caller, self._unframed(stream, first)))
                first = await self._idle_read(stream, 1)
        finally:
            await self._service.gone(stream)

    async def _idle_read(self, stream: Stream, count: int) -> bytes:
        """The first bytes of the next message, which may be long in coming."""
        async with asyncio.timeout(2 * self._limits.idle_timeout_s):
            return await stream.read(count)

    def _framed(self, stream: Stream, length: int) -> Callable[[Received], Awaitable[bytes]]:
        async def read(received: Received) -> bytes:
            return await read_framed(length, stream.read, received)

        return read

    def _unframed(self, stream: Stream, first: bytes) -> Callable[[Received], Awaitable[bytes]]:
        async def read(received: Received) -> bytes:
            message = await read_unframed(first, stream.read, received)
            stream.admit(ANONYMOUS)
            return message

        return read

    async def _answer(self, stream: Stream, caller: Caller, read: Callable[[Received], Awaitable[bytes]]) -> bytes:
        received = Received(self._limits.max_message_bytes, self._received)
        try:
            async with asyncio.timeout(self._limits.receive_timeout_s):
                message = await read(received)
            return await stream.or_end(self._service.answer(message, caller))
        finally:
            received.release()


def tls(certificate: str, key: str) -> ssl.SSLContext:
    """What TLS needs.

    Raises:
        BadInputError: the files are no certificate with its key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as problem:
        raise BadInputError("--tls-cert", certificate, f"is no certificate with its key: {describe(problem)}") from None
    return context
