"""The watch, against servers that play ResourceManagers: what it tells, and above all what it does not."""

import pytest

from tests.web import WebServer, reply
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.events import AppsChanged, Looked, ManagerLost, ManagerReached, NodesChanged, QueuesChanged
from yarn_plugin.decide.state import State
from yarn_plugin.observe.resource_manager import ManagerAwayError, ResourceManager
from yarn_plugin.observe.watch import Rhythm, Watch


class Manager:
    """A ResourceManager's answers; change its fields and it has changed."""

    def __init__(self):
        self.state, self.started, self.nodes, self.apps = "ACTIVE", 1000, ["127.0.1.1", "127.0.1.2"], []
        self.nonsense = None

    def __call__(self, asked):
        path = asked.path.removeprefix("/ws/v1/cluster")
        if self.nonsense is not None:
            return reply(self.nonsense)
        if path == "/info":
            said = {"resourceManagerVersion": "3.5.0", "haState": self.state, "startedOn": self.started}
            return reply({"clusterInfo": said})
        if self.state != "ACTIVE":
            return 307, {}, "This is standby RM. The redirect url is: /"
        return reply(getattr(self, "_" + path.strip("/").replace("-", "_"), dict)())

    def _scheduler_conf(self):
        return {"property": []}

    def _metrics(self):
        return {"clusterMetrics": {"activeNodes": len(self.nodes), "appsRunning": len(self.apps)}}

    def _nodes(self):
        nodes = [
            {"id": f"{host}:1", "state": "RUNNING", "rack": "/r", "availMemoryMB": 1024, "availableVirtualCores": 4}
            for host in self.nodes
        ]
        return {"nodes": {"node": nodes} if nodes else {}}

    def _apps(self):
        apps = [{"id": app, "name": app, "user": "ann", "queue": "root.sql.x", "state": "RUNNING"} for app in self.apps]
        return {"apps": {"app": apps} if apps else None}

    def _scheduler(self):
        queues = [{"queueName": "sql", "queuePath": "root.sql", "absoluteCapacity": 80.0, "absoluteMaxCapacity": 100.0}]
        root = {"type": "capacityScheduler", "queueName": "root", "queues": {"queue": queues}}
        return {"scheduler": {"schedulerInfo": root}}


class Taker:
    """Takes events in as the arbiter does, and keeps them."""

    def __init__(self):
        self.state, self.events = State(), []

    def known(self):
        return self.state.cluster

    def take(self, event):
        self.events.append(event)
        if isinstance(event, Looked):  # which changes nothing of what is known of the cluster
            return
        self.state, _ = step(self.state, len(self.events), float(len(self.events)), event)

    def kinds(self):
        kinds, self.events = [type(event) for event in self.events], []
        return kinds


@pytest.fixture
def serve():
    servers = []

    def start(answer):
        servers.append(WebServer(answer))
        return servers[-1].url

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def watch(serve):
    """A watch that looks when it is told to, at one manager or at a pair, with what it watches and who it tells."""
    watches = []

    def start(*managers, reported_again=1000.0):
        taker = Taker()
        rhythm = Rhythm(figures=1000.0, apps=1000.0, nodes=1000.0, queues=1000.0, reported_again=reported_again)
        urls = [serve(manager) for manager in managers]
        watches.append(Watch(ResourceManager(urls, "ann"), taker, {"root.sql"}, rhythm))
        watches[-1].start(patient=False)
        return watches[-1], taker

    yield start
    for made in watches:
        made.close()


def test_the_first_look_tells_everything_once(watch):
    manager = Manager()
    manager.apps = ["application_1_1"]
    looking, taker = watch(manager)
    assert taker.kinds() == [ManagerReached, NodesChanged, QueuesChanged, AppsChanged, Looked]
    assert set(taker.known().nodes) == {"127.0.1.1:1", "127.0.1.2:1"}
    assert set(taker.known().queues) == {"root.sql"}
    looking.look()
    assert taker.kinds() == []


def test_changes_are_told(watch):
    manager = Manager()
    looking, taker = watch(manager)
    taker.kinds()
    manager.apps = ["application_1_1"]
    looking.look()
    assert taker.kinds() == [AppsChanged]
    manager.nodes = ["127.0.1.1"]
    looking.look()
    assert taker.events == [NodesChanged((), ("127.0.1.2:1",))]


def test_a_manager_that_goes_and_comes_is_told_once_each(watch):
    manager = Manager()
    looking, taker = watch(manager)
    taker.kinds()
    manager.state = "STANDBY"
    looking.look(0.3)
    looking.look(0.3)
    assert taker.kinds() == [ManagerLost]
    manager.state = "ACTIVE"
    looking.look()
    assert taker.kinds() == [ManagerReached, Looked]


def test_nodes_that_a_restarted_manager_does_not_know_yet_are_not_lost(watch):
    manager = Manager()
    looking, taker = watch(manager)
    manager.state = "STANDBY"
    looking.look(0.3)
    manager.state, manager.started, manager.nodes = "ACTIVE", 2000, []
    taker.kinds()
    looking.look()
    manager.nodes = ["127.0.1.1"]
    looking.look()
    assert taker.kinds() == [ManagerReached, Looked]
    assert len(taker.known().nodes) == 2


def test_nodes_that_never_report_to_a_restarted_manager_are_lost_in_the_end(watch):
    manager = Manager()
    looking, taker = watch(manager, reported_again=0.0)
    manager.state = "STANDBY"
    looking.look(0.3)
    manager.state, manager.started, manager.nodes = "ACTIVE", 2000, ["127.0.1.1"]
    taker.kinds()
    looking.look()
    assert taker.kinds() == [ManagerReached, NodesChanged, Looked]


def test_of_a_pair_a_failover_between_two_looks_is_noticed_and_no_node_is_lost(watch):
    first, second = Manager(), Manager()
    second.state, second.started, second.nodes = "STANDBY", 2000, []
    looking, taker = watch(first, second)
    taker.kinds()
    first.state, second.state = "STANDBY", "ACTIVE"
    looking.look()
    assert taker.kinds() == [ManagerReached, Looked]
    assert len(taker.known().nodes) == 2
    second.nodes = first.nodes
    looking.look()
    assert taker.kinds() == []


def test_answers_that_are_not_a_managers_lose_it_until_it_is_one_again(watch, caplog):
    manager = Manager()
    looking, taker = watch(manager)
    taker.kinds()
    manager.nonsense = {"clusterMetrics": ["what"]}
    looking.look(0.3)
    manager.nonsense = None
    looking.look()
    assert taker.kinds() == [ManagerLost, ManagerReached, Looked]


def test_a_manager_that_is_not_there_is_an_error_unless_there_is_patience(serve):
    manager = Manager()
    manager.state = "STANDBY"
    url = serve(manager)
    with pytest.raises(ManagerAwayError):
        Watch(ResourceManager([url], "ann"), Taker(), set(), Rhythm(figures=1000.0)).start(patient=False)
    taker = Taker()
    patient = Watch(ResourceManager([url], "ann"), taker, set(), Rhythm(figures=1000.0))
    patient.start(patient=True)
    assert taker.kinds() == [ManagerLost]
    patient.close()
