"""The arbiter's client against servers that answer as they should not: proxies, newer arbiters, broken streams."""

import json
import threading

import pytest

from tests.http_servers import CERTIFICATE, RawServer, answer, stream
from yarn_plugin.api import client as client_module
from yarn_plugin.api import wire
from yarn_plugin.api.client import (
    ArbiterClient,
    ArbiterError,
    ArbiterRefusedError,
    ArbiterUnavailableError,
    ShareListener,
    find_token,
)
from yarn_plugin.api.jobs import Job

PORTION = {"fraction": 0.5, "resources": {"memory-mb": 1024, "vcores": 1}}


def share_event(seq, identity=None, reason="arrived"):
    """A share as an arbiter sends it."""
    share = {
        "app": "app_1",
        "seq": seq,
        "told_at": 1.0,
        "effective_at": 2.0,
        "current": 0.0,
        "guarantee": PORTION,
        "entitlement": PORTION,
        "capacity": PORTION["resources"],
        "apps": 2,
        "reason": reason,
    }
    data = json.dumps(share, ensure_ascii=False)
    return f"id: {identity or seq}\nevent: share\ndata: {data}\n\n"


def end_event(seq):
    return f'id: {seq}\nevent: end\ndata: {{"reason": "app_1 ended"}}\n\n'


def refusal(status, expected="no such application", field="app", **fields):
    """A refusal of the arbiter's own."""
    problems = {"problems": [{"field": field, "value": None, "expected": expected}]}
    return answer(json.dumps(problems), status, **fields)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(client_module, "MIN_BACKOFF", 0.01)
    monkeypatch.setattr(client_module, "MAX_BACKOFF", 0.01)
    monkeypatch.setattr(client_module, "RETRY_INTERVAL", 0.01)


@pytest.fixture
def serve(closing):
    return lambda *scripts, **options: closing(RawServer(*scripts, **options))


def client_of(server, **options):
    return ArbiterClient(server.url, "user.ann.00", **options)


def followed(server, count, **options):
    """The first shares of a stream: their numbers, and the problems reported meanwhile."""
    said = []
    found = []
    for share in client_of(server).follow("app_1", on_lost=said.append, **options):
        found.append(share.seq)
        if len(found) == count:
            break
    return found, said


# Streams.


def test_the_last_event_id_is_sent_back_unchanged(serve):
    server = serve(
        stream(share_event(17, "17.0"), share_event(17, "17.1")), stream(share_event(18, "18.0"), end_event("18.1"))
    )
    assert followed(server, 4) == ([17, 17, 18], [f"arbiter {server.url}: the stream ended"])
    assert [one.get("last-event-id") for one in server.asked] == [None, "17.1"]


def test_a_number_is_a_last_event_id_and_no_share_is_repeated(serve):
    server = serve(stream(share_event(17), share_event(18)), stream(share_event(18), share_event(19)))
    assert followed(server, 2, last_seen=17)[0] == [18, 19]
    assert [one.get("last-event-id") for one in server.asked] == ["17", "18"]


def test_unknown_and_unreadable_events_are_skipped(serve):
    strange = "id: 2\nevent: weather\ndata: rain\n\n"
    unreadable = "id: 3\nevent: share\ndata: {\n\nid: 4\nevent: share\ndata: {}\n\nevent: share\n\n"
    server = serve(stream(share_event(1), strange, unreadable, share_event(5)))
    assert followed(server, 2) == ([1, 5], [])


def test_other_line_separators_do_not_split_an_event(serve):
    reason = "'a\u2028b\u2029c\x85d' arrived: caf\u00e9"
    server = serve(stream(share_event(1, reason=reason)))
    assert next(client_of(server).follow("app_1")).reason == reason


def test_a_stream_through_a_proxy_of_http_1_0_is_read_as_it_arrives(serve):
    release = threading.Event()

    def pieces():
        yield b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + share_event(1).encode()
        release.wait(10)

    server = serve(pieces())
    assert followed(server, 1) == ([1], [])
    release.set()


@pytest.mark.parametrize("last", [end_event(2), None])
def test_a_stream_ends_with_the_end_or_with_410(serve, last):
    scripts = [stream(share_event(1), last)] if last else [stream(share_event(1)), refusal("410 Gone", "it has ended")]
    server, ends = serve(*scripts), []
    assert followed(server, 9, on_end=ends.append)[0] == [1]
    assert ends == ["app_1 ended" if last else "it has ended"]


PROXY = [
    answer("<html>Sign in</html>", "403 Forbidden", "text/html"),
    answer('{"message": "no route"}', "404 Not Found"),
    answer('{"problems": []}', "401 Unauthorized"),
    answer("<html>Sign in</html>", "200 OK", "text/html"),
    answer("", "302 Found", Location="http://elsewhere/"),
    answer("slow down", "429 Too Many Requests", "text/plain"),
    refusal("429 Too Many Requests", "20 streams are open"),
    refusal("503 Service Unavailable", "the disk is full"),
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/event-stream\r\n\r\nid: 1",
    b"no HTTP at all",
]


@pytest.mark.parametrize("said", PROXY)
def test_answers_of_a_proxy_or_an_overloaded_arbiter_do_not_end_a_stream(serve, said):
    server = serve(said, said, stream(share_event(1)))
    found, problems = followed(server, 1)
    assert (found, len(problems)) == ([1], 1)
    assert problems[0].startswith((f"arbiter {server.url}: ", "the arbiter refused (429): app: 20 streams"))


def test_the_arbiters_own_refusal_ends_a_stream(serve):
    with pytest.raises(ArbiterRefusedError, match=r"refused \(403\): app: this token") as caught:
        followed(serve(refusal("403 Forbidden", "this token may not")), 1)
    assert caught.value.status == 403


# The listener.


class Heard:
    """The output of a listener."""

    def __init__(self, server):
        self.shares, self.said = [], []
        self._more = threading.Condition()
        self.listener = ShareListener(client_of(server), "app_1", self._take(self.shares), self._take(self.said))

    def _take(self, into):
        def take(one):
            with self._more:
                into.append(one)
                self._more.notify_all()

        return take

    def wait(self, holds):
        with self._more:
            assert self._more.wait_for(lambda: holds(self), 20), (self.shares, self.said)
        return self


@pytest.fixture
def listen(serve):
    listeners = []

    def start(*scripts):
        server = serve(*scripts)
        listeners.append(Heard(server))
        return server, listeners[-1]

    yield start
    for heard in listeners:
        heard.listener.close()


@pytest.mark.parametrize(
    "gone", [stream(end_event(2)), refusal("410 Gone", "app_1 ended"), refusal("404 Not Found", "app_1 ended")]
)
def test_an_application_that_was_removed_in_error_is_followed_again(listen, gone):
    server, heard = listen(stream(share_event(1)), gone, gone, gone, stream(share_event(9), ": here\n\n"))
    heard.wait(lambda heard: [share.seq for share in heard.shares][:2] == [1, 9])
    assert sum("app_1 ended" in said for said in heard.said) == 1
    assert "last-event-id" not in server.asked[4]


def test_a_refused_token_ends_the_listener_with_a_reason(listen):
    _, heard = listen(refusal("401 Unauthorized", "send a token"))
    heard.wait(lambda heard: heard.said == ["the arbiter refused (401): app: send a token"])
    heard.listener._thread.join(20)
    assert not heard.listener._thread.is_alive()


def test_an_exception_in_on_share_does_not_end_the_listener(listen, monkeypatch):
    tried = []
    take = Heard._take

    def fragile(self, into):
        def told(share):
            tried.append(share.seq)
            if len(tried) == 1:
                raise ZeroDivisionError("executors of no size")
            take(self, into)(share)

        return told if into is self.shares else take(self, into)

    monkeypatch.setattr(Heard, "_take", fragile)
    _, heard = listen(stream(share_event(1)))
    heard.wait(lambda heard: heard.shares)
    assert heard.said[0] == "following the share failed: ZeroDivisionError: executors of no size"


# Answers.


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (answer("<html>", kind="text/html"), "answer"),
        (answer('{"detail": 1}'), "answer"),
        (answer("[" * 100_000), "answer"),
        (answer('[{"app": 1}]'), "(0.app: "),
        (answer("gone", "404 Not Found", "text/plain"), "404"),
        (answer("", "307 Temporary", Location="https://x/"), "'https://x/'"),
        (refusal("503 Unavailable", "the disk is full", "journal"), "status 503: journal: the disk is full"),
        (answer("oops", "502 Bad Gateway"), "status 502"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[", "no connection"),
        (b"", "no connection"),
    ],
)
def test_an_answer_that_is_not_an_arbiters_is_a_one_line_error(serve, said, words):
    server = serve(said)
    with pytest.raises(ArbiterUnavailableError) as caught:
        client_of(server).list_apps()
    message = str(caught.value)
    assert message.startswith(f"arbiter {server.url}: ")
    assert words in message
    assert "\n" not in message


def test_an_endless_answer_is_given_up(serve, monkeypatch):
    monkeypatch.setattr(client_module, "MAX_ANSWER_BYTES", 1000)
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", *[b" " * 4096] * 200])
    with pytest.raises(ArbiterUnavailableError, match="MiB"):
        client_of(server).list_apps()
    monkeypatch.setattr(client_module, "MAX_ANSWER_BYTES", 10**9)
    monkeypatch.setattr(client_module, "ANSWER_TIMEOUT", -1.0)
    with pytest.raises(ArbiterUnavailableError, match="not complete"):
        client_of(server).list_apps()


def test_a_name_is_one_segment_of_the_path(serve):
    server = serve(refusal("404 Not Found"))
    with pytest.raises(ArbiterRefusedError):
        client_of(server).explain("../x?y=1#z", 3)
    assert server.asked[0][""] == "GET /v1/apps/..%2Fx%3Fy%3D1%23z/why?limit=3 HTTP/1.1"


def test_jobs_are_declared_and_read_as_a_whole(serve):
    job = {"name": "a", "tenant": "ann", "declared_at": 2.5, "a later arbiter": "says more"}
    server = serve(answer(json.dumps({"app": "app_1", "jobs": [job]})))
    client = client_of(server)
    for declared in (client.declare_jobs("app_1", [Job(name="a", priority=3)]), client.get_jobs("app_1")):
        (one,) = declared.jobs
        assert (one.name, one.tenant, one.declared_at) == ("a", "ann", 2.5)
    assert [head[""] for head in server.asked] == [
        f"{method} /v1/apps/app_1/jobs HTTP/1.1" for method in ("PUT", "GET")
    ]


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
def test_deregistering_an_ended_application_is_no_error(serve, status):
    server = serve(refusal(status))
    client_of(server).deregister("app_1")
    assert [one[""].split()[0] for one in server.asked] == ["DELETE"]


def test_a_proxy_that_refuses_deregistration_is_an_error(serve):
    with pytest.raises(ArbiterUnavailableError):
        client_of(serve(answer("<html>", "404 Not Found"))).deregister("app_1")


@pytest.mark.parametrize("url", ["no-scheme", "127.0.0.1:8780", "ftp://x", "http://", "http://x:0", "http://[x", ""])
def test_an_invalid_address(url):
    with pytest.raises(ArbiterError) as caught:
        ArbiterClient(url, "x")
    assert str(caught.value).startswith(f"--arbiter {url!r}: must be a URL")


@pytest.mark.parametrize(
    ("url", "said"),
    [("http://no-such-host.invalid:1", "unknown host"), ("http://a..b", "no connection")],
)
def test_an_unknown_host_is_a_one_line_error(url, said):
    with pytest.raises(ArbiterUnavailableError) as caught:
        ArbiterClient(url, "x").list_apps()
    assert str(caught.value).startswith(f"arbiter {url}: {said}")


# TLS.


def test_an_untrusted_certificate_is_reported_with_the_tls_error(serve):
    server = serve(answer("[]"), tls=True)
    with pytest.raises(ArbiterUnavailableError) as caught:
        client_of(server).list_apps()
    message = str(caught.value)
    assert message.startswith(f"arbiter {server.url}: TLS: certificate verify failed: self-signed certificate")
    assert "--ca-file" in message


def test_a_certificate_in_the_ca_file_is_trusted(serve):
    server = serve(answer("[]"), tls=True)
    assert client_of(server, verify=str(CERTIFICATE)).list_apps() == []


def test_only_the_commands_read_the_bundle_of_the_environment(serve, monkeypatch):
    """A client takes what it is given: neither certificates nor proxies nor passwords of the environment."""
    server = serve(answer("[]"), tls=True)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ArbiterUnavailableError, match="self-signed certificate"):
        client_of(server).list_apps()


def test_https_to_a_plain_server_and_an_invalid_bundle(serve, tmp_path):
    server = serve(answer("[]"))
    with pytest.raises(ArbiterUnavailableError, match=r"TLS: "):
        ArbiterClient(server.url.replace("http:", "https:"), "x").list_apps()
    trusting = serve(answer("[]"), tls=True)
    (tmp_path / "notes").write_text("no certificate")
    for bundle in (tmp_path / "none", tmp_path / "notes"):
        with pytest.raises(ArbiterUnavailableError) as caught:
            client_of(trusting, verify=str(bundle)).list_apps()
        assert "\n" not in str(caught.value)


# Tokens.


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n", b"a b", b"\xff\xfe", "t\u00f6ken".encode(), b"a\x00b"])
def test_a_malformed_token_file_is_one_line_without_its_content(tmp_path, monkeypatch, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ArbiterError) as caught:
        find_token(file)
    message = str(caught.value)
    assert message.startswith(f"--token-file {str(file)!r}: ")
    assert "`yarn-plugin token USER`" in message
    assert "\n" not in message


def test_a_token_may_end_with_a_newline(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("user.ann.00\n")
    assert find_token(tmp_path / "token") == "user.ann.00"
    monkeypatch.setenv("YARN_ARBITER_TOKEN", "user.ann.00\n")
    assert find_token() == "user.ann.00"
    monkeypatch.setenv("YARN_ARBITER_TOKEN", "user.ann\n00")
    with pytest.raises(ArbiterError, match=r"^YARN_ARBITER_TOKEN: "):
        find_token()
    with pytest.raises(ArbiterError, match=r"^token: "):
        ArbiterClient("http://127.0.0.1:9", "user.ann\n00")


def test_a_share_matches_the_wire_format():
    """The events above are those of the wire, so that none is passed over by mistake."""
    data = share_event(1).partition("data: ")[2]
    assert wire.Share.model_validate_json(data).seq == 1
