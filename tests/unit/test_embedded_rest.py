"""Reading a ResourceManager's answers, from a server that gives recorded ones."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from yarn_plugin.embedded import rest
from yarn_plugin.model.resources import Resources


def amounts(**values):
    names = {"memory": "memory-mb", "vcores": "vcores", "gpus": "yarn.io/gpu"}
    rows = [{"name": names[name], "value": value} for name, value in values.items()]
    return {"resourceInformations": {"resourceInformation": rows}}


NODE = {
    "rack": "/rack1",
    "state": "RUNNING",
    "nodeHostName": "127.0.1.1",
    "lastHealthUpdate": 1700000000000,
    "numContainers": 2,
    "usedResource": amounts(memory=256, vcores=2, gpus=0),
    "totalResource": amounts(memory=4096, vcores=4, gpus=4),
}
APP = {
    "id": "application_1_0001",
    "user": "ada",
    "name": "q1",
    "queue": "root.sql.q1",
    "state": "RUNNING",
    "finalStatus": "UNDEFINED",
    "progress": 10.0,
    "startedTime": 5,
    "runningContainers": 3,
    "resourceInfo": {"resourceUsagesByPartition": [{"used": amounts(memory=2688, vcores=3, gpus=1)}]},
}
ENDED = {**APP, "id": "application_1_0002", "state": "FINISHED", "startedTime": 9, "runningContainers": -1}
del ENDED["resourceInfo"]


@pytest.fixture
def answers():
    return {}


@pytest.fixture
def url(answers):
    class Recorded(BaseHTTPRequestHandler):
        def do_GET(self):
            body = answers.get(self.path.partition("?")[0])
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write((body or "nothing here").encode())

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("empty", [{"nodes": {}}, {"nodes": None}, {"nodes": {"node": []}}, {}])
def test_an_empty_list_comes_in_many_forms(url, answers, empty):
    answers["/ws/v1/cluster/nodes"] = json.dumps(empty)
    assert rest.nodes(url) == []


def test_nodes_have_their_capacity_and_use(url, answers):
    answers["/ws/v1/cluster/nodes"] = json.dumps({"nodes": {"node": [NODE]}})
    (node,) = rest.nodes(url)
    assert (node.host, node.rack, node.state, node.containers) == ("127.0.1.1", "/rack1", "RUNNING", 2)
    assert node.used == Resources.of({"memory-mb": 256, "vcores": 2})
    assert node.total == Resources.of({"memory-mb": 4096, "vcores": 4, "yarn.io/gpu": 4})


def test_applications_come_newest_first_with_what_they_hold(url, answers):
    answers["/ws/v1/cluster/apps"] = json.dumps({"apps": {"app": [APP, ENDED]}})
    ended, running = rest.apps(url)
    assert running.used == Resources.of({"memory-mb": 2688, "vcores": 3, "yarn.io/gpu": 1})
    assert (ended.id, ended.used, ended.containers) == ("application_1_0002", Resources(), 0)


@pytest.mark.parametrize("body", [None, "<html>not json</html>"])
def test_another_answer_than_json_is_no_answer(url, answers, body):
    answers["/ws/v1/cluster/nodes"] = body
    with pytest.raises(rest.NoResponseError):
        rest.nodes(url)


def test_no_listener_is_no_answer():
    with pytest.raises(rest.NoResponseError, match="cluster/info: no connection"):
        rest.get("http://127.0.0.1:1/ws/v1/cluster/info")


@pytest.mark.parametrize(
    ("info", "active"),
    [
        ({"clusterInfo": {"haState": "ACTIVE"}}, True),
        ({"clusterInfo": {"haState": "STANDBY"}}, False),
        ({"clusterInfo": None}, False),
        ({}, False),
    ],
)
def test_a_manager_is_ready_once_it_is_active(url, answers, info, active):
    answers["/ws/v1/cluster/info"] = json.dumps(info)
    assert rest.is_active(url) is active
