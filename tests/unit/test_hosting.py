"""Controllers inside a controller: paths, virtual cells, and what a host makes of its children's commands."""

import pytest

from tests.toys import auction
from tests.toys.registry import TOYS
from yarn_plugin.decide.pools import hosting
from yarn_plugin.decide.pools.commands import Ask, Grant, SetTimer, Solve
from yarn_plugin.decide.pools.controller import Controllers
from yarn_plugin.decide.pools.hosting import NotItsCellError, Part
from yarn_plugin.decide.pools.inputs import FromApp, Outcome
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import PoolState
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Holding, Lease, Pool
from yarn_plugin.model.topology import Cell, Topology

HOST = Pool("gpu", "root.gpu", ("yarn.io/gpu",), controller="toy-host")

CHILDREN = Controllers(TOYS)


def cells(*described):
    """Cells of (id, level, parent, GPUs, broken)."""
    return {one[0]: Cell(*one[:3], Resources.of({"yarn.io/gpu": one[3]}), one[4]) for one in described}


CLUSTER = Topology(
    ("rack", "node", "gpu"),
    cells(
        ("r1", "rack", None, 4, False),
        ("n1", "node", "r1", 2, False),
        ("n1/gpu-0", "gpu", "n1", 1, False),
        ("n1/gpu-1", "gpu", "n1", 1, False),
        ("n2", "node", "r1", 2, True),
        ("n2/gpu-0", "gpu", "n2", 1, False),
        ("n2/gpu-1", "gpu", "n2", 1, False),
    ),
)


@pytest.mark.parametrize(
    ("path", "child"),
    [
        ("gpu/prod-a#17", "prod-a"),
        ("gpu/prod-a", "prod-a"),
        ("gpu/prod-a/inner#3", "prod-a"),
        ("gpu#17", None),
        ("gpu", None),
        ("gpus/prod-a#1", None),
        ("other/gpu/prod-a#1", None),
        ("application_1_1", None),
    ],
)
def test_a_path_leads_to_a_child(path, child):
    assert hosting.child_of("gpu", path) == child


def test_a_child_is_a_pool_with_a_path_and_parameters_of_its_own():
    child = hosting.child_pool(HOST, "prod-a", "toy-auction", auction.Settings())
    assert (child.name, child.controller, child.parameters) == ("gpu/prod-a", "toy-auction", auction.Settings())
    assert child.queue == HOST.queue


def test_a_child_sees_only_its_cells_under_virtual_names():
    part = Part({"v0": "n1/gpu-1", "v1": "n2/gpu-0", "rack": "r1"})
    seen = hosting.part_of_topology(CLUSTER, part)
    assert [(cell.id, cell.level, cell.parent) for cell in seen.cells.values()] == [
        ("rack", "rack", None),
        ("v0", "gpu", "rack"),
        ("v1", "gpu", "rack"),
    ]
    assert seen.levels == ("rack", "gpu")


def test_what_lies_in_something_broken_or_is_gone_is_broken():
    seen = hosting.part_of_topology(CLUSTER, Part({"well": "n1/gpu-0", "in broken": "n2/gpu-0", "gone": "n3/gpu-0"}))
    assert {cell.id: cell.broken for cell in seen.cells.values()} == {"well": False, "in broken": True, "gone": True}
    assert seen.capacity() == Resources.of({"yarn.io/gpu": 1})
    assert all(cell.level in seen.levels for cell in seen.cells.values())


def test_a_part_has_a_cell_once():
    with pytest.raises(ValueError, match="to one cell"):
        Part({"a": "n1/gpu-0", "b": "n1/gpu-0"})


def test_a_view_shows_a_child_its_claims_and_nothing_of_the_host():
    mine = Claim("app_1", 1.0, None, Resources(), tenant="ann", pinned="n1/gpu-0", suggested=("n1/gpu-1", "n2"),
                 yarn_app="application_1", queue="root.gpu.ann")  # fmt: skip
    other = Claim("app_2", 1.0, None, Resources(), tenant="eve")
    held = Resources.of({"yarn.io/gpu": 1})
    view = View(7, capacity=held, topology=CLUSTER, claims=(mine, other), weights={"root.gpu.ann": 1.0},
                use=(Use("app_1", "n1", held, ("c1",)), Use("app_1", "n2", held, ()), Use("app_2", "n1", held, ())),
                static=(), waiting=("application_1",), steering=True)  # fmt: skip
    seen = hosting.part_of_view(view, Part({"node": "n1", "v1": "n1/gpu-1"}), lambda claim: claim.tenant == "ann")
    assert (seen.seq, seen.steering) == (7, True)
    (claim,) = seen.claims
    assert (claim.app, claim.pinned, claim.suggested, claim.queue) == ("app_1", None, ("v1",), None)
    assert [(one.app, one.node) for one in seen.use] == [("app_1", "node")]
    assert (seen.weights, seen.waiting, seen.static) == ({}, (), None)
    assert seen.capacity == seen.topology.capacity()
    assert "n1" not in repr(seen)


def test_a_child_sees_what_is_held_on_a_node_that_yarn_names_with_its_port():
    held = Resources.of({"yarn.io/gpu": 1})
    cells = {"n1": Cell("n1", "node", None, held), "n2:8042": Cell("n2:8042", "node", None, held)}
    view = View(topology=Topology(("node",), cells), claims=(Claim("app_1", 1.0, None, Resources()),),
                use=(Use("app_1", "n1:8041", held, ("c1",)), Use("app_1", "n2:8042", held, ("c2",))))  # fmt: skip
    seen = hosting.part_of_view(view, Part({"first": "n1", "second": "n2:8042"}), lambda claim: True)
    assert [(one.node, one.containers) for one in seen.use] == [("first", ("c1",)), ("second", ("c2",))]


def lease(cell):
    return Lease("gpu/a#1", "app_1", "", 0, (Holding(cell, "yarn.io/gpu"),))


def test_a_grant_names_the_hosts_cells_once_it_leaves_the_host():
    part = Part({"v0": "n1/gpu-0"})
    grant = Grant("gpu/a#2", "app_1", (lease("v0"),))
    assert hosting.outward(grant, part) == Grant("gpu/a#2", "app_1", (lease("n1/gpu-0"),))
    ask = Ask("gpu/a#3", "app_1", auction.Question(1), 9.0)
    assert hosting.outward(ask, part) is ask


@pytest.mark.parametrize("cell", ["n1/gpu-0", "n2/gpu-0", "v1"])
def test_a_child_names_no_cell_but_its_own(cell):
    with pytest.raises(NotItsCellError, match=f"cell '{cell}': .* v0"):
        hosting.outward(Grant("gpu/a#2", "app_1", (lease(cell),)), Part({"v0": "n1/gpu-0"}))


def test_a_childs_commands_and_timers_come_back_as_the_hosts_to_give():
    child = hosting.child_pool(HOST, "a", "toy-auction", auction.Settings(("v0",), ask_s=1.0))
    view = View(claims=(Claim("app_1", 1.0, None, Resources()),))
    kept, given = hosting.advance_child(child, CHILDREN, None, view, 10.0)
    assert given == [Ask("gpu/a#1", "app_1", auction.Question(1), 11.0)]
    assert hosting.child_timer(child, kept) == SetTimer("gpu/a", 11.0)
    kept, given = hosting.advance_child(
        child, Controllers(TOYS), kept, view, 10.5, [FromApp("app_1", auction.Answer(1, 1))]
    )
    (solve,) = given
    assert (type(solve), solve.id) == (Solve, "gpu/a#2")
    assert hosting.child_timer(child, kept) == SetTimer("gpu/a", None)
    done = Outcome(solve.id, "done", auction.allocate(solve.problem))
    kept, (grant,) = hosting.advance_child(child, CHILDREN, kept, view, 10.6, [done])
    assert grant.leases[0].holdings == (Holding("v0", "yarn.io/gpu"),)


def test_a_message_on_which_a_child_raises_is_refused_and_whatever_else_stops_it_alone():
    child = hosting.child_pool(HOST, "a", "toy-auction", auction.Settings(("v0",)))
    view = View(claims=(Claim("app_1", 1.0, None, Resources()),))
    kept, _ = hosting.advance_child(child, CHILDREN, None, view, 10.0)
    with pytest.raises(RuntimeError, match="provoked by a message"):
        hosting.advance_child(child, CHILDREN, kept, view, 10.1, [FromApp("app_1", auction.Provoke())])
    kept, _ = hosting.advance_child(
        child, Controllers(TOYS), kept, view, 10.1, [FromApp("app_1", auction.Provoke("ViewChanged"))]
    )
    kept, (stopped,) = hosting.advance_child(child, CHILDREN, kept, View(), 10.2)
    assert stopped.pool == "gpu/a"
    assert hosting.child_timer(child, kept) == SetTimer("gpu/a", stopped.retry_at)


def test_the_weights_of_all_children_are_one_wish():
    one, two = PoolState("x", None, weights=(("q.b", 1.0), ("q.a", 2.0))), PoolState("x", None)
    three = PoolState("x", None, weights=(("q.c", 3.0),))
    assert hosting.wanted_weights([one, two, three]) == (("q.a", 2.0), ("q.b", 1.0), ("q.c", 3.0))
