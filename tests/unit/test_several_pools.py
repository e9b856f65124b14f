"""Pools of several kinds beside each other, in each other, and over restarts with other settings."""

from dataclasses import dataclass, replace

import pytest

from tests.arbiter_world import ALLOWED, SQL, node
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import WriteWeights
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    LeavesSeen,
    Looked,
    ManagerReached,
    NodesChanged,
    WeightsWritten,
)
from yarn_plugin.decide.pools.controller import Kind
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
