"""The server's protocol over real sockets, without Spark: calls, states, limits, and clients that mean no good."""

import select
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.server_world import Client, World, message, small  # first: it skips where Thrift is missing

from thrift.Thrift import TApplicationException  # isort: skip

from qoop.server.connections import tls
from qoop.server.errors import AuthenticationError

FINISHED, CANCELED, ERROR, TIMEDOUT = 2, 3, 5, 8
WAYS = ["sasl", "nosasl", "http"]
PEM = str(Path(__file__).parents[1] / "data" / "loopback.pem")


@pytest.fixture
def world():
    with World().running() as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
def test_a_query_on_every_transport(world, way):
    client = Client(world.port, way)
    session = client.open()
    operation = client.execute(session, "rows 3;").operationHandle
    status = client.until_ended(operation)
    assert (status.operationState, status.hasResultSet) == (FINISHED, True)
    schema = client.call("GetResultSetMetadata", operationHandle=operation).schema
    assert [column.columnName for column in schema.columns] == ["n"]
    page = client.fetch(operation, 2)
    assert (page.results.columns[0].i64Val.values, page.hasMoreRows) == ([0, 1], True)
    page = client.fetch(operation, 2)
    assert (page.results.columns[0].i64Val.values, page.hasMoreRows) == ([2], False)
    assert client.fetch(operation, 2).results.columns[0].i64Val.values == []
    assert client.fetch(operation, 9, orientation=4).results.columns[0].i64Val.values == [0, 1, 2]
    assert client.fetch(operation, 9, kind=1).results.columns[0].stringVal.values == ["started rows 3"]
    assert client.call("CloseOperation", operationHandle=operation).status.statusCode == 0
    assert client.status(operation).status.statusCode == 4
    assert client.call("CloseSession", sessionHandle=session).status.statusCode == 0
    assert world.started == ["rows 3"]
    assert world.opened[0].user == ("anonymous" if way == "nosasl" else "me")
    client.close()


@pytest.mark.parametrize("is_async", [True, False])
def test_a_failure_has_sparks_message_and_sqlstate(world, is_async):
    client = Client(world.port)
    answer = client.execute(client.open(), "fail", is_async)
    if is_async:
        status = client.until_ended(answer.operationHandle)
        assert (status.operationState, status.sqlState) == (ERROR, "22012")
        assert status.errorMessage.startswith("[DIVIDE_BY_ZERO]")
        answer = client.fetch(answer.operationHandle)
    assert (answer.status.statusCode, answer.status.sqlState) == (3, "22012")
    assert answer.status.errorMessage.startswith("[DIVIDE_BY_ZERO]")
    client.close()


def test_a_statement_is_cancelled_while_another_call_waits_for_it(world):
    client, other = Client(world.port, "http"), Client(world.port, "http")
    operation = client.execute(client.open(), "wait").operationHandle
    eventually(lambda: world.started)
    assert client.status(operation).operationState == 1
    assert client.fetch(operation).status.sqlState == "HY010"
    other.call("CancelOperation", operationHandle=operation)
    status = client.until_ended(operation)
    assert (status.operationState, status.sqlState) == (CANCELED, "HY008")
    eventually(lambda: len(world.cancelled) == 1)
    client.close()
    other.close()


def test_a_statement_ends_at_its_timeout(world):
    client = Client(world.port)
    operation = client.execute(client.open(), "wait", timeout=1).operationHandle
    status = client.until_ended(operation)
    assert (status.operationState, status.sqlState) == (TIMEDOUT, "HYT00")
    eventually(lambda: len(world.cancelled) == 1)
    client.close()


@pytest.mark.parametrize("is_async", [True, False])
def test_a_connection_that_ends_takes_its_sessions_and_statements_along(world, is_async):
    client = Client(world.port)
    session = client.open()
    client.send(message("ExecuteStatement", sessionHandle=session, statement="wait", runAsync=is_async))
    eventually(lambda: world.started)
    client.close()
    eventually(lambda: world.cancelled and world.opened[0].closed)
    eventually(lambda: not world.handler.sessions.all())


def test_a_session_whose_client_leaves_while_it_is_opened_is_closed(world):
    world.opening_s = 0.3
    client = Client(world.port)
    client.send(message("OpenSession", client_protocol=9))
    time.sleep(0.1)
    client.close()
    eventually(lambda: world.opened and world.opened[0].closed)
    assert not world.handler.sessions.all()


def test_http_sessions_outlive_their_connections_until_they_are_idle():
    with World(small(idle_timeout_s=0.2)).running() as world:
        client = Client(world.port, "http")
        session = client.open()
        client.close()
        client = Client(world.port, "http")
        assert client.execute(session, "rows 1", is_async=False).status.statusCode == 0
        eventually(world.handler.sessions.idle)
        client.close()


def test_statements_beyond_the_limit_wait_and_are_withdrawn():
    with World(small(max_running=1)).running() as world:
        client = Client(world.port)
        session = client.open()
        running, waiting = (client.execute(session, "wait").operationHandle for _ in range(2))
        eventually(lambda: world.started)
        assert client.status(waiting).operationState == 7
        client.call("CancelOperation", operationHandle=waiting)
        assert client.status(waiting).operationState == CANCELED
        assert (len(world.started), world.cancelled) == (1, [])
        client.call("CloseOperation", operationHandle=running)
        eventually(lambda: len(world.cancelled) == 1)
        client.close()


def test_many_polls_hold_no_thread():
    with World(small(poll_s=1.0)).running() as world:
        waiting = Client(world.port)
        operation = waiting.execute(waiting.open(), "wait").operationHandle
        eventually(lambda: world.started)
        pollers = [Client(world.port, user="me") for _ in range(30)]
        threads = threading.active_count()
        for poller in pollers:
            poller.send(message("GetOperationStatus", operationHandle=operation))
        quick = Client(world.port)
        assert quick.execute(quick.open(), "rows 1", is_async=False).status.statusCode == 0
        assert threading.active_count() <= threads + 2
        for client in (*pollers, quick, waiting):
            client.close()


def test_questions_about_the_catalogue(world):
    client = Client(world.port)
    session = client.open()

    def ask(name, **fields):
        answer = client.call(name, sessionHandle=session, **fields)
        assert answer.status.statusCode == 0, answer.status.errorMessage
        schema = client.call("GetResultSetMetadata", operationHandle=answer.operationHandle).schema
        page = client.fetch(answer.operationHandle).results.columns
        values = [next(value for value in vars(column).values() if value is not None).values for column in page]
        return {column.columnName: shown for column, shown in zip(schema.columns, values, strict=True)}

    assert ask("GetSchemas", schemaName="%")["TABLE_SCHEM"] == ["default", "sales"]
    tables = ask("GetTables", schemaName="s%", tableName="%")
    assert (tables["TABLE_NAME"], tables["TABLE_TYPE"]) == (["item", "recent"], ["TABLE", "VIEW"])
    assert ask("GetTables", schemaName=".*", tableName=".*", tableTypes=["VIEW"])["TABLE_NAME"] == ["recent"]
    columns = ask("GetColumns", schemaName="sales", tableName="item", columnName="%")
    assert (columns["COLUMN_NAME"], columns["DATA_TYPE"]) == (["id", "price"], [-5, 3])
    assert (columns["COLUMN_SIZE"], columns["DECIMAL_DIGITS"]) == ([19, 7], [0, 2])
    assert columns["TYPE_NAME"] == ["BIGINT", "DECIMAL(7,2)"]
    assert ask("GetTableTypes")["TABLE_TYPE"] == ["TABLE", "VIEW"]
    assert "DECIMAL" in ask("GetTypeInfo")["TYPE_NAME"]
    assert ask("GetFunctions", functionName="up%")["FUNCTION_NAME"] == ["upper"]
    assert ask("GetCatalogs")["TABLE_CAT"] == []
    assert ask("GetPrimaryKeys")["PK_NAME"] == []
    assert ask("GetCrossReference")["FK_NAME"] == []
    assert client.call("GetInfo", sessionHandle=session, infoType=18).infoValue.stringValue == "4.3.0"
    assert "OVERWRITE" in client.call("GetInfo", sessionHandle=session, infoType=10006).infoValue.stringValue
    assert client.call("GetInfo", sessionHandle=session, infoType=99).status.sqlState == "HYC00"
    assert client.call("GetDelegationToken", sessionHandle=session).status.sqlState == "0A000"
    client.close()


def test_an_unknown_method_is_answered_as_one(world):
    client = Client(world.port)
    # With a binary field that is no UTF-8, which Thrift's own `skip` fails at.
    body = struct.pack("!bhi", 11, 1, 2) + b"\xff\xfe" + b"\0"
    client.send(struct.pack("!Hbb", 0x8001, 0, 1) + struct.pack("!i", 5) + b"Close" + struct.pack("!i", 1) + body)
    with pytest.raises(TApplicationException) as refused:
        client.receive("CloseSession")
    assert refused.value.type == TApplicationException.UNKNOWN_METHOD
    assert client.open()
    client.close()


def test_handles_of_others_are_refused(world):
    ann, bob = Client(world.port, user="ann"), Client(world.port, user="bob")
    session = ann.open()
    operation = ann.execute(session, "rows 1").operationHandle
    assert bob.execute(session, "rows 1").status.statusCode == 4
    assert bob.status(operation).status.statusCode == 4
    assert bob.fetch(operation).status.statusCode == 4
    assert bob.call("CloseSession", sessionHandle=session).status.statusCode == 4
    assert bob.call("CloseSession", sessionHandle=None).status.statusCode == 4
    for client in (ann, bob):
        client.close()


class OnlyAnn:
    required = True

    async def user(self, credentials):
        if credentials.password != "secret":
            raise AuthenticationError("password: wrong")
        return "ann"


def test_wrong_passwords_are_refused_and_the_name_in_open_session_means_nothing():
    with World(authenticator=OnlyAnn()).running() as world:
        with Client(world.port, password="guess") as client:
            assert client.refusal == "password: wrong"
        with Client(world.port, "nosasl") as client, pytest.raises(ConnectionError):
            client.open()
        with Client(world.port, "http", password="guess") as client, pytest.raises(ConnectionError, match="wrong"):
            client.open()
        client = Client(world.port, password="secret")
        client.call("OpenSession", client_protocol=9, username="root", password="guess")
        assert [session.user for session in world.opened] == ["ann"]
        client.close()


def test_old_protocols_are_refused(world):
    client = Client(world.port)
    assert client.call("OpenSession", client_protocol=4).status.sqlState == "08001"
    assert client.call("OpenSession", client_protocol=5).serverProtocolVersion == 5
    client.close()


def test_sessions_beyond_the_limit_are_refused():
    with World(small(max_sessions=3)).running() as world:
        client = Client(world.port)
        handles = [client.open() for _ in range(3)]
        refused = client.call("OpenSession", client_protocol=9)
        assert (refused.status.statusCode, refused.status.sqlState) == (3, "53000")
        client.call("CloseSession", sessionHandle=handles[0])
        assert client.open()
        client.close()


def raw(world):
    return socket.create_connection(("127.0.0.1", world.port), timeout=10)


def is_closed(opened):
    try:
        return opened.recv(1) == b""
    except ConnectionError:
        return True


GIB = struct.pack("!i", 1 << 30)
CALL = struct.pack("!Hbb", 0x8001, 0, 1) + struct.pack("!i", 16) + b"ExecuteStatement" + struct.pack("!i", 1)
IN_REQUEST = CALL + struct.pack("!bhbh", 12, 1, 11, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"\x01" + GIB,
        b"\x01\0\0\0\x05PLAIN\x02" + GIB,
        b"\x01\0\0\0\x05PLAIN\x02\0\0\0\x04\0a\0b" + GIB,
        b"\x01\0\0\0\x05PLAIN\x02\0\0\0\x04\0a\0b\xff\xff\xff\xff",
        b"\x01\0\0\0\x05PLAIN\x02\0\0\0\x04\0a\0b\0\0\0\x04abcd",
        IN_REQUEST + GIB,
        CALL + struct.pack("!bhbi", 15, 1, 11, 1 << 30),
        CALL + struct.pack("!bh", 12, 1) * 100,
        CALL + b"\x63\0\1",
        b"\x80\x02\0\0",
        b"\x16\x03\x01",
        b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n",
        b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd",
        b"GET /cliservice HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /elsewhere HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"x" * 200_000,
    ],
    ids=lambda data: repr(data[:30]),
)
def test_what_is_no_message_or_too_long_closes_the_connection(world, data):
    with raw(world) as opened:
        opened.sendall(data)
        received = b""
        try:
            while more := opened.recv(65536):
                received += more
        except ConnectionResetError:
            pass
        assert not received or received[0] in (5, ord("H"))
    client = Client(world.port)
    assert client.open()
    client.close()


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x01\0\0\0\x05PLAIN", b"\x80\x01", b"POST /cliservice HT", IN_REQUEST]
)
def test_half_open_connections_are_closed_in_time(data):
    with World(small(handshake_timeout_s=0.2, receive_timeout_s=0.2)).running() as world, raw(world) as opened:
        opened.sendall(data)
        assert is_closed(opened)


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x01\0\0\0\x05PLAIN"])
def test_half_open_connections_are_closed_in_time_with_tls_too(data):
    """In the middle of the handshake of TLS, before it, or in that of SASL without TLS."""
    # asyncio wants some time for the handshake at least.
    with World(small(handshake_timeout_s=0.5), certificate=tls(PEM, PEM)).running() as world, raw(world) as opened:
        opened.sendall(data)
        assert is_closed(opened)
        trusting = ssl.create_default_context(cafile=PEM)
        with trusting.wrap_socket(raw(world), server_hostname="127.0.0.1") as silent:
            silent.sendall(b"\x01")
            assert is_closed(silent)


def test_connections_beyond_the_limit_are_closed_at_once():
    with World(small(max_connections=2)).running() as world:
        first, second = Client(world.port), Client(world.port)
        with raw(world) as third:
            assert is_closed(third)
        assert first.open()
        first.close()
        eventually(lambda: not is_refused(world))
        second.close()


def is_refused(world):
    try:
        Client(world.port).close()
    except ConnectionError:
        return True
    return False


def test_bytes_that_are_being_received_are_bounded_over_all_clients():
    with World(small(max_received_bytes=500_000)).running() as world:
        first, second, third = (Client(world.port) for _ in range(3))
        for client in (first, second):
            client.socket.sendall(struct.pack("!i", 900_000) + bytes(300_000))
        # Which of them is beyond the limit depends on whose bytes are read first.
        heard, _, _ = select.select([first.socket, second.socket], [], [], 30)
        assert any(map(is_closed, heard))
        assert third.open()
        for client in (first, second, third):
            client.close()


def test_a_client_that_does_not_read_is_cut_off():
    with World(small(write_timeout_s=0.3)).running() as world:
        client = Client(world.port)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        session = client.open()
        operation = client.execute(session, "rows 500000", is_async=False).operationHandle
        for _ in range(40):
            client.send(message("FetchResults", operationHandle=operation, orientation=4, maxRows=500_000))
        eventually(lambda: not world.handler.sessions.all())
        client.close()


def test_results_that_are_never_fetched_are_bounded():
    with World(small(memory_bytes=1000, disk_bytes=10_000)).running() as world:
        client = Client(world.port)
        session = client.open()
        states = [client.until_ended(client.execute(session, "rows 100").operationHandle) for _ in range(20)]
        assert {status.operationState for status in states} == {FINISHED, ERROR}
        assert states[-1].sqlState == "53000"
        assert world.room.used[0] <= 1000
        assert world.room.used[1] <= 10_000
        client.call("CloseSession", sessionHandle=session)
        assert world.room.used == (0, 0)
        client.close()
