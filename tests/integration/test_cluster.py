"""The embedded cluster on real daemons: starting, surviving kills, cleaning up."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
import requests

from tests.integration.sleepers import node_runs_master
from tests.sampled import one_in
from yarn_plugin.embedded import cgroups, ports
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import ClusterSpec
from yarn_plugin.embedded.errors import ClusterInUseError, DaemonError, PortTakenError
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe.queue_tree import queue_tree

pytestmark = pytest.mark.integration


class ResourceManager:
    """A client of the ResourceManager's REST interface."""

    def __init__(self, url):
        self.url = f"{url}/ws/v1/cluster"
        self.session = requests.Session()
        self.session.trust_env = False

    def get(self, path, **parameters):
        answer = self.session.get(f"{self.url}{path}", params=parameters, headers={"Accept": "application/json"})
        answer.raise_for_status()
        return answer.json()

    def submit(self, queue, command="sleep 600", memory_mb=128):
        """Submit an application whose master is a command; returns its id."""
        made = self.session.post(f"{self.url}/apps/new-application").json()
        app_id = next(iter(made.values()))["application-id"] if "application-id" not in made else made["application-id"]
        body = {
            "application-id": app_id,
            "application-name": queue,
            "queue": queue,
            "max-app-attempts": 1,
            "am-container-spec": {"commands": {"command": command}},
            "resource": {"memory": memory_mb, "vCores": 1},
        }
        assert self.session.post(f"{self.url}/apps", json=body).status_code == 202
        return app_id

    def app(self, app_id):
        return self.get(f"/apps/{app_id}")["app"]

    def has_started(self, app_id):
        """Whether a node runs the application master."""
        return node_runs_master(self.session, self.app(app_id))

    def kill(self, app_id):
        self.session.put(f"{self.url}/apps/{app_id}/state", json={"state": "KILLED"}).raise_for_status()

    def write(self, queue, **settings):
        """Write settings of a queue, with the unwrapped body that the ResourceManager expects."""
        entries = [{"key": key, "value": value} for key, value in settings.items()]
        body = {"update-queue": [{"queue-name": queue, "params": {"entry": entries}}]}
        answer = self.session.put(f"{self.url}/scheduler-conf", json=body)
        assert answer.status_code == 200, answer.text

    def queue(self, path):
        """A queue of the scheduler, or None."""
        return queue_tree(self.get("/scheduler")).get(path)


def eventually(condition, limit_s=60.0):
    """Wait until `condition()` is true; returns the seconds that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < limit_s, f"not true within {limit_s:g} s"
        time.sleep(0.2)
    return time.monotonic() - start


def always(condition, seconds):
    """Check that `condition()` stays true for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition()
        time.sleep(0.2)


def state(rm, host):
    """The state of a node in the ResourceManager; None before the node has registered."""
    found = rm.get("/nodes")["nodes"] or {}
    return next((node["state"] for node in found.get("node", []) if node["nodeHostName"] == host), None)


def words(numbers):
    """All words of the command lines of these processes, if they still run."""
    found = set()
    for number in numbers:
        try:
            found.update(psutil.Process(number).cmdline())
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture
def rm(cluster):
    return ResourceManager(cluster.rm_url)


@pytest.fixture
def small(tmp_path):
    """The specification of a small separate cluster, which is stopped after the test."""
    spec = ClusterSpec(tmp_path / "own", nodes=1, racks=1, port_base=ports.free_base(("127.0.1.1",), True, start=23000))
    yield spec
    if (spec.dir / "cluster.json").exists():
        embedded.down(spec.dir)


def run(*arguments):
    command = [sys.executable, "-c", "from yarn_plugin.cli import main; main()", "cluster", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_every_node_registers_with_its_rack_and_its_resources(cluster, rm):
    found = rm.get("/nodes")
    racks = {node["nodeHostName"]: node["rack"] for node in found["nodes"]["node"] if node["state"] == "RUNNING"}
    assert racks == {node.host: node.rack for node in cluster.nodes}
    for node in found["nodes"]["node"]:
        offered = node["totalResource"]["resourceInformations"]["resourceInformation"]
        amounts = {resource["name"]: resource["value"] for resource in offered}
        assert amounts == {"memory-mb": 4096, "vcores": 8, "yarn.io/gpu": 4}


def test_daemons_listen_on_loopback_below_the_ephemeral_ports(cluster):
    listening = {
        (connection.laddr.ip, connection.laddr.port)
        for number in cluster.daemons.values()
        for connection in psutil.Process(number).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening
    assert {ip for ip, _ in listening} <= {"127.0.0.1", *cluster.spec.hosts}
    assert all(port < ports.LIMIT for _, port in listening), listening


def test_status_shows_nodes_and_applications(cluster, rm, tmp_path):
    app_id = rm.submit("root.sql.status")
    eventually(lambda: rm.app(app_id)["runningContainers"] == 1)
    answer = run("status", "--dir", cluster.spec.dir, "--json", tmp_path / "status.json")
    rm.kill(app_id)
    assert answer.returncode == 0, answer.stderr
    for shown in (cluster.rm_url, str(cluster.conf_dir), "127.0.2.2", "/rack2", "RUNNING", app_id, "root.sql.status"):
        assert shown in answer.stdout
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["daemons"] == cluster.daemons
    assert [node["total"]["yarn.io/gpu"] for node in status["nodes"]] == [4, 4, 4, 4]
    assert next(app for app in status["apps"] if app["id"] == app_id)["used"]["memory-mb"] == 128


def test_up_in_a_directory_in_use_fails_and_its_cluster_keeps_running(cluster):
    before = cluster.daemons
    answer = run("up", "--dir", cluster.spec.dir)
    assert answer.returncode == 1
    assert "a cluster is running here" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert cluster.daemons == before


def test_ports_in_use_are_an_error_that_suggests_free_ones(cluster, small):
    with pytest.raises(PortTakenError, match=r"--port-base \d+"):
        embedded.up(ClusterSpec(small.dir, port_base=cluster.spec.port_base))
    assert not (small.dir / "cluster.json").exists()


def test_a_new_application_gets_a_leaf_queue_of_weight_1(cluster, rm):
    app_id = rm.submit("root.sql.light")
    eventually(lambda: rm.queue("root.sql.light"))
    assert rm.queue("root.sql.light").weight == 1.0
    rm.write("root.sql.light", capacity="3w")
    assert rm.queue("root.sql.light").weight == 3.0
    rm.write("root.sql.light", capacity="")
    assert rm.queue("root.sql.light").weight == 1.0
    rm.kill(app_id)


def test_a_weight_written_before_its_queue_exists_is_used(cluster, rm):
    rm.write("root.sql.early", capacity="2w")
    app_id = rm.submit("root.sql.early")
    eventually(lambda: rm.queue("root.sql.early"))
    assert rm.queue("root.sql.early").weight == 2.0
    rm.kill(app_id)
    rm.write("root.sql.early", capacity="")


PREEMPTION_S = 5.0
"""Ten rounds of the preemption monitor, which kills containers a second after it has selected them."""


def test_application_masters_in_tiny_queues_are_not_preempted(cluster, rm):
    rm.write("root.sql.heavy", capacity="2w")
    apps = [rm.submit(f"root.sql.{name}") for name in ("heavy", "small1", "small2")]
    apps.append(rm.submit("root.sql.small3", memory_mb=896))
    eventually(lambda: all(rm.app(app_id)["runningContainers"] == 1 for app_id in apps))
    always(lambda: [rm.app(app_id)["numAMContainerPreempted"] for app_id in apps] == [0] * 4, PREEMPTION_S)
    for app_id in apps:
        rm.kill(app_id)
    rm.write("root.sql.heavy", capacity="")


def test_a_restarted_resource_manager_recovers_applications_and_weights(cluster, rm):
    app_id = rm.submit("root.sql.survivor")
    eventually(lambda: rm.has_started(app_id))
    rm.write("root.sql.survivor", capacity="5w")
    os.kill(cluster.daemons["rm"], signal.SIGKILL)
    eventually(lambda: "rm" not in cluster.daemons)
    answer = run("start", "rm", "--dir", cluster.spec.dir)
    assert answer.returncode == 0, answer.stderr
    eventually(lambda: rm.app(app_id)["runningContainers"] == 1)
    assert rm.queue("root.sql.survivor").weight == 5.0
    rm.kill(app_id)
    rm.write("root.sql.survivor", capacity="")


def test_a_killed_node_is_lost_and_can_be_restarted(cluster, rm):
    host = "127.0.2.2"
    os.kill(cluster.daemons[f"nm-{host}"], signal.SIGKILL)
    eventually(lambda: state(rm, host) == "LOST", limit_s=30)
    assert f"nm-{host}" not in cluster.daemons
    number = cluster.start(f"nm-{host}")
    assert cluster.daemons[f"nm-{host}"] == number
    assert state(rm, host) == "RUNNING"
    with pytest.raises(ClusterInUseError, match="is already running"):
        cluster.start(f"nm-{host}")
    with pytest.raises(BadInputError, match=r"nm-127\.0\.9\.9"):
        cluster.start("nm-127.0.9.9")


def test_down_stops_all_processes_of_a_second_cluster_with_hdfs_and_quotas(cluster, small, tmp_path):
    quotas = cgroups.find_parent() is not None
    answer = run(
        *("up", "--dir", small.dir, "--nodes", 1, "--port-base", small.port_base, "--hdfs", "--cpu-per-node", 0.5)
    )
    assert answer.returncode == 0, answer.stderr
    assert ("--cpu-per-node is ignored" in answer.stderr) is not quotas
    own = embedded.load(small.dir)
    assert f"HADOOP_CONF_DIR  {own.conf_dir}" in answer.stdout
    assert set(own.daemons) == {"nn", "dn", "rm", "nm-127.0.1.1"}
    assert not own.members & cluster.members
    rm = ResourceManager(own.rm_url)
    app_id = rm.submit("root.default", "env -i sleep 600")
    eventually(lambda: rm.app(app_id)["runningContainers"] == 1)
    eventually(lambda: "600" in words(own.members))
    assert all(group.exists() for group in own.record.cgroups.values())
    # After its node is killed, the container still runs; `down` must find and stop it.
    os.kill(own.daemons["nm-127.0.1.1"], signal.SIGKILL)
    eventually(lambda: "nm-127.0.1.1" not in own.daemons)
    left = own.members
    assert "600" in words(left)
    before = cluster.daemons
    assert run("down", "--dir", small.dir).returncode == 0
    assert not own.members
    assert not words(left)
    assert not any(group.exists() for group in own.record.cgroups.values())
    assert cluster.daemons == before
    assert run("down", "--dir", small.dir).returncode == 0


def test_a_node_that_fails_to_start_stops_the_cluster_with_the_reason(small, monkeypatch):
    monkeypatch.setattr(ports, "require_free", lambda *arguments: None)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.1.1", small.ports.nm_container))
        other.listen()
        with pytest.raises(DaemonError, match=rf"nm-127\.0\.1\.1 exited: .*{small.ports.nm_container}"):
            embedded.up(small)
    assert not embedded.load(small.dir).members


@one_in(2, "signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_after_an_interrupted_start_no_process_remains_or_down_stops_it(small, signal_number):
    command = ["up", "--dir", small.dir, "--nodes", 1, "--port-base", small.port_base]
    starting = subprocess.Popen(
        [sys.executable, "-c", "from yarn_plugin.cli import main; main()", "cluster", *map(str, command)],
        stderr=subprocess.DEVNULL,
    )
    eventually(lambda: (small.dir / "cluster.json").exists() and "rm" in embedded.load(small.dir).daemons)
    starting.send_signal(signal_number)
    assert starting.wait(60) != 0
    own = embedded.load(small.dir)
    if signal_number == signal.SIGKILL:
        assert own.members
        assert run("down", "--dir", small.dir).returncode == 0
    assert not own.members
