"""What stands where a ResourceManager should, and answers too slowly, too much, or not what was asked."""

import gzip
import itertools
import socket
import threading

import pytest

from tests.http_servers import CERTIFICATE, RawServer, answer
from yarn_plugin.observe import bounded
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, NotAManagerError, ResourceManager

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
GZIPPED = HEAD + b"Content-Encoding: gzip\r\n"


@pytest.fixture
def serve(closing):
    return lambda *scripts, tls=False: closing(RawServer(*scripts, tls=tls))


def ask(server, verify=True):
    return ResourceManager([server.url], "ann", verify).get("/metrics")


def chunked(parts):
    yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    for part in parts:
        yield b"%x\r\n%s\r\n" % (len(part), part)


def slowly(data, pause, ended):
    """A byte at a time, for ever if the data is endless."""
    for byte in data:
        if ended.wait(pause):
            return
        yield bytes([byte])


@pytest.mark.parametrize(
    "trickle",
    [
        itertools.chain(HEAD, b"Content-Length: 1000000\r\n\r\n", itertools.repeat(32)),
        itertools.chain(b"HTTP/1.1 200 OK\r\nX: ", itertools.repeat(120)),
        itertools.chain(itertools.cycle(b"HTTP/1.1 100 Continue\r\n\r\n")),
    ],
    ids=["body", "head", "continue"],
)
def test_an_answer_that_trickles_without_end_is_given_up(serve, monkeypatch, trickle):
    monkeypatch.setattr(bounded, "MAX_SECONDS", 0.3)
    ended = threading.Event()
    server = serve(slowly(trickle, 0.005, ended))
    try:
        with pytest.raises(ManagerAwayError, match="no answer"):
            ask(server)
    finally:
        ended.set()


def test_a_reused_connection_gets_the_full_timeout_again(serve, monkeypatch):
    monkeypatch.setattr(bounded, "MAX_SECONDS", 0.5)
    body = b'{"clusterMetrics": {"appsRunning": 1}}'
    whole = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    served, asked = RawServerOfMany(whole), []
    manager = ResourceManager([served.url], "ann")
    try:
        for _ in range(4):
            threading.Event().wait(0.2)
            asked.append(manager.get("/metrics"))
    finally:
        served.close()
    assert (len(asked), served.connections) == (4, 1)


class RawServerOfMany:
    """Gives the same answer to each request on one connection."""

    def __init__(self, said):
        self._said, self.connections = said, 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        connection, _ = self._socket.accept()
        self.connections += 1
        with connection:
            while connection.recv(65536):
                connection.sendall(self._said)

    def close(self):
        self._socket.close()


@pytest.mark.parametrize(
    "script",
    [
        lambda: chunked(itertools.repeat(b" " * 65536)),
        lambda: [HEAD + b"\r\n", *itertools.repeat(b" " * 65536, 64)],
        lambda: GZIPPED + b"\r\n" + gzip.compress(b" " * 50_000_000),
    ],
    ids=["chunks", "until it closes", "gzip"],
)
def test_an_endless_answer_is_not_stored(serve, monkeypatch, script):
    monkeypatch.setattr(bounded, "MAX_BYTES", 2**20)
    with pytest.raises(ManagerAwayError, match="1 MiB"):
        ask(serve(script()))


@pytest.mark.parametrize(
    "script",
    [
        answer('{"clusterMetrics": {"appsRunning": 3}}')[:-5],
        [*chunked([b'{"clusterMetrics"'])],
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        GZIPPED + b"Content-Length: 5\r\n\r\nhello",
    ],
    ids=["length", "chunk", "no chunk", "no gzip"],
)
def test_a_truncated_answer_is_rejected(serve, script):
    with pytest.raises(ManagerAwayError, match="truncated"):
        ask(serve(script))


@pytest.mark.parametrize(
    "script",
    [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 abc\r\n\r\n", HEAD + b"X: y\r\n" * 200 + b"\r\n{}", b"\0" * 100_000],
    ids=["nothing", "ssh", "status", "fields", "zeros"],
)
def test_a_server_without_http_is_away(serve, script):
    with pytest.raises(ManagerAwayError):
        ask(serve(script))


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 100_000, "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "nul", '{"a": 1', "", '"{}"'],
    ids=["deep", "deeper", "digits", "word", "cut", "empty", "string"],
)
def test_json_that_is_not_an_object_is_not_a_managers_answer(serve, text):
    with pytest.raises(NotAManagerError):
        ask(serve(answer(text)))


def test_an_application_name_may_equal_the_message_of_a_standby(serve):
    said = '{"apps": {"app": [{"id": "application_1_1", "name": "This is standby RM"}]}}'
    assert ask(serve(answer(said)))["apps"]["app"][0]["name"] == "This is standby RM"


@pytest.mark.parametrize("status", ["500 Oh no", "418 I am a teapot", "404 Not Found", "403 No"])
@pytest.mark.parametrize(
    "body", ["", "{", '{"RemoteException": []}', '{"RemoteException": {"message": [1]}}', "\0\xff"]
)
def test_a_refusal_of_any_form_is_one_line(serve, status, body):
    with pytest.raises(ManagerError) as problem:
        ask(serve(answer(body.encode("latin-1"), status=status)))
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 500


def test_a_manager_with_a_certificate_of_an_authority_of_its_own(serve):
    server = serve(answer('{"clusterMetrics": {"appsRunning": 3}}'), tls=True)
    assert ask(server, verify=str(CERTIFICATE))["clusterMetrics"] == {"appsRunning": 3}


def test_a_tls_failure_is_reported_with_its_cause(serve, tmp_path):
    server = serve(answer("{}"), tls=True)
    with pytest.raises(ManagerAwayError, match=r"certificate verify failed: self-signed certificate.*--ca-file"):
        ask(server)
    (tmp_path / "empty.pem").write_text("no certificate")
    with pytest.raises(ManagerAwayError, match="contains no certificates"):
        ask(server, verify=str(tmp_path / "empty.pem"))
    with pytest.raises(ManagerAwayError, match="--ca-file"):
        ask(server, verify=str(tmp_path / "none.pem"))


def test_https_asked_of_a_manager_that_speaks_http(serve):
    server = serve(answer("{}"))
    server.url = server.url.replace("http:", "https:")
    with pytest.raises(ManagerAwayError, match="TLS failed: "):
        ask(server)


def test_neither_proxies_nor_passwords_of_the_environment_are_used(serve, monkeypatch, tmp_path):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(answer('{"clusterMetrics": {"appsRunning": 3}}'))
    ask(server)
    assert "authorization" not in server.asked[0]


@pytest.mark.parametrize(
    "script",
    [
        b"",
        answer("[1]"),
        answer('{"properties": 3}'),
        answer(
            '{"properties": [3, {"key": 1, "value": "x"}, {"key": "a"}, {"value": "b"}, {"key": "a", "value": null}]}'
        ),
    ],
)
def test_a_malformed_configuration_page_is_read_as_far_as_possible(serve, script):
    assert ResourceManager([serve(script).url], "ann").configuration() == {}


def test_a_configuration_page_is_bounded_too(serve, monkeypatch):
    monkeypatch.setattr(bounded, "MAX_BYTES", 2**20)
    assert ResourceManager([serve(chunked(itertools.repeat(b" " * 65536))).url], "ann").configuration() == {}


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Sat, 21 Nov 2026 21:53:58 GMT", 1795298038.0),
        ("Sat, 21 Nov 2026 21:53:58 GMT, Sat, 21 Nov 2026 21:53:58 GMT", 1795298038.0),
        ("yesterday", None),
        ("Sat, 99 Nov 2026 21:53:58 GMT", None),
        ("", None),
    ],
)
def test_the_managers_own_clock_is_the_date_of_its_answer(serve, date, expected):
    server = serve(answer('{"clusterMetrics": {"appsRunning": 3}}', Date=date))
    manager = ResourceManager([server.url], "ann")
    assert manager.clock is None
    manager.get("/metrics")
    assert manager.clock == expected
