"""The client of the ResourceManager, against small servers: one alone, an HA pair, and what is no ResourceManager."""

import threading

import pytest

from tests.http_servers import WebServer, reply
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe import resource_manager
from yarn_plugin.observe.capabilities import probe
from yarn_plugin.observe.resource_manager import (
    ManagerAwayError,
    ManagerRefusedError,
    NotAManagerError,
    ResourceManager,
    SecuredManagerError,
    addresses,
)

INFO = {"clusterInfo": {"resourceManagerVersion": "3.5.0", "haState": "ACTIVE", "startedOn": 1000}}


def active(asked):
    """The answers of an active ResourceManager."""
    if asked.path == "/conf":
        return reply({"properties": [{"key": "yarn.resource-types", "value": "yarn.io/gpu"}]})
    known = {"/info": INFO, "/metrics": {"clusterMetrics": {"appsRunning": 3}}, "/scheduler-conf": {"property": []}}
    return reply(known.get(asked.path.removeprefix("/ws/v1/cluster"), {}))


def standby(asked):
    """A standby answers /info itself, and sends every other question on."""
    if asked.path.endswith("/info"):
        return reply({"clusterInfo": {**INFO["clusterInfo"], "haState": "STANDBY"}})
    return 307, {"Location": "http://127.0.0.1:1" + asked.path}, "This is standby RM. The redirect url is: /ws/v1"


def nobody_active(asked):
    return 307, {"Refresh": "3;url=http://127.0.0.1:1"}, "Can not find any active RM. Will retry in next 3 seconds."


def web_page(asked):
    return 200, {"Content-Type": "text/html"}, "<html><body>It works!</body></html>"


def kerberos(asked):
    return 401, {"WWW-Authenticate": "Negotiate", "Content-Type": "text/html"}, "Authentication required"


def refused(status, text, content="application/json"):
    return lambda asked: (status, {"Content-Type": content}, text)


@pytest.fixture
def serve(closing):
    return lambda answer: closing(WebServer(answer))


@pytest.fixture
def dead(serve):
    server = WebServer(active)
    server.close()
    return server


def client(*servers):
    return ResourceManager([server.url for server in servers], "ann")


def test_one_manager_answers(serve):
    server = serve(active)
    assert client(server).get("/metrics", a="b") == {"clusterMetrics": {"appsRunning": 3}}
    assert server.asked[0].query == {"a": "b"}


def test_writes_are_made_as_the_user(serve):
    server = serve(active)
    client(server).put("/scheduler-conf", {"update-queue": []})
    client(server).post("/containers/c/signal/X")
    assert [(asked.method, asked.query, asked.body) for asked in server.asked] == [
        ("PUT", {"user.name": "ann"}, {"update-queue": []}),
        ("POST", {"user.name": "ann"}, None),
    ]


def test_the_active_manager_of_a_pair_is_found_and_reused(serve):
    waiting, working = serve(standby), serve(active)
    manager = client(waiting, working)
    for _ in range(3):
        manager.get("/metrics")
    assert manager.url == working.url
    assert (len(waiting.asked), len(working.asked)) == (1, 3)


def test_facts_come_from_the_active_manager_although_the_standby_answers_too(serve):
    waiting, working = serve(standby), serve(active)
    facts = probe(client(waiting, working))
    assert (facts.url, facts.state, facts.version) == (working.url, "ACTIVE", "3.5.0")
    assert "yarn.io/gpu" in facts.resources


def test_a_failover_is_followed_both_ways(serve):
    first, second = serve(active), serve(standby)
    manager = client(first, second)
    manager.get("/metrics")
    assert manager.url == first.url
    first.answer, second.answer = standby, active
    manager.get("/metrics")
    assert manager.url == second.url
    first.answer, second.answer = active, nobody_active
    manager.get("/metrics")
    assert manager.url == first.url


def test_a_dead_one_of_a_pair_is_passed_over(serve, dead):
    working = serve(active)
    manager = client(dead, working)
    manager.get("/metrics")
    assert manager.url == working.url


def test_a_pair_without_an_active_manager_reports_both_reasons(serve, dead):
    waiting = serve(nobody_active)
    with pytest.raises(ManagerAwayError, match=rf"{waiting.url}: is the standby .*; .*{dead.url}: no connection"):
        client(waiting, dead).get("/metrics")


def test_a_standby_alone_is_away(serve):
    with pytest.raises(ManagerAwayError, match="standby"):
        probe(client(serve(standby)))


def test_a_dead_one_is_away(dead):
    with pytest.raises(ManagerAwayError, match="no connection"):
        client(dead).get("/metrics")


def test_a_slow_one_is_away(serve, monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr(resource_manager, "TIMEOUT", (0.5, 0.1))
    slow = serve(lambda asked: (answered.wait(30), active(asked))[1])
    try:
        with pytest.raises(ManagerAwayError, match="no answer"):
            client(slow).get("/metrics")
    finally:
        answered.set()


def test_a_slow_one_of_a_pair_is_passed_over(serve, monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr(resource_manager, "TIMEOUT", (0.5, 0.1))
    slow, working = serve(lambda asked: (answered.wait(30), active(asked))[1]), serve(active)
    try:
        assert client(slow, working).get("/metrics")["clusterMetrics"]
    finally:
        answered.set()


@pytest.mark.parametrize("status", [502, 503])
def test_a_manager_that_is_not_ready_is_away(serve, status):
    with pytest.raises(ManagerAwayError, match=f"not ready .*{status}"):
        client(serve(refused(status, "starting", "text/plain"))).get("/metrics")


@pytest.mark.parametrize(
    "answer",
    [
        web_page,
        refused(404, "<html>nothing here</html>", "text/html"),
        refused(200, "[1, 2]"),
        refused(200, '"hello"'),
        refused(200, '{"cluster": "another"}'),
        lambda asked: (302, {"Location": "https://127.0.0.1:1/login"}, ""),
    ],
)
def test_a_server_that_is_not_a_resource_manager_is_refused(serve, answer):
    with pytest.raises(NotAManagerError, match="http://host:8088"):
        probe(client(serve(answer)))


def test_kerberos_is_refused_with_what_to_do(serve):
    with pytest.raises(SecuredManagerError, match=r"simple authentication"):
        probe(client(serve(kerberos)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"RemoteException": {"message": "Queue root.x\\n not found"}}', "Queue root.x not found"),
        ('{"message": "no"}', "no"),
        ("plain words", "plain words"),
        ('["a list"]', "a list"),
        ("", "Bad Request"),
    ],
)
def test_a_refusal_is_one_line_in_the_managers_words(serve, text, shown):
    with pytest.raises(ManagerRefusedError) as refusal:
        client(serve(refused(400, text))).put("/scheduler-conf", {})
    assert refusal.value.status == 400
    assert shown in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_configuration_that_is_not_shown_is_empty(serve):
    assert client(serve(web_page)).configuration() == {}
    assert client(serve(refused(403, "no", "text/plain"))).configuration() == {}
    assert client(serve(lambda asked: reply({"other": 1}))).configuration() == {}


def test_addresses_are_read_with_or_without_a_pair():
    assert addresses("http://a:8088/") == ["http://a:8088"]
    assert addresses(" http://a:8088 , https://b:8090/, ") == ["http://a:8088", "https://b:8090"]


@pytest.mark.parametrize("text", ["", " , ", "a:8088", "ftp://a", "http://", "http://a:99999", "http://[::1"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(BadInputError, match="--rm"):
        addresses(text)
