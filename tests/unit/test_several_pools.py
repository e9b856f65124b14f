"""Pools of several kinds beside each other, in each other, and over restarts with other settings."""

from dataclasses import dataclass, replace

import pytest

from tests.arbiter_world import ALLOWED, SQL, node
from tests.lease_world import SETTINGS, Agent, World, row
from tests.lease_world import node as gpu_node
from tests.toys.stage import Simulated
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import WriteWeights
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    LeavesSeen,
    Looked,
    ManagerReached,
    NodesChanged,
    PartitionsChanged,
    WeightsWritten,
)
from yarn_plugin.decide.pools.commands import Offer
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.drive.virtual_time import VirtualArbiter
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Pool


@dataclass(frozen=True)
class Nothing:
    pass


class Silent:
    """Never requests weights."""

    reads = frozenset({"topology"})

    def initial_state(self):
        return Nothing()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        return state, ()


KIND = Kind("silent", lambda pool, registry: Silent(), {"silent/1": Nothing})
REGISTRY = replace(BUILT_IN, kinds={**BUILT_IN.kinds, "silent": KIND})
OUTER = Pool("outer", "root.sql", (), controller="silent")
GPU = Pool("gpu", "root.gpu", (), controller="silent")


@pytest.fixture
def arbiter():
    return VirtualArbiter(lambda taken: None, REGISTRY, at=1000.0)


def test_weights_are_removed_in_a_pool_nested_in_one_without_weights(arbiter):
    inner = replace(SQL, name="inner", queue="root.sql.inner")
    running = YarnApp("application_1", "a", "ann", "root.sql.inner.leaf_1_0000000a", True, 1.0, Resources(),
                      Resources.of({"vcores": 1}), 0)  # fmt: skip
    arbiter.take(Configured((OUTER, inner)))
    arbiter.take(ManagerReached("http://rm", ALLOWED))
    arbiter.take(LeavesSeen((), ()))
    arbiter.take(NodesChanged((node(1),), ()))
    arbiter.take(Looked())
    (written,) = (one for one in arbiter.take(AppsChanged((running,), ())) if isinstance(one, WriteWeights))
    arbiter.take(WeightsWritten(written.weights, ()))
    (written,) = (one for one in arbiter.take(AppsChanged((), (running.id,))) if isinstance(one, WriteWeights))
    assert written.forget == (running.queue,)


def test_cells_read_lazily_match_the_present_nodes(arbiter):
    arbiter.take(Configured((GPU,)))
    arbiter.take(NodesChanged((node(1),), ()))
    arbiter.take(Configured((SQL,)))
    arbiter.take(NodesChanged((node(2),), (node(1).id,)))
    arbiter.take(Configured((SQL, GPU)))
    assert set(arbiter.state.cells.cells) == {"/rack1", "127.0.1.2"}


def leased(**settings):
    """Two pools that lease GPUs, each on nodes of its own; n3 is in neither."""
    pools = []
    for name, own in settings.items():
        parameters = LeaseSettings(**SETTINGS, f=0.0, payments=False, **own)
        pools.append(Pool(name, f"root.{name}", (), controller="lease", parameters=parameters))
    world = World(Simulated(*pools))
    world.stage.take(ManagerReached("http://rm", ALLOWED))
    labels = {"n1:8041": "a", "n2:8041": "b"}
    world.stage.take(PartitionsChanged(tuple(labels.items())))
    world.stage.take(NodesChanged(tuple(gpu_node(f"n{number}", 2) for number in (1, 2, 3)), ()))
    return world


@pytest.mark.parametrize(
    ("small", "large"), [({"partition": "a"}, {"partition": "b"}), ({"nodes": ("n1",)}, {"nodes": ("n[2]",)})]
)
def test_pools_of_disjoint_partitions_or_nodes_lease_gpus_beside_each_other(small, large):
    world = leased(small=small, large=large)
    apps = {}
    for pool in ("small", "large"):
        apps[pool] = world.stage.register(f"from {pool}", pool)
        world.agents[apps[pool]] = Agent(rho=3.0, rows=(row(1.0, 2),))
        world.master(apps[pool])
    world.wait(20)
    held = {
        app: [gpu for one in world.stage.state(pool).leases.values() if one.lease.app == app for gpu in one.gpus]
        for pool, app in apps.items()
    }
    assert held == {apps["small"]: ["n1/0", "n1/1"], apps["large"]: ["n2/0", "n2/1"]}
    assert {offer.offer.cluster_gpus for offer in world.sent(Offer)} == {2}


def test_a_node_that_gets_another_label_changes_pools():
    world = leased(small={"partition": "a"}, large={"partition": "b"})
    app = world.stage.register("from large", "large")
    world.agents[app] = Agent(rho=3.0, rows=(row(1.0, 2),))
    world.wait(20)
    world.stage.take(PartitionsChanged((("n1:8041", "b"), ("n2:8041", "b"))))
    assert dict(world.stage.state("large").machines) == {"n1": 2, "n2": 2}
    assert world.stage.state("small").machines == ()
