"""The parts of the allocator of cells: quotas, buddies, the exact search, the order of nodes."""

from itertools import product
from random import Random

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Reason, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.mechanisms.buddy_cells.packing import pack
from yarn_plugin.decide.mechanisms.buddy_cells.quotas import Shortage, shortage
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    Chain,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)

CHAIN = Chain("node", ("gpu", "switch", "node"), 3, (1, 2, 4))


def cluster(nodes, **quotas):
    types = {"node": CellType("switch", 2, is_node=True), "switch": CellType("gpu", 2)}
    cells = tuple(PhysicalSpec("node", f"n{number}") for number in range(nodes))
    clusters = {
        name: VirtualClusterSpec(tuple(Quota("node", kind, number) for kind, number in each.items()))
        for name, each in quotas.items()
    }
    return Allocator(Cluster(ClusterSpec(types, cells, clusters, {"gpu": ("node",)})))


def ask(allocator, gang, name, *pods, priority=0, excluded=frozenset()):
    request = Request(gang, name, priority, pods)
    answer = allocator.decide(Call(gang, request.sizes[0], request, excluded))
    if isinstance(answer, Bind):
        allocator.start(Call(gang, request.sizes[0], request), answer)
    validate(allocator.cluster)
    return answer


def nodes(answer):
    return [leaves[0].node.address for leaves in answer.placement.physical]


def test_what_higher_levels_leave_is_available_below():
    """HiveD (OSDI '20), Theorem 1: r - a <= f + F, level by level from the top."""
    assert shortage(CHAIN, left=[0, 2, 1], free=[0, 0, 2]) is None
    assert shortage(CHAIN, left=[0, 3, 1], free=[0, 0, 2]) == Shortage(level=2, needed=3, available=2)
    assert shortage(CHAIN, left=[5, 1, 1], free=[2, 0, 2]) == Shortage(level=1, needed=5, available=4)


def test_a_cell_is_split_only_where_none_of_its_size_is_free_and_merges_at_once():
    allocator = cluster(2, a={"gpu": 1}, b={"node": 1})
    state = allocator.cluster.chains["node"]
    assert state.counts() == [0, 0, 2]
    ask(allocator, "one", "a", (1, 1))
    assert state.counts() == [1, 1, 1]
    ask(allocator, "whole", "b", (1, 4))
    assert state.counts() == [1, 1, 0]
    for gang in list(allocator.cluster.gangs.values()):
        allocator.release(gang)
        validate(allocator.cluster)
    assert state.counts() == [0, 0, 2]


def test_opportunistic_work_stays_away_from_guaranteed_work_and_is_spared():
    allocator = cluster(3, a={"node": 2}, b={"node": 1})
    first = ask(allocator, "own", "a", (1, 1))
    low = ask(allocator, "low", "b", (1, 2), priority=-1)
    assert nodes(low) != nodes(first)
    second = ask(allocator, "other", "b", (1, 4))
    assert isinstance(second, Bind) and nodes(second)[0] not in (*nodes(first), *nodes(low))


def test_a_higher_cell_is_split_around_a_bad_node_while_others_keep_their_quota():
    allocator = cluster(2, a={"switch": 2}, b={"switch": 1})
    ask(allocator, "own", "b", (1, 2))
    used = allocator.cluster.gangs["own"].placement.physical[0][0].node.address
    allocator.cluster.set_bad(used, True)
    other = ask(allocator, "around", "a", (1, 2))
    assert isinstance(other, Bind) and nodes(other) != [used]
    full = cluster(1, a={"switch": 1}, b={"switch": 1})
    full.cluster.set_bad("n0", True)
    assert ask(full, "none", "a", (1, 2)) in (Wait(Reason.BAD_NODE), Wait(Reason.UNUSABLE_CELLS, virtual_fit=True))


def test_excluded_nodes_are_avoided_unless_the_gang_ignores_exclusions():
    allocator = cluster(2, a={"node": 2})
    assert nodes(ask(allocator, "one", "a", (1, 4), excluded=frozenset({"n0"}))) == ["n1"]
    waits = ask(allocator, "two", "a", (1, 4), excluded=frozenset({"n0"}))
    assert waits == Wait(Reason.UNUSABLE_CELLS, virtual_fit=True)


def test_the_exact_search_finds_a_placement_if_there_is_one():
    random = Random(5)
    for _ in range(300):
        rooms = [random.randint(0, 5) for _ in range(random.randint(1, 4))]
        sizes = [random.randint(1, 4) for _ in range(random.randint(1, 4))]
        fits = any(
            all(
                sum(size for size, at in zip(sizes, chosen, strict=True) if at == node) <= rooms[node]
                for node in chosen
            )
            for chosen in product(range(len(rooms)), repeat=len(sizes))
        )
        found = pack({room: rooms.count(room) for room in rooms}, sizes, 10_000)
        assert (found is not None) == fits, (rooms, sizes)


def test_the_exact_search_gives_up_at_its_limit():
    assert pack({4: 1, 6: 1}, [3, 3, 2, 2], 2) is None
    assert pack({4: 1, 6: 1}, [3, 3, 2, 2], 100) == [6, 3, 4, 2]
