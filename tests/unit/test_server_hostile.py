"""Clients that mean harm to a server or to its other clients: what they may take, and that the others go on."""

import contextlib
import socket
import struct
import threading
import time

import pytest

from qoop.server.errors import MalformedError
from qoop.server.messages import decode
from tests.eventually import eventually
from tests.server_world import Client, World, message, small  # first: it skips where Thrift is missing

FINISHED = 2


def threads(start):
    return [thread for thread in threading.enumerate() if thread.name.startswith(start)]


def answers(world, user="neighbour"):
    """Whether another client's query is answered."""
    with Client(world.port, user=user) as client:
        operation = client.execute(client.open(), "rows 1").operationHandle
        return client.until_ended(operation).operationState == FINISHED and len(client.fetch(operation).results.columns)


def test_a_refused_statement_leaves_no_thread():
    with World(small(max_running=1, max_waiting=1)).running() as world, Client(world.port) as client:
        session = client.open()
        client.execute(session, "wait")
        eventually(lambda: world.started)
        refused = [client.execute(session, "wait").status for _ in range(5)]
        assert [status.sqlState for status in refused[1:]] == ["53000"] * 4
        assert not threads("cancel-")
        assert not world.cancelled
    eventually(lambda: not threads("cancel-"))


def test_a_user_cannot_take_all_places_to_run():
    with World(small(max_running=4)).running() as world, Client(world.port, user="hog") as hog:
        for _ in range(10):
            hog.execute(hog.open(), "wait")
        eventually(lambda: len(world.started) >= 3)
        assert answers(world)


def test_a_user_cannot_take_all_places_to_wait():
    with World(small(max_running=4, max_waiting=20)).running() as world, Client(world.port, user="hog") as hog:
        session = hog.open()
        states = [hog.execute(session, "wait").status.sqlState for _ in range(60)]
        assert "53000" in states
        assert answers(world)


def test_a_user_cannot_take_all_sessions():
    with World(small(max_sessions=20)).running() as world, Client(world.port, "http", user="hog") as hog:
        opened = [hog.call("OpenSession", client_protocol=9).status.statusCode for _ in range(40)]
        assert opened.count(3) > 20
        assert answers(world)


@pytest.mark.parametrize("settings", [{f"x{number}": "1" for number in range(501)}, {"x": "1" * 70_000}])
def test_the_settings_of_a_session_are_bounded(settings):
    """Spark takes time for each, in a thread that others wait for, and keeps them as long as the session lasts."""
    with World().running() as world, Client(world.port) as client:
        refused = client.call("OpenSession", client_protocol=9, configuration=settings).status
        assert (refused.sqlState, refused.errorMessage.split(":")[0]) == ("53000", "configuration")
        assert not world.handler.sessions.all() and client.open(**dict(list(settings.items())[:1], x="1"))


def test_a_user_cannot_take_all_connections():
    with World(small(max_connections=20)).running() as world:
        hogs = [Client(world.port, user="hog") for _ in range(18)]
        assert any(hog.refusal for hog in hogs)
        assert answers(world)
        for hog in hogs:
            hog.close()

        def is_admitted():
            with Client(world.port, user="hog") as again:
                return again.refusal is None

        eventually(is_admitted)


def test_a_user_cannot_take_all_room_for_results():
    with World(small(memory_bytes=100, disk_bytes=2000)).running() as world, Client(world.port, user="hog") as hog:
        session = hog.open()
        texts = ["rows 10"] * 20 + ["rows 1"] * 20
        states = [hog.until_ended(hog.execute(session, text).operationHandle).sqlState for text in texts]
        assert states[-1] == "53000"
        assert answers(world)


def test_texts_of_statements_that_run_or_wait_are_bounded_and_given_back():
    with World(small(max_running=4, text_bytes=1000)).running() as world, Client(world.port) as client:
        session = client.open()
        refused = [client.execute(session, "wait" + " " * 200).status.sqlState for _ in range(10)]
        assert refused[-1] == "53000"
        assert answers(world)
        client.call("CloseSession", sessionHandle=session)
        eventually(lambda: world.handler.statements.texts.used == 0)


def test_connections_that_say_nothing_make_room_for_others():
    with World(small(max_connections=8)).running() as world:
        silent = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(30)]
        assert answers(world)
        assert answers(world)
        for opened in silent:
            opened.close()


def test_floods_make_room_for_others():
    with World(small(max_connections=8)).running() as world:
        floods = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(12)]
        for opened in floods:
            with contextlib.suppress(OSError):
                opened.setblocking(False)
                opened.send(b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + bytes(300_000))
        assert answers(world)
        for opened in floods:
            opened.close()


def test_messages_that_are_announced_but_not_sent_keep_nobody_out():
    with World(small(max_received_bytes=200_000)).running() as world:
        liars = [Client(world.port) for _ in range(20)]
        for liar in liars:
            liar.socket.sendall(struct.pack("!i", 16_000_000))
        assert answers(world)
        for liar in liars:
            liar.close()


def test_questions_about_the_catalogue_do_not_keep_others_from_their_rows():
    with World(small(max_running=16)).running() as world:
        world.listing.clear()
        hogs = [Client(world.port, user="hog") for _ in range(12)]
        for hog in hogs:
            session = hog.open()
            hog.send(message("GetColumns", sessionHandle=session, tableName="item"))
        time.sleep(0.2)
        assert answers(world)
        world.listing.set()
        for hog in hogs:
            hog.receive("GetColumns")
            hog.close()


HEAD = struct.pack("!Hbb", 0x8001, 0, 1) + struct.pack("!i", 9) + b"GetTables" + struct.pack("!i", 1)
FALSES = struct.pack("!bhbi", 15, 99, 2, 19_000) + bytes(19_000)


@pytest.mark.parametrize(
    "body", [FALSES * 3 + b"\0", struct.pack("!bhb", 2, 99, 0) * 60_000 + b"\0"], ids=["lists", "fields"]
)
def test_a_message_of_very_many_values_is_refused(body):
    with pytest.raises(MalformedError):
        decode(HEAD + body)
    with World().running() as world, socket.create_connection(("127.0.0.1", world.port), timeout=10) as opened:
        opened.sendall(HEAD + body)
        with contextlib.suppress(ConnectionResetError):
            assert opened.recv(1) == b""
        assert answers(world)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HEAD /cliservice HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
        (b"POST /cliservice HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\nContent-Length: 0\r\n\r\n", b"403"),
        (b"POST /cliservice HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: none\r\nContent-Length: 0\r\n\r\n", b"403"),
        (b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"POST /cliservice HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n", b"400"),
        (b"POST /cliservice HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n", b"4"),
        (b"POST /cliservice HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, b"431"),
    ],
    ids=["HEAD", "a page of another site", "a page", "length and chunks", "two lengths", "folded", "endless"],
)
def test_http_that_is_not_served_is_refused_and_nothing_is_logged(head, status, caplog):
    with World().running() as world, socket.create_connection(("127.0.0.1", world.port), timeout=10) as opened:
        opened.sendall(head)
        received = opened.makefile("rb").readline()
        assert received.split()[1].startswith(status), received
        assert answers(world)
    assert "Traceback" not in caplog.text


def test_a_body_in_very_many_chunks_is_refused():
    """Each takes time of the one thread that reads for all clients."""
    with World().running() as world, socket.create_connection(("127.0.0.1", world.port), timeout=10) as opened:
        opened.sendall(b"POST /cliservice HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            opened.sendall(b"1\r\na\r\n" * 30_000)
            assert opened.recv(100).startswith(b"HTTP/1.1 413 ")
        assert answers(world)


def test_statements_that_wait_do_not_delay_a_shutdown():
    with World(small(max_running=1)).running() as world, Client(world.port) as client:
        session = client.open()
        running, waiting = (client.execute(session, "wait").operationHandle for _ in range(2))
        eventually(lambda: world.started)
        world.handler.stop_starting()
        status = client.until_ended(waiting)
        assert (status.sqlState, "shuts down" in status.errorMessage) == ("57P01", True)
        client.call("CancelOperation", operationHandle=running)
        eventually(lambda: not world.handler.is_busy)


def test_two_fetches_at_a_time_give_each_row_once():
    with World().running() as world, Client(world.port, "http") as one, Client(world.port, "http") as two:
        operation = one.execute(one.open(), "rows 2000").operationHandle
        one.until_ended(operation)
        values = []
        for _ in range(100):
            for client in (one, two):
                client.send(message("FetchResults", operationHandle=operation, orientation=0, maxRows=10, fetchType=0))
            for client in (one, two):
                values += client.receive("FetchResults").results.columns[0].i64Val.values
        assert sorted(values) == list(range(2000))
