"""Pools that the lease controller of earlier versions led: the ledger goes on with their leases, in any phase."""

from dataclasses import replace

import pytest

from tests.lease_world import World, ledger_pool, node, row
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated, check_leases
from yarn_plugin.decide.commands import SendToApp
from yarn_plugin.decide.events import Configured, Deregistered, ManagerReached, NodesChanged, Solved
from yarn_plugin.decide.leases.validity import validate
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.ledger import LedgerState, cells_of_pool
from yarn_plugin.drive.replay import rerun_records
from yarn_plugin.model.cluster import Capabilities

SETTINGS = {"lease_s": 60.0, "f": 0.0, "place_within_s": 0.0, "decide_s": 2.0}


def go_on(world, pool):
    """Another process, with this pool, goes on from the journal."""
    before = world.stage
    stage = Simulated(journal=before.journal)
    stage.clock, stage.solves, stage.decided = before.clock, True, before.decided
    stage.intake._clock = before.clock
    world.stage = stage
    sql = stage.intake.state.pools[0]
    stage.take(Configured((sql, pool)), 0.01)
    stage.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)), 0.01)


def checked(world, pool):
    state = world.stage.state()
    assert isinstance(state, LedgerState)
    validate(state.ledger, cells_of_pool(world.stage.intake.state.cells, pool.parameters))
    return state


def told(world):
    """What applications are told at each time, without ids and without what is said again."""
    names, said, found = {}, set(), {}
    for decided in world.stage.decided:
        for one in [command.message for command in decided.commands if isinstance(command, SendToApp)]:
            if one.id in said:
                continue
            said.add(one.id)
            match one:
                case Grant(_, app, leases, cause):
                    names |= {lease.id: lease.holdings for lease in leases}
                    line = ("grant", app, [(lease.holdings, lease.until) for lease in leases], cause)
                case Renew(_, app, lease, until, cause):
                    line = ("renew", app, names[lease], until, cause)
                case Revoke(_, app, lease, by, cause, cells):
                    line = ("revoke", app, names[lease], by, cause, cells)
                case LeaseEnded(_, app, lease, cells, cause):
                    line = ("ended", app, names[lease], cells, cause)
                case Ask(_, app, question, by):
                    line = ("ask", app, question, by)
                case Offer(_, app, offer, by):
                    line = ("offer", app, offer, by)
            found.setdefault(decided.at, []).append(str(line))
    return {at: sorted(lines) for at, lines in found.items()}


def story(moment, make_pool):
    """Three applications share two nodes; at one moment, the arbiter is killed and goes on with another pool. Also the
    state of the pool then."""
    world = World.of(node("n1", 2), node("n2", 2), **SETTINGS)
    world.arrive("a", rho=3.0, rows=(row(2.0, 2), row(1.0, 2, 2)))
    world.arrive("b", rho=4.0, rows=(row(1.5, 2),), delay=0.4)
    for at, happens in sorted([(70.0, "arrival"), (moment, "kill"), (200.0, "")]):
        world.wait(1000.0 + at - world.stage.clock.time)
        if happens == "arrival":
            world.arrive("c", rho=9.0, rows=(row(1.0, 2, 2),), delay=0.2)
        elif happens == "kill":
            before, pool = world.stage.state(), make_pool(world)
            go_on(world, pool)
        state = world.stage.state()
        if isinstance(state, LedgerState):
            validate(state.ledger, cells_of_pool(world.stage.intake.state.cells, pool.parameters))
    return world, before


def same(world):
    return next(pool for pool in world.stage.intake.state.pools if pool.name == "gpu")


@pytest.mark.parametrize(
    ("moment", "phase"),
    [
        (2.2, ("estimating", 0, 0)),
        (2.6, ("offered", 0, 0)),
        (4.0, ("solving", 0, 0)),
        (20.0, (None, 2, 0)),
        (65.0, ("estimating", 2, 0)),
        (128.1, ("offered", 3, 0)),
        (140.0, (None, 3, 3)),
        (170.0, (None, 2, 0)),
    ],
)
def test_a_pool_that_was_killed_in_any_phase_goes_on_as_the_lease_controller_would(moment, phase):
    """`phase`: that of the round, how many leases have started, and how many of them are being vacated."""
    world, state = story(moment, lambda world: ledger_pool(SETTINGS))
    as_before, _ = story(moment, same)
    started = [held for held in state.leases.values() if held.started_at is not None]
    assert phase == (state.round and state.round.phase, len(started), len([held for held in started if held.leaving]))
    assert told(world) == told(as_before)
    assert [one.won for one in world.rounds()] == [one.won for one in as_before.rounds()]
    assert world.held() == as_before.held()
    assert check_leases(world.stage.decided) > 6
    assert rerun_records(world.stage.journal.read(), TOYS).first_difference() is None


def test_a_problem_that_is_being_solved_is_given_to_the_worker_again():
    world = World.of(node("n1", 2), solves=False, **SETTINGS)
    a = world.arrive("a", rho=3.0, rows=(row(1.0, 2),))
    world.wait(5.0)
    (problem,) = world.stage.problems
    go_on(world, ledger_pool(SETTINGS))
    world.wait(10.0)
    assert [one.event.id for one in world.stage.decided if isinstance(one.event, Solved)] == [problem.id]
    assert world.held() == {a: {"n1/0", "n1/1"}}


def test_leases_of_applications_and_nodes_that_went_meanwhile_end():
    world = World.of(node("n1", 2), node("n2", 2), **SETTINGS)
    a = world.arrive("a", rho=3.0, rows=(row(1.0, 2),))
    b = world.arrive("b", rho=4.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    (on_n1,) = [app for app, gpus in world.held().items() if "n1/0" in gpus]
    go_on(world, ledger_pool(SETTINGS))
    world.stage.take(NodesChanged((), ("n1:8041",)), 0.01)
    other = ({a, b} - {on_n1}).pop()
    assert world.held() == {other: {"n2/0", "n2/1"}}
    world.stage.take(Deregistered(other), 0.01)
    assert world.held() == {}
    assert [one.cause.kind for one in world.sent(LeaseEnded)] == ["node-lost", "app-ended"]


def test_ids_go_on():
    world = World.of(node("n1", 2), **SETTINGS)
    a = world.arrive("a", rho=3.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    leases = world.leases_of(a)
    ids = {one.id for one in world.sent()}
    go_on(world, ledger_pool(SETTINGS))
    assert world.leases_of(a) == leases
    world.arrive("b", rho=9.0, rows=(row(1.0, 2),))
    world.wait(100.0)
    later = [one.id for one in world.sent()][len(ids) :]
    assert not ids & set(later)
    assert len(set(later)) == len(later)
    assert world.held()
    assert a not in world.held()


def test_another_allocator_ends_the_leases():
    world = World.of(node("n1", 2), **SETTINGS)
    a = world.arrive("a", rho=3.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    pool = ledger_pool(SETTINGS)
    go_on(world, replace(pool, parameters=replace(pool.parameters, allocator="fifo", settings=None)))
    (ended,) = world.sent(LeaseEnded)
    assert (ended.app, ended.cause.kind) == (a, "lease-dropped")


def test_a_pool_that_earlier_versions_made_a_ledger_began_anew():
    """So their journals say."""
    world = World.of(node("n1", 2), **SETTINGS)
    world.arrive("a", rho=3.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    pool = ledger_pool(SETTINGS)
    go_on(world, replace(pool, parameters=replace(pool.parameters, adopts_leases=False)))
    assert world.held() == {}
    assert not world.sent(LeaseEnded)
