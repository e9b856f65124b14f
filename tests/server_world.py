"""A server without Spark: its handler and transports, with statements that a test decides."""

import asyncio
import base64
import contextlib
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

pytest.importorskip("TCLIService", reason="needs thrift and PyHive")

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from qoop.server.authentication import ByName
from qoop.server.backend import Answer, Table, TableColumn
from qoop.server.connections import Listener
from qoop.server.encoding import schema_of
from qoop.server.errors import StatementFailedError
from qoop.server.handler import Handler
from qoop.server.limits import Budget, ServerLimits
from qoop.server.results import ResultRoom, of_rows
from qoop.server.types import Column, TypeId

NUMBERS = (Column("n", TypeId.BIGINT),)


class ToySession:
    """Statements: `rows N`, `sleep S`, `wait` (until it is cancelled), `fail`."""

    def __init__(self, world, user, configuration):
        self.world, self.user, self.configuration = world, user, configuration
        self.cancelled = {}
        self.closed = False

    def run(self, statement, room):
        stopped = self.cancelled.setdefault(statement.group, threading.Event())
        self.world.started.append(statement.text)
        word, _, rest = statement.text.partition(" ")
        statement.log.add(f"started {statement.text[:20]}")
        if word == "sleep":
            time.sleep(float(rest))
            return Answer(NUMBERS, None)
        if word == "wait":
            assert stopped.wait(20), "nobody has cancelled it"
            raise StatementFailedError("SPARK_JOB_CANCELLED")
        if word == "fail":
            raise StatementFailedError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", "22012")
        rows = [(number,) for number in range(int(rest or 0))]
        return Answer(NUMBERS, of_rows(room, schema_of(NUMBERS), rows))

    def cancel(self, group):
        self.world.cancelled.append(group)
        self.cancelled.setdefault(group, threading.Event()).set()

    def schemas(self):
        return ["default", "sales"]

    def tables(self, schema):
        return [Table("item", "TABLE", "things"), Table("recent", "VIEW")] if schema == "sales" else []

    def columns(self, schema, table):
        self.world.listing.wait(40)
        return [TableColumn("id", "bigint"), TableColumn("price", "decimal(7,2)", "in EUR")]

    def functions(self):
        return ["abs", "upper"]

    def close(self):
        self.closed = True


@dataclass
class World:
    """A server at a port of this machine, in a thread; `backend`: what runs its statements instead of `ToySession`."""

    limits: ServerLimits = field(default_factory=lambda: ServerLimits(poll_s=0.05))
    authenticator: object = field(default_factory=ByName)
    version: str = "4.3.0"
    backend: object = None
    certificate: ssl.SSLContext | None = None
    port: int = 0

    def __post_init__(self):
        self.opening_s = 0.0
        self.started, self.cancelled, self.opened = [], [], []
        self.listing = threading.Event()
        self.listing.set()
        self.room = ResultRoom(Budget(self.limits.memory_bytes), Budget(self.limits.disk_bytes))

    def open_session(self, user, configuration):
        time.sleep(self.opening_s)
        self.opened.append(ToySession(self, user, configuration))
        return self.opened[-1]

    @contextlib.contextmanager
    def running(self):
        ready, loop = threading.Event(), asyncio.new_event_loop()
        self.handler = Handler(self.backend or self, self.limits, self.room)
        stop = asyncio.Event()

        async def serve():
            listening = socket.create_server(("127.0.0.1", 0))
            self.port = listening.getsockname()[1]
            listener = Listener(listening, self.handler, self.authenticator, self.limits, self.certificate)
            await listener.start()
            ready.set()
            await stop.wait()
            listener.close()
            await self.handler.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="server")
        thread.start()
        assert ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(20)
            loop.close()


class Client:
    """A client that speaks the protocol itself: `sasl`, `nosasl` or `http`."""

    def __init__(self, port, way="sasl", user="me", password="x"):
        self.way, self.user, self.password = way, user, password
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.socket.makefile("rb")
        if way == "sasl":
            try:
                self._negotiate()
            except OSError:
                self.close()
                raise

    def _negotiate(self):
        self.socket.sendall(b"\x01" + struct.pack("!i", 5) + b"PLAIN")
        plain = f"\0{self.user}\0{self.password}".encode()
        self.socket.sendall(b"\x02" + struct.pack("!i", len(plain)) + plain)
        status, length = struct.unpack("!bi", self.read(5))
        self.refusal = self.read(length).decode() if status != 5 else None

    def read(self, count):
        data = self.file.read(count)
        if len(data) < count:
            raise ConnectionError("the server has closed the connection")
        return data

    def send(self, message):
        if self.way == "sasl":
            message = struct.pack("!i", len(message)) + message
        elif self.way == "http":
            basic = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            headers = ("Host: x", f"Authorization: Basic {basic}", f"Content-Length: {len(message)}")
            message = "\r\n".join(("POST /cliservice HTTP/1.1", *headers, "\r\n")).encode() + message
        self.socket.sendall(message)

    def receive(self, name):
        if self.way == "sasl":
            buffer = TMemoryBuffer(self.read(struct.unpack("!i", self.read(4))[0]))
        elif self.way == "http":
            status, length = int(self.file.readline().split()[1]), 0
            while line := self.file.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            body = self.read(length)
            if status != 200:
                raise ConnectionError(body.decode())
            buffer = TMemoryBuffer(body)
        else:
            buffer = _Readable(self)
        protocol = TBinaryProtocol(buffer)
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(protocol)
            raise failure
        result = getattr(TCLIService, f"{name}_result")()
        result.read(protocol)
        return result.success

    def call(self, name, **fields):
        self.send(message(name, **fields))
        return self.receive(name)

    def open(self, **configuration):
        return self.call("OpenSession", client_protocol=9, configuration=configuration).sessionHandle

    def execute(self, session, text, is_async=True, timeout=0):
        return self.call(
            "ExecuteStatement", sessionHandle=session, statement=text, runAsync=is_async, queryTimeout=timeout
        )

    def status(self, operation):
        return self.call("GetOperationStatus", operationHandle=operation)

    def until_ended(self, operation):
        while (status := self.status(operation)).operationState in (1, 7):
            pass
        return status

    def fetch(self, operation, rows=1000, orientation=0, kind=0):
        return self.call(
            "FetchResults", operationHandle=operation, orientation=orientation, maxRows=rows, fetchType=kind
        )

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


class _Readable:
    def __init__(self, client):
        self._client = client

    def readAll(self, count):  # noqa: N802
        return self._client.read(count)


def message(name, **fields):
    """The bytes of a call."""
    request = getattr(ttypes, f"T{name}Req")(**fields)
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, TMessageType.CALL, 7)
    getattr(TCLIService, f"{name}_args")(request).write(protocol)
    return buffer.getvalue()


def small(**changes):
    """Limits for tests."""
    return replace(ServerLimits(poll_s=0.05), **changes)


def batch(*values):
    """A batch of one column."""
    return pa.RecordBatch.from_arrays([pa.array(values)], ["0"])
