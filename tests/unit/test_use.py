"""What applications hold on each node, from the lists of their containers."""

from dataclasses import dataclass

from yarn_plugin.decide import events
from yarn_plugin.decide.arbiter import BUILT_IN, step
from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.state import State
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.decide.use import use_of, with_use, without_use
from yarn_plugin.model.cluster import Capabilities, ClusterView, Container, Node, Use, YarnApp
from yarn_plugin.model.resources import GPU, VCORES, Resources
from yarn_plugin.model.share import Pool

NAME = "container_1_1_01_%06d"


def container(number, node, cores=1, gpus=0, master=False):
    return Container(NAME % number, node, Resources.of({VCORES: cores, GPU: gpus}), master)


LISTED = (container(1, "b:1", master=True), container(2, "b:1", 2, 1), container(3, "a:1", 4, 2))


def test_use_is_added_up_by_node():
    assert use_of("app_1", LISTED) == (
        Use("app_1", "a:1", Resources.of({VCORES: 4, GPU: 2}), (NAME % 3,)),
        Use("app_1", "b:1", Resources.of({VCORES: 3, GPU: 1}), (NAME % 1, NAME % 2)),
    )
    assert use_of("app_1", reversed(LISTED)) == use_of("app_1", LISTED)


def test_a_list_replaces_the_one_before_of_that_application_alone():
    known = with_use(ClusterView(), ContainersListed("app_1", LISTED))
    known = with_use(known, ContainersListed("app_2", (container(1, "a:1"),)))
    known = with_use(known, ContainersListed("app_1", (container(4, "c:1"),)))
    assert known.use["app_1"] == (Use("app_1", "c:1", Resources.of({VCORES: 1}), (NAME % 4,)),)
    assert known.use["app_2"] == (Use("app_2", "a:1", Resources.of({VCORES: 1}), (NAME % 1,)),)


def test_applications_that_do_not_count_any_more_are_forgotten():
    known = with_use(ClusterView(), ContainersListed("app_1", LISTED))
    known = with_use(known, ContainersListed("app_2", LISTED))
    assert without_use(known, {"app_1", "app_2"}) is known
    assert without_use(known, {"app_2"}).use.keys() == {"app_2"}


@dataclass(frozen=True)
class Nothing:
    """What a recorder remembers."""


class Recorder:
    """A controller that keeps the views that it is shown."""

    reads = frozenset({"use", "topology", "claims"})

    def __init__(self, seen):
        self.seen = seen

    def initial_state(self):
        return Nothing()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        self.seen.append(view)
        return state, ()


class Cluster:
    """An arbiter with a pool of such a controller and a pool of shares; nodes and applications as a test has them."""

    def __init__(self):
        self.seen, self.state, self.seq = [], State(), 0
        kind = Kind("recorder", lambda pool, registry: Recorder(self.seen), {"recorder/1": Nothing})
        self.registry = Registry({**BUILT_IN.kinds, "recorder": kind}, BUILT_IN.policies)
        pools = (Pool("gpu", "root.gpu", (VCORES,), controller="recorder"), Pool("sql", "root.sql", (VCORES,)))
        self.feed(events.Configured(pools))
        self.feed(events.ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
        node = Node("a:1", "/rack1", Resources.of({VCORES: 8}))
        self.feed(events.NodesChanged((node,), ()))

    def feed(self, event):
        self.seq += 1
        self.state, commands = step(self.state, self.seq, float(self.seq), event, StepCache(self.registry))
        return [one for one in commands if isinstance(one, ListContainers)]

    def app(self, queue, containers):
        name = f"application_1_{queue[-1]}"
        held = Resources.of({VCORES: containers})
        running = YarnApp(name, name, "ann", f"root.{queue}", False, 1.0, held, Resources(), containers)
        return name, self.feed(events.AppsChanged((running,), ()))


def test_containers_are_listed_for_pools_whose_controller_reads_use_and_for_no_others():
    cluster = Cluster()
    name, asked = cluster.app("gpu.a", 2)
    assert [(one.app, one.yarn_app) for one in asked] == [(name, name)]
    assert cluster.app("gpu.a", 2)[1] == [], "it has as many as when it was asked for"
    assert cluster.app("sql.b", 3)[1] == []
    assert cluster.feed(ContainersListed(name, LISTED)) == []
    assert cluster.seen[-1].use == use_of(name, LISTED)
    assert len(cluster.app("gpu.a", 3)[1]) == 1
    assert len(cluster.feed(events.LeavesSeen((), ()))) == 1, "from time to time it is asked whatever it has"
    cluster.feed(events.AppsChanged((), (name,)))
    assert cluster.seen[-1].use == ()
    assert not cluster.state.cluster.use
    assert not cluster.state.listed


def test_a_controller_sees_the_cells_of_the_cluster_and_which_are_broken():
    cluster = Cluster()
    (cell,) = cluster.seen[-1].topology.at("node")
    assert (cell.parent, cell.broken) == ("/rack1", False)
    lost = Node("a:1", "/rack1", Resources.of({VCORES: 8}))
    cluster.feed(events.NodesChanged((), ("a:1",), (lost,)))
    (cell,) = cluster.seen[-1].topology.at("node")
    assert cell.broken
