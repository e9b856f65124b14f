"""Connections to a real server: their number, request timeouts, and answers that are not read."""

import contextlib
import json
import socket
import ssl
import threading
import time

import pytest
import uvicorn

from tests.eventually import eventually
from tests.http_service import Service
from yarn_plugin.api.queueing import MAX_CONCURRENT_CHANGES
from yarn_plugin.serving.connections import MAX_HEAD_BYTES, Connections, CountingListener, limited_protocol
from yarn_plugin.serving.limits import Limits
from yarn_plugin.serving.refusals import Refusals
from yarn_plugin.serving.server import LimitedServer


class Server:
    """A service behind a socket of this machine, in a thread."""

    def __init__(self, app, limits, secure=None):
        self.refusals = Refusals()
        self.connections = Connections(limits.max_connections, self.refusals)
        opened = socket.create_server(("127.0.0.1", 0))
        self.address = opened.getsockname()
        self._listener = CountingListener(opened, self.connections, secure=secure is not None)
        config = uvicorn.Config(
            app, loop="asyncio", http=limited_protocol(limits, self.refusals), ws="none", log_level="critical",
            lifespan="off", h11_max_incomplete_event_size=MAX_HEAD_BYTES, timeout_graceful_shutdown=1,
            ssl_certfile=secure, server_header=False,
        )  # fmt: skip
        self._server = LimitedServer(config, limits.header_timeout)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],))
        self._thread.start()
        eventually(lambda: self._server.started)

    def connect(self):
        connection = socket.create_connection(self.address, timeout=60)
        connection.settimeout(10)
        return connection

    def close(self):
        self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()


async def app(scope, receive, send):
    """Answers /large with much, /slow when its body has come, anything else at once."""
    body = b"x" * 20_000_000 if scope["path"] == "/large" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(app=app, secure=None, **limits):
            server = Server(app, Limits(**limits), secure)
            stack.callback(server.close)
            return server

        yield start


def everything(connection):
    """What a connection receives until it is closed or reset."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            said += piece
    return said


def ask(connection, path="/"):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return answer(connection)


def answer(connection):
    """One complete answer."""
    said = b""
    while b"\r\n\r\n" not in said:
        piece = connection.recv(65_536)
        assert piece, said
        said += piece
    head, _, body = said.partition(b"\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = (int(length[0].partition(b":")[2]) if length else 0) - len(body)
    while missing > 0:
        piece = connection.recv(missing)
        assert piece, said
        said, missing = said + piece, missing - len(piece)
    return said


def test_a_connection_over_the_limit_is_answered_503_and_closed(serve):
    server = serve(max_connections=2)
    held = [server.connect(), server.connect()]
    eventually(lambda: server.connections.open == 2)
    with server.connect() as turned_away:
        said = everything(turned_away)
    assert said.startswith(b"HTTP/1.1 503 ")
    problem = json.loads(said.partition(b"\r\n\r\n")[2])["problems"][0]
    assert problem["field"] == "connection"
    assert "connections" in problem["expected"]
    assert ask(held[0]).startswith(b"HTTP/1.1 200")
    for connection in held:
        connection.close()
    eventually(lambda: server.connections.open == 0)
    with server.connect() as again:
        assert ask(again).startswith(b"HTTP/1.1 200")
    assert server.refusals.counts() == {"connections": 1}


def test_a_thousand_refused_connections_do_not_affect_open_ones(serve):
    server = serve(max_connections=5)
    with server.connect() as held:
        assert ask(held).startswith(b"HTTP/1.1 200")
        crowd = [server.connect() for _ in range(300)]
        for _ in range(3):
            assert ask(held).startswith(b"HTTP/1.1 200")
        for one in crowd:
            one.close()
    eventually(lambda: server.connections.open == 0)
    assert server.refusals.counts()["connections"] >= 290


@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 1000])
def test_a_head_that_does_not_arrive_times_out(serve, said):
    server = serve(header_timeout=0.2)
    with server.connect() as slow:
        slow.sendall(said)
        assert everything(slow) == b""
    assert server.refusals.counts() == {"slow_head": 1}


def test_single_bytes_do_not_extend_the_deadline_of_a_head(serve):
    server = serve(header_timeout=0.5)
    with server.connect() as slow:
        with contextlib.suppress(OSError):
            for byte in b"GET / HTTP/1.1\r\n" + b"X-a: b\r\n" * 1000:
                slow.sendall(bytes([byte]))
                time.sleep(0.02)
        assert everything(slow) == b""
    assert server.refusals.counts() == {"slow_head": 1}


def test_the_head_of_a_second_request_times_out(serve):
    server = serve(header_timeout=0.3)
    with server.connect() as slow:
        assert ask(slow).startswith(b"HTTP/1.1 200")
        slow.sendall(b"G")
        assert everything(slow) == b""
    assert server.refusals.counts() == {"slow_head": 1}


def test_an_unread_body_is_not_awaited_after_the_answer(serve):
    server = serve(header_timeout=0.3)
    with server.connect() as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert answer(slow).startswith(b"HTTP/1.1 200")
        slow.sendall(b"x")
        assert everything(slow) == b""


def test_an_answer_that_is_not_read_is_given_up(serve):
    server = serve(write_timeout=0.3)
    with server.connect() as idle:
        idle.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: server.connections.open == 1)
        eventually(lambda: server.connections.open == 0)
    assert server.refusals.counts() == {"slow_reader": 1}


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (MAX_HEAD_BYTES + 1),
        b"GET /" + b"a" * (MAX_HEAD_BYTES + 1),
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 100 + b"\r\n\r\n",
        "GET /é HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    ],
)
def test_malformed_http_is_refused_with_problems(serve, said):
    server = serve()
    with server.connect() as odd:
        odd.sendall(said)
        answered = everything(odd)
    assert answered.startswith(b"HTTP/1.1 400 "), answered
    problem = json.loads(answered.partition(b"\r\n\r\n")[2])["problems"][0]
    assert problem["field"] == "request"
    assert "HTTP/1.1" in problem["expected"]
    with server.connect() as next_one:
        assert ask(next_one).startswith(b"HTTP/1.1 200")


def test_a_large_body_without_a_token_is_answered_401_while_it_is_still_sent(serve, tmp_path):
    service = Service(tmp_path)
    server = serve(service.app)
    with server.connect() as sender:
        sender.sendall(b"POST /v1/apps HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n")
        answered = answer(sender)
        assert answered.startswith(b"HTTP/1.1 401 ")
        assert b"connection: close" in answered.lower()
        assert b"server:" not in answered.lower()
        with contextlib.suppress(OSError):
            sender.sendall(b"x" * 30_000_000)
    eventually(lambda: server.connections.open == 0)
    service.arbiter.close()


def test_while_changes_wait_for_a_slow_disk_all_else_is_answered(serve, tmp_path):
    """More changes wait than there are threads."""
    service = Service(tmp_path)
    made = service.register()
    waiting = []

    def later(event):
        from concurrent.futures import Future

        waiting.append((event, Future()))
        return waiting[-1][1]

    service.arbiter.post = later
    server = serve(service.app)
    body = b'{"seq": 1}'
    head = f"Host: x\r\nAuthorization: Bearer {made.token}\r\n"
    change = f"POST /v1/apps/{made.app}/vacated HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
    changes = [server.connect() for _ in range(60)]
    for one in changes:
        one.sendall(change.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    eventually(lambda: len(waiting) == MAX_CONCURRENT_CHANGES)
    with server.connect() as other:
        for path in ("/v1/health", "/v1/ready", "/v1/apps", f"/v1/apps/{made.app}/why"):
            other.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
            assert answer(other).startswith(b"HTTP/1.1 200")
    for number in range(60):
        eventually(lambda due=number: len(waiting) > due)
        waiting[number][1].set_result(None)
    for one in changes:
        assert answer(one).startswith(b"HTTP/1.1 204")
        one.close()
    service.arbiter.close()


def test_connections_in_a_tls_handshake_are_counted(serve, certificate):
    server = serve(secure=certificate, max_connections=1)
    with server.connect() as silent:
        eventually(lambda: server.connections.open == 1)
        with server.connect() as turned_away:
            assert everything(turned_away) == b""
        silent.close()
    eventually(lambda: server.connections.open == 0)
    trusting = ssl.create_default_context(cafile=certificate)
    trusting.check_hostname = False
    with trusting.wrap_socket(server.connect()) as agreed:
        assert ask(agreed).startswith(b"HTTP/1.1 200")


def test_a_tls_handshake_times_out(serve, certificate):
    server = serve(secure=certificate, max_connections=3, header_timeout=0.3)
    with contextlib.ExitStack() as held:
        for _ in range(3):
            held.enter_context(server.connect())
        eventually(lambda: server.connections.open == 3)
        eventually(lambda: server.connections.open == 0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate and its key, in one file."""
    import subprocess

    file = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout"]
    made = subprocess.run(["openssl", *words, f"{file}.key", "-out", file], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    file.write_text(file.read_text() + file.with_name("both.pem.key").read_text())
    return str(file)


def test_a_closed_socket_is_released_once():
    connections = Connections(1, Refusals())
    opened = socket.create_server(("127.0.0.1", 0))
    listener = CountingListener(opened, connections, secure=False)
    with socket.create_connection(listener.getsockname()):
        accepted, _ = eventually(lambda: _accept(listener))
        assert connections.open == 1
        accepted.close()
        accepted.close()
        assert connections.open == 0
    listener.close()


def _accept(listener):
    try:
        return listener.accept()
    except BlockingIOError:
        return None
