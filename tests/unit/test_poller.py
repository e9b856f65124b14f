"""The poller, against fake ResourceManagers: which changes it delivers, and above all which it does not."""

import time

import pytest

from tests.eventually import eventually
from tests.http_servers import WebServer, reply
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.events import (
    AppsChanged,
    Looked,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    NodeUseChanged,
    PartitionsChanged,
    QueuesChanged,
)
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import SkippedInputError
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.observe.poller import Poller, PollIntervals, Stopped
from yarn_plugin.observe.resource_manager import ManagerAwayError, ResourceManager


class Manager:
    """A ResourceManager's answers; change its fields and it has changed."""

    def __init__(self):
        self.state, self.started, self.nodes, self.apps = "ACTIVE", 1000, ["127.0.1.1", "127.0.1.2"], []
        self.nonsense, self.said, self.asked, self.states, self.used = None, {}, [], {}, {}

    def __call__(self, asked):
        path = asked.path.removeprefix("/ws/v1/cluster")
        self.asked.append(path)
        if self.nonsense is not None:
            return reply(self.nonsense)
        if path in self.said:
            said = self.said[path]
            return said() if callable(said) else reply(said)
        if path == "/info":
            said = {"resourceManagerVersion": "3.5.0", "haState": self.state, "startedOn": self.started}
            return reply({"clusterInfo": said})
        if self.state != "ACTIVE":
            return 307, {}, "This is standby RM. The redirect url is: /"
        return reply(getattr(self, "_" + path.strip("/").replace("-", "_"), dict)())

    def _scheduler_conf(self):
        return {"property": []}

    def _metrics(self):
        lost = sum(state == "LOST" for state in self.states.values())
        return {"clusterMetrics": {"activeNodes": len(self.nodes), "lostNodes": lost, "appsRunning": len(self.apps)}}

    def _nodes(self):
        nodes = [
            {
                "id": f"{host}:1",
                "state": self.states.get(host, "RUNNING"),
                "rack": "/r",
                "availMemoryMB": 1024,
                "availableVirtualCores": 4,
                **self.used.get(host, {}),
            }
            for host in self.nodes
        ]
        return {"nodes": {"node": nodes} if nodes else {}}

    def _apps(self):
        apps = [self.app(app) for app in self.apps]
        return {"apps": {"app": apps} if apps else None}

    def app(self, app, /, **changed):
        """An application as /apps shows it."""
        return {"id": app, "name": app, "user": "ann", "queue": "root.sql.x", "state": "RUNNING", **changed}

    def _scheduler(self):
        queues = [{"queueName": "sql", "queuePath": "root.sql", "absoluteCapacity": 80.0, "absoluteMaxCapacity": 100.0}]
        root = {"type": "capacityScheduler", "queueName": "root", "queues": {"queue": queues}}
        return {"scheduler": {"schedulerInfo": root}}


class EventSink:
    """Takes events in as the arbiter does, and keeps them; `fails` may raise instead."""

    def __init__(self):
        self.state, self.events, self.fails = State(), [], lambda event: None

    def known(self):
        return self.state.cluster

    def take(self, event):
        self.fails(event)
        self.events.append(event)
        self.state, _ = step(self.state, len(self.events), float(len(self.events)), event)

    def kinds(self):
        kinds, self.events = [type(event) for event in self.events], []
        return kinds


@pytest.fixture
def serve(closing):
    return lambda answer: closing(WebServer(answer)).url


@pytest.fixture
def start_poller(serve):
    """Starts a poller of one manager or a pair that polls on demand; returns it with its sink."""
    pollers = []

    def start(*managers, sink=None, watches_nodes=False, **seconds):
        sink = sink or EventSink()
        usual = dict.fromkeys(("metrics", "apps", "nodes", "queues", "reregister_timeout"), 1000.0)
        intervals = PollIntervals(**usual | {"confirm_delay": 0.0} | seconds)
        urls = [serve(manager) for manager in managers]
        pollers.append(Poller(ResourceManager(urls, "ann"), sink, {"root.sql"}, intervals, watches_nodes))
        pollers[-1].start(patient=False)
        return pollers[-1], sink

    yield start
    for made in pollers:
        made.close()


def test_the_first_poll_delivers_everything_once(start_poller):
    manager = Manager()
    manager.apps = ["application_1_1"]
    poller, sink = start_poller(manager)
    assert sink.kinds() == [ManagerReached, NodesChanged, QueuesChanged, AppsChanged, Looked]
    assert set(sink.known().nodes) == {"127.0.1.1:1", "127.0.1.2:1"}
    assert set(sink.known().queues) == {"root.sql"}
    poller.poll_now()
    assert sink.kinds() == []


def test_changes_are_reported(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager)
    sink.kinds()
    manager.apps = ["application_1_1"]
    poller.poll_now()
    assert sink.kinds() == [AppsChanged]
    manager.nodes = ["127.0.1.1"]
    poller.poll_now()
    assert sink.events == [NodesChanged((), ("127.0.1.2:1",))]


def vector(**amounts):
    names = {"gpus": GPU, "memory": "memory-mb"}
    entries = [{"name": names[name], "value": amount} for name, amount in amounts.items()]
    return {"resourceInformations": {"resourceInformation": entries}}


def test_what_is_used_of_nodes_with_gpus_is_reported_where_a_pool_reads_it(start_poller):
    manager = Manager()
    whole = {"totalResource": vector(memory=4096, gpus=4)}
    manager.used = {"127.0.1.1": {**whole, "usedResource": vector(memory=0, gpus=0)},
                    "127.0.1.2": {"usedResource": vector(memory=512)}}  # fmt: skip
    poller, sink = start_poller(manager, watches_nodes=True)
    assert [event for event in sink.events if isinstance(event, NodeUseChanged)] == [
        NodeUseChanged((("127.0.1.1:1", Resources.of({"memory-mb": 0, GPU: 0})),))
    ], "the other node has no GPU"
    sink.kinds()
    poller.poll_now()
    assert sink.events == []
    # As soon as the cluster's metrics change, not when the nodes are due.
    manager.used["127.0.1.1"]["usedResource"] = vector(memory=1024, gpus=1)
    manager.apps = ["application_1_1"]
    poller.poll_now()
    assert sink.kinds() == [AppsChanged, NodeUseChanged]
    assert sink.known().node_used == {"127.0.1.1:1": Resources.of({"memory-mb": 1024, GPU: 1})}
    manager.used["127.0.1.1"]["usedResource"] = "much"
    manager.apps = []
    poller.poll_now()
    assert sink.kinds() == [AppsChanged], "unreadable: as before"
    manager.nodes = ["127.0.1.2"]
    poller.poll_now()
    assert sink.known().node_used == {}


def test_what_is_used_of_nodes_is_not_reported_otherwise(start_poller):
    manager = Manager()
    manager.used = {"127.0.1.1": {"totalResource": vector(memory=4096, gpus=4), "usedResource": vector(gpus=2)}}
    _, sink = start_poller(manager)
    assert NodeUseChanged not in sink.kinds()


def test_the_labels_of_nodes_are_reported_before_the_nodes(start_poller):
    manager = Manager()
    manager.used = {"127.0.1.2": {"nodeLabels": ["gpu"]}}
    poller, sink = start_poller(manager)
    assert sink.kinds()[:3] == [ManagerReached, PartitionsChanged, NodesChanged]
    assert sink.known().partitions == {"127.0.1.2:1": "gpu"}
    poller.poll_now()
    assert sink.kinds() == []
    manager.used = {}
    manager.nodes.append("127.0.1.3")
    poller.poll_now()
    assert sink.kinds() == [PartitionsChanged, NodesChanged]
    assert sink.known().partitions == {}


def test_a_node_that_breaks_is_reported_lost_and_broken_and_later_healthy(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager)
    sink.kinds()
    manager.states = {"127.0.1.2": "UNHEALTHY"}
    poller.poll_now()
    (broken,) = sink.events
    assert broken == NodesChanged((), ("127.0.1.2:1",), broken.broken)
    assert [node.id for node in broken.broken] == ["127.0.1.2:1"]
    assert (set(sink.known().nodes), set(sink.known().broken)) == ({"127.0.1.1:1"}, {"127.0.1.2:1"})
    assert sink.known().capacity() == sink.known().nodes["127.0.1.1:1"].capacity
    sink.kinds()
    poller.poll_now()
    assert sink.events == [], "it is told once"
    manager.states = {}
    poller.poll_now()
    assert sink.events == [NodesChanged(broken.broken, ())]
    assert (len(sink.known().nodes), sink.known().broken) == (2, {})


def test_a_broken_node_that_is_not_listed_any_more_is_forgotten(start_poller):
    manager = Manager()
    manager.states = {"127.0.1.2": "LOST"}
    poller, sink = start_poller(manager)
    assert set(sink.known().broken) == {"127.0.1.2:1"}
    sink.kinds()
    manager.nodes = ["127.0.1.1"]
    poller.poll_now()
    assert sink.events == [NodesChanged((), ("127.0.1.2:1",))]
    assert sink.known().broken == {}


def test_nodes_that_break_all_at_once_are_polled_again_to_confirm(start_poller):
    manager = Manager()
    (patient, waiting), (hasty, sink) = start_poller(manager, confirm_delay=1000.0), start_poller(manager)
    manager.states = dict.fromkeys(manager.nodes, "LOST")
    patient.poll_now()
    assert (len(waiting.known().nodes), waiting.known().broken) == (2, {})
    hasty.poll_now()
    hasty.poll_now()
    assert (sink.known().nodes, len(sink.known().broken)) == ({}, 2)
    assert (patient.counters["mass_disappearances"], hasty.counters["mass_disappearances"]) == (1, 1)


def test_a_broken_node_that_cannot_be_decided_on_does_not_hold_up_the_others(start_poller):
    manager = Manager()
    manager.nodes = [f"127.0.1.{n}" for n in range(1, 7)]
    poller, sink = start_poller(manager)

    def fails(event):
        if isinstance(event, NodesChanged) and any(node.id == "127.0.1.5:1" for node in event.broken):
            raise SkippedInputError(1, "AppsChanged", "why not")

    sink.fails = fails
    manager.states = {"127.0.1.5": "LOST", "127.0.1.6": "LOST"}
    poller.poll_now()
    assert set(sink.known().broken) == {"127.0.1.6:1"}
    assert poller.counters["observations_refused"] == 1
    sink.kinds()
    poller.poll_now()
    assert sink.events == []


def test_losing_and_reaching_the_manager_are_reported_once_each(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager)
    sink.kinds()
    manager.state = "STANDBY"
    poller.poll_now(0.3)
    poller.poll_now(0.3)
    assert sink.kinds() == [ManagerLost]
    manager.state = "ACTIVE"
    poller.poll_now()
    assert sink.kinds() == [ManagerReached, Looked]


def test_nodes_that_a_restarted_manager_does_not_know_yet_are_not_lost(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager)
    manager.state = "STANDBY"
    poller.poll_now(0.3)
    manager.state, manager.started, manager.nodes = "ACTIVE", 2000, []
    sink.kinds()
    poller.poll_now()
    manager.nodes = ["127.0.1.1"]
    poller.poll_now()
    assert sink.kinds() == [ManagerReached, Looked]
    assert len(sink.known().nodes) == 2


def test_nodes_that_never_report_to_a_restarted_manager_are_lost_eventually(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager, reregister_timeout=0.0)
    manager.state = "STANDBY"
    poller.poll_now(0.3)
    manager.state, manager.started, manager.nodes = "ACTIVE", 2000, ["127.0.1.1"]
    sink.kinds()
    poller.poll_now()
    assert sink.kinds() == [ManagerReached, NodesChanged, Looked]


def test_of_a_pair_a_failover_between_two_polls_is_noticed_and_no_node_is_lost(start_poller):
    first, second = Manager(), Manager()
    second.state, second.started, second.nodes = "STANDBY", 2000, []
    poller, sink = start_poller(first, second)
    sink.kinds()
    first.state, second.state = "STANDBY", "ACTIVE"
    poller.poll_now()
    assert sink.kinds() == [ManagerReached, Looked]
    assert len(sink.known().nodes) == 2
    second.nodes = first.nodes
    poller.poll_now()
    assert sink.kinds() == []


def test_answers_that_are_not_a_managers_lose_it_until_it_is_one_again(start_poller, caplog):
    manager = Manager()
    poller, sink = start_poller(manager)
    sink.kinds()
    manager.nonsense = {"clusterMetrics": ["what"]}
    poller.poll_now(0.3)
    manager.nonsense = None
    poller.poll_now()
    assert sink.kinds() == [ManagerLost, ManagerReached, Looked]


def test_a_manager_that_is_not_there_is_an_error_unless_there_is_patience(serve):
    manager = Manager()
    manager.state = "STANDBY"
    url = serve(manager)
    with pytest.raises(ManagerAwayError):
        Poller(ResourceManager([url], "ann"), EventSink(), set(), PollIntervals(metrics=1000.0)).start(patient=False)
    sink = EventSink()
    patient = Poller(ResourceManager([url], "ann"), sink, set(), PollIntervals(metrics=1000.0))
    patient.start(patient=True)
    assert sink.kinds() == [ManagerLost]
    patient.close()


def apps_gone(sink):
    return [name for event in sink.events if isinstance(event, AppsChanged) for name in event.gone]


THREE = ["application_1_1", "application_1_2", "application_1_3"]


@pytest.mark.parametrize(
    "nonsense",
    [{}, {"message": "try later"}, {"apps": []}, {"apps": {"message": "no"}}, {"apps": {"app": "none"}}, {"app": None}],
)
def test_nothing_is_learned_from_a_malformed_answer(start_poller, nonsense):
    manager, path = Manager(), "/apps"
    manager.apps = THREE
    poller, sink = start_poller(manager)
    sink.kinds()
    manager.said = {path: nonsense}
    poller.poll_now(0.3)
    assert sink.kinds() == [ManagerLost]
    assert set(sink.known().apps) == set(THREE)
    manager.said = {}
    poller.poll_now()
    assert sink.kinds() == [ManagerReached, Looked]


def test_a_manager_that_answers_some_questions_only_is_lost_once(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager, metrics=0.01)
    sink.kinds()
    manager.said = {"/apps": {}}
    poller.poll_now(0.1)
    eventually(lambda: poller.counters["looks_failed"] > 5)
    assert sink.kinds() == [ManagerLost]
    manager.said = {}
    eventually(lambda: Looked in [type(event) for event in sink.events])
    assert sink.kinds() == [ManagerReached, Looked]


@pytest.mark.parametrize("nonsense", [{}, {"message": "try later"}, {"nodes": "none"}, {"nodes": {"node": 3}}])
def test_a_malformed_answer_loses_no_node(start_poller, nonsense):
    manager = Manager()
    poller, sink = start_poller(manager)
    manager.said = {"/nodes": nonsense}
    poller.poll_now(0.3)
    assert len(sink.known().nodes) == 2


@pytest.mark.parametrize("path", ["/metrics", "/info", "/scheduler"])
@pytest.mark.parametrize("nonsense", [{}, {"message": "try later"}])
def test_an_invalid_answer_loses_the_manager_and_nothing_else(start_poller, path, nonsense):
    manager = Manager()
    manager.apps = THREE
    poller, sink = start_poller(manager, queues=0.0)
    sink.kinds()
    manager.said = {path: nonsense}
    poller.poll_now(0.3)
    assert sink.kinds() == [ManagerLost]
    assert (len(sink.known().apps), len(sink.known().nodes), len(sink.known().queues)) == (3, 2, 1)


@pytest.mark.parametrize(
    "broken",
    [
        {"state": 3}, {"state": None}, {"queue": None}, {"runningContainers": -7}, {"runningContainers": 10**16},
        {"allocatedMB": "1024"}, {"allocatedMB": 1.5}, {"startedTime": float("nan")}, {"resourceInfo": [1]},
        {"resourceInfo": {"resourceUsagesByPartition": [{"used": {"memory": -5}}]}},
        {"resourceInfo": {"resourceUsagesByPartition": ["x"]}}, {"runningContainers": True}, {"name": {}},
    ],
)  # fmt: skip
def test_an_application_that_cannot_be_read_stays_as_it_was_and_loses_no_other(start_poller, caplog, broken):
    manager = Manager()
    manager.apps = THREE
    poller, sink = start_poller(manager)
    before = sink.known().apps
    sink.kinds()
    listed = [
        manager.app(THREE[0], **broken),
        manager.app(THREE[1], runningContainers=5),
        manager.app("application_1_4"),
    ]
    manager.said = {"/apps": {"apps": {"app": listed}}}
    for _ in range(3):
        poller.poll_now()
    known = sink.known().apps
    assert known[THREE[0]] == before[THREE[0]]
    assert (known[THREE[1]].containers, set(known)) == (5, {THREE[0], THREE[1], "application_1_4"})
    assert poller.counters["items_unreadable"] == 1
    assert len([line for line in caplog.messages if line.startswith(f"/apps: {THREE[0]} cannot be read")]) == 1


@pytest.mark.parametrize("nameless", [None, 3, "application_1_1", {}, {"id": 3}, {"id": "a\nb"}, {"id": "\ud800"}])
def test_while_something_has_no_id_nothing_that_is_missing_is_gone(start_poller, nameless):
    manager = Manager()
    manager.apps = THREE
    poller, sink = start_poller(manager)
    manager.said = {"/apps": {"apps": {"app": [manager.app(THREE[1]), manager.app("application_1_4"), nameless]}}}
    poller.poll_now()
    poller.poll_now()
    assert set(sink.known().apps) == {*THREE, "application_1_4"}
    manager.said = {"/apps": {"app": [manager.app(THREE[1]), manager.app("application_1_4")]}}
    poller.poll_now()
    eventually(lambda: set(sink.known().apps) == {THREE[1], "application_1_4"})


@pytest.mark.parametrize(
    "broken",
    [{"state": "ASLEEP"}, {"state": None}, {"totalResource": 3}, {"totalResource": {"memory": 10**16}}, {"rack": 1}],
)
def test_a_node_that_cannot_be_read_is_not_lost(start_poller, broken):
    manager = Manager()
    poller, sink = start_poller(manager)
    before = sink.known().nodes
    (first, second) = manager._nodes()["nodes"]["node"]
    manager.said = {"/nodes": {"nodes": {"node": [{**first, **broken}, second]}}}
    poller.poll_now()
    assert sink.known().nodes == before
    assert poller.counters["items_unreadable"] == 1


def test_finished_applications_in_an_answer_are_ignored(start_poller):
    manager = Manager()
    manager.apps = THREE
    poller, sink = start_poller(manager)
    states = ("FINISHED", "FAILED", "KILLED")
    ended = [manager.app(f"application_0_{n}", state=states[n % 3]) for n in range(10_000)]
    manager.said = {"/apps": {"apps": {"app": [*ended, manager.app(THREE[0]), manager.app("new", state="WHATEVER")]}}}
    poller.poll_now()
    eventually(lambda: set(sink.known().apps) == {THREE[0], "new"})


def test_what_disappears_at_once_is_believed_when_it_was_missing_twice(start_poller):
    manager = Manager()
    manager.apps = [*THREE, "application_1_4", "application_1_5"]
    poller, sink = start_poller(manager, confirm_delay=1000.0)
    manager.apps = THREE[:1]
    poller.poll_now()
    poller.poll_now()
    assert apps_gone(sink) == []
    assert poller.counters["mass_disappearances"] == 1
    manager.apps = [*THREE, "application_1_4", "application_1_5"]
    poller.poll_now()
    assert (apps_gone(sink), len(sink.known().apps)) == ([], 5)


def test_a_second_poll_follows_and_what_is_still_missing_is_gone(start_poller):
    manager = Manager()
    manager.apps, manager.nodes = list(THREE), ["127.0.1.1", "127.0.1.2"]
    poller, sink = start_poller(manager, confirm_delay=0.05)
    manager.apps, manager.nodes = [], []
    poller.poll_now()
    eventually(lambda: not sink.known().apps and not sink.known().nodes)
    assert poller.counters["mass_disappearances"] == 2


def test_a_single_end_is_reported_at_once(start_poller):
    manager = Manager()
    manager.apps = [*THREE, "application_1_4", "application_1_5"]
    poller, sink = start_poller(manager, confirm_delay=1000.0)
    manager.apps = THREE
    poller.poll_now()
    assert sorted(apps_gone(sink)) == ["application_1_4", "application_1_5"]


def test_a_complete_poll_is_reported_once_after_each_reconnection(start_poller):
    manager = Manager()
    manager.apps = THREE
    poller, sink = start_poller(manager, confirm_delay=1000.0)
    assert sink.kinds().count(Looked) == 1
    assert poller.last_poll is not None
    poller.poll_now()
    assert Looked not in sink.kinds()
    manager.nonsense = {}
    poller.poll_now(0.3)
    manager.nonsense, manager.apps = None, []
    poller.poll_now()
    assert Looked not in sink.kinds(), "what is in doubt has not been seen"
    manager.apps = THREE
    poller.poll_now()
    assert sink.kinds() == [Looked]


def test_a_manager_that_starts_again_and_answers_as_if_empty_is_not_believed(start_poller):
    """Killed and started between two polls: while it recovers it answers 200 with empty lists."""
    manager = Manager()
    manager.apps = THREE[:1]
    poller, sink = start_poller(manager)
    manager.state, manager.started, manager.apps, manager.nodes = "INITIALIZING", 2000, [], []
    empty = {"clusterMetrics": {"activeNodes": 0, "appsRunning": 0}}
    manager.said = {"/metrics": empty, "/apps": {"apps": {}}, "/nodes": {"nodes": {}}}
    poller.poll_now(0.5)
    assert (set(sink.known().apps), len(sink.known().nodes)) == ({THREE[0]}, 2)
    assert isinstance(sink.events[-1], ManagerLost)


def test_an_answer_from_before_a_restart_is_not_believed_after_it(start_poller):
    manager = Manager()
    manager.apps = THREE[:1]
    poller, sink = start_poller(manager)

    def restart():
        manager.started, manager.said = 2000, {}
        return reply({"apps": {}})

    manager.said = {"/apps": restart}
    poller.poll_now()
    assert set(sink.known().apps) == {THREE[0]}
    assert sink.kinds()[-2:] == [ManagerReached, Looked]


def test_an_arbiter_that_starts_just_after_the_manager_waits_for_the_nodes_it_knows(start_poller):
    first, sink = Manager(), EventSink()
    start_poller(first, sink=sink)
    late = Manager()
    late.started, late.nodes = int(time.time() - 10) * 1000, ["127.0.1.1"]
    poller, _ = start_poller(late, sink=sink, reregister_timeout=60.0)
    assert len(sink.known().nodes) == 2
    late.nodes = ["127.0.1.1", "127.0.1.2"]
    poller.poll_now()
    late.nodes = ["127.0.1.1"]
    poller.poll_now()
    assert set(sink.known().nodes) == {"127.0.1.1:1"}, "one that had reported, and is missing, is lost"


def test_a_manager_that_has_run_for_long_is_believed_at_once(start_poller):
    first, sink = Manager(), EventSink()
    start_poller(first, sink=sink)
    late = Manager()
    late.started, late.nodes = int(time.time() - 100) * 1000, ["127.0.1.1"]
    start_poller(late, sink=sink, reregister_timeout=60.0)
    assert set(sink.known().nodes) == {"127.0.1.1:1"}


def test_containers_on_nodes_that_have_not_reported_again_are_still_there(start_poller):
    manager = Manager()
    manager.apps = THREE
    manager.app = lambda name, **more: {**Manager.app(manager, name), "runningContainers": 4, "allocatedMB": 4096}
    poller, sink = start_poller(manager)
    before = sink.known().apps
    manager.state = "STANDBY"
    poller.poll_now(0.3)
    manager.state, manager.started, manager.nodes = "ACTIVE", 2000, []
    manager.app = lambda name, **more: Manager.app(manager, name, state="ACCEPTED", runningContainers=0)
    poller.poll_now()
    assert sink.known().apps == before
    manager.nodes = ["127.0.1.1", "127.0.1.2"]
    poller.poll_now()
    assert {app.containers for app in sink.known().apps.values()} == {0}


def test_weights_stay_writable_when_the_configuration_cannot_be_read_just_then(start_poller):
    manager = Manager()
    poller, sink = start_poller(manager)
    assert sink.state.capabilities.writable
    manager.said = {"/scheduler-conf": lambda: (500, {}, "oh no")}
    manager.nonsense = {}
    poller.poll_now(0.3)
    manager.nonsense = None
    poller.poll_now()
    assert isinstance(sink.events[-1], Looked)
    assert sink.state.capabilities.writable


class Choosy(EventSink):
    """A sink that cannot decide on some ids."""

    def __init__(self, *bad):
        super().__init__()
        self.bad, self.refused = set(bad), []
        self.fails = self._choose

    def _choose(self, event):
        if isinstance(event, AppsChanged | NodesChanged):
            ids = {one.id for one in event.present} | set(event.gone)
            if ids & self.bad:
                self.refused.append(ids)
                raise SkippedInputError(len(self.refused), "AppsChanged", "OverflowError: too large")


def test_a_skipped_observation_is_narrowed_to_the_faulty_item(start_poller, caplog):
    manager, sink = Manager(), Choosy("application_1_3", "127.0.1.2:1")
    manager.apps = [f"application_1_{n}" for n in range(1, 8)]
    poller, _ = start_poller(manager, sink=sink)
    assert set(sink.known().apps) == set(manager.apps) - {"application_1_3"}
    assert set(sink.known().nodes) == {"127.0.1.1:1"}
    assert poller.counters["observations_refused"] == 2
    tries = len(sink.refused)
    poller.poll_now()
    poller.poll_now()
    assert len(sink.refused) == tries, "it is not handed on again while it is the same"
    assert len([line for line in caplog.messages if "application_1_3" in line]) == 1
    manager.app = lambda name, **more: Manager.app(manager, name, runningContainers=2)
    poller.poll_now()
    assert len(sink.refused) == tries, "nor, changed, more often than once a minute"
    assert {app.containers for app in sink.known().apps.values()} == {2}


def test_differences_are_delivered_again_until_the_journal_takes_them(start_poller):
    manager, sink = Manager(), EventSink()
    poller, _ = start_poller(manager, sink=sink, metrics=0.02)

    def full(event):
        raise JournalUnavailableError("No space left on device")

    sink.kinds()
    sink.fails = full
    manager.apps = ["application_1_1"]
    poller.poll_now(0.2)
    assert sink.kinds() == []
    failed = poller.counters["looks_failed"]
    sink.fails = lambda event: None
    eventually(lambda: set(sink.known().apps) == {"application_1_1"})
    assert (failed > 0, poller.is_alive()) == (True, True)


@pytest.mark.parametrize(
    "problem", [OSError("disk"), OverflowError("int too large"), MemoryError(), KeyError("x"), RuntimeError("y")]
)
def test_no_exception_ends_the_poller(start_poller, caplog, problem):
    manager, sink = Manager(), EventSink()
    poller, _ = start_poller(manager, sink=sink, metrics=0.02)
    sink.fails = lambda event: (_ for _ in ()).throw(problem)
    manager.apps = ["application_1_1"]
    eventually(lambda: poller.counters["looks_failed"] + poller.counters["observations_refused"] > 0)
    sink.fails = lambda event: None
    manager.apps = ["application_1_1", "application_1_2"]
    eventually(lambda: "application_1_2" in sink.known().apps)
    assert poller.is_alive()


def test_the_end_of_the_arbiter_ends_the_poller_quietly(start_poller, caplog):
    manager, sink = Manager(), EventSink()
    poller, _ = start_poller(manager, sink=sink, metrics=0.02)
    sink.fails = lambda event: (_ for _ in ()).throw(Stopped())
    manager.apps = ["application_1_1"]
    eventually(lambda: not poller.is_alive())
    assert "Traceback" not in caplog.text
    assert poller.counters["looks_failed"] == 0


def test_a_skipped_internal_event_stops_nothing(start_poller):
    manager, sink = Manager(), EventSink()

    def refuse(event):
        if isinstance(event, ManagerReached | Looked):
            raise SkippedInputError(1, "AppsChanged", "no")

    sink.fails = refuse
    poller, _ = start_poller(manager, sink=sink)
    assert len(sink.known().nodes) == 2
    assert poller.counters["observations_refused"] == 2
    poller.poll_now()
    assert poller.counters["observations_refused"] == 2
