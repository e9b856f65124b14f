"""Opportunistic work: who is next, and what becomes guaranteed where it runs."""

import pytest

from tests.cells_world import World
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.mechanisms.buddy_cells.low_priority import Waiting, start_in_turn
from yarn_plugin.decide.mechanisms.buddy_cells.promotion import promote, promote_all
from yarn_plugin.decide.mechanisms.buddy_cells.snapshot import dump
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)


class Room:
    """Starts gangs while there are leaves for them."""

    def __init__(self, leaves, sizes):
        self.leaves, self.sizes = leaves, sizes

    def __call__(self, gang):
        fits = self.sizes[gang] <= self.leaves
        self.leaves -= self.sizes[gang] * fits
        return fits


def in_turn(gangs, leaves, held=None, weights=None):
    waiting = [Waiting(name, name[0], size) for name, size in gangs]
    return start_in_turn(waiting, held or {}, weights or {}, Room(leaves, dict(gangs)))


def test_the_tenant_with_the_fewest_leaves_for_its_weight_is_next():
    gangs = [("a1", 2), ("a2", 2), ("a3", 2), ("b1", 2), ("b2", 2), ("b3", 2)]
    assert in_turn(gangs, 8) == ("a1", "b1", "a2", "b2")
    assert in_turn(gangs, 8, held={"a": 4}) == ("b1", "b2", "a1", "b3")
    assert in_turn(gangs, 8, weights={"a": 3.0}) == ("a1", "b1", "a2", "a3")


def test_what_does_not_fit_is_passed_over():
    assert in_turn([("a1", 9), ("a2", 1), ("b1", 1)], 4) == ("a2", "b1")


@pytest.fixture
def allocator():
    types = {"node": CellType("switch", 2, is_node=True), "switch": CellType("gpu", 2)}
    cells = (PhysicalSpec("node", "n1"), PhysicalSpec("node", "n2"))
    clusters = {
        "a": VirtualClusterSpec((Quota("node", "node", 1),)),
        "b": VirtualClusterSpec((Quota("node", "switch", 1),)),
    }
    return Allocator(Cluster(ClusterSpec(types, cells, clusters, {"gpu": ("node",)})))


def start(allocator, gang, cluster, size, priority=OPPORTUNISTIC, lazy=False):
    call = Call(gang, size, Request(gang, cluster, priority, ((1, size),), lazy=lazy))
    return allocator.start(call, allocator.decide(call))


def test_work_is_promoted_where_it_runs(allocator):
    low = start(allocator, "low", "a", 2)
    where = [leaf.path for leaf in low.placement.leaves()]
    assert promote(allocator, low)
    validate(allocator.cluster)
    again = allocator.cluster.gangs["low"]
    assert (again.priority, again.pods, [leaf.path for leaf in again.placement.leaves()]) == (0, ("low",), where)


def test_without_room_nothing_changes(allocator):
    start(allocator, "own", "a", 4, priority=0)
    low = start(allocator, "low", "a", 2)
    before = dump(allocator.cluster)
    assert not promote(allocator, low)
    assert dump(allocator.cluster) == before


def test_others_keep_what_they_are_assured_of(allocator):
    """b has one switch: work on two of them cannot be promoted, nor may a's node be split for it."""
    low = start(allocator, "low", "b", 4)
    assert not promote(allocator, low)
    small = start(allocator, "small", "b", 2)
    assert promote(allocator, small)
    validate(allocator.cluster)


def test_a_gang_that_was_guaranteed_before_comes_first(allocator):
    lazy = start(allocator, "lazy", "b", 2, priority=1, lazy=True)
    other = start(allocator, "other", "b", 2)
    allocator.downgrade(lazy)
    assert promote_all(allocator, ["other", "lazy"]) == ["lazy"]
    assert (allocator.cluster.gangs["lazy"].priority, other.priority) == (1, OPPORTUNISTIC)


def test_promotions_keep_the_invariants_in_random_histories():
    promoted = 0
    for seed in range(20):
        world = World(seed)
        for step in range(100):
            world.step()
            if step % 5 == 0:
                promoted += len(promote_all(world.allocator, sorted(world.cluster.gangs)))
            validate(world.cluster)
            world.cluster.commit()
    assert promoted > 20
