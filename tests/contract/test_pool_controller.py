"""The contract of pools' controllers, shown by toys: an auction, a host of two auctions, 65,536 cells changed in place.

Each live (the daemon, a journal on disk, a worker process), simulated and replayed; all agree byte for byte.
"""

import itertools
import math
import os
import signal
from dataclasses import fields, is_dataclass, replace

import pytest

from tests.fixtures.scripted_manager import ScriptedManager
from tests.integration.sleepers import eventually
from tests.toys import auction
from tests.toys.auction import Answer, AuctionState, Provoke, StillNeeded
from tests.toys.cells import CELLS, EACH, CellTable, More
from tests.toys.host import HostState, Tenant
from tests.toys.host import Settings as HostSettings
from tests.toys.process import Process
from tests.toys.registry import TOYS
from tests.toys.stage import QUEUES, Live, Simulated, check_agreement, check_leases, gpu, request, sent
from yarn_plugin.decide.commands import PoolResumed, PoolStopped, SolveInWorker, TellShare
from yarn_plugin.decide.events import (
    AppSaid,
    AppsChanged,
    Configured,
    Deregistered,
    ManagerReached,
    NodesChanged,
    Solved,
)
from yarn_plugin.decide.pools import advance
from yarn_plugin.decide.pools.commands import Ask, CancelRevoke, Grant, LeaseEnded, Renew, Revoke, Solve
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.decide.pools.hosting import Part
from yarn_plugin.decide.pools.inputs import FromApp
from yarn_plugin.drive import journaling
from yarn_plugin.journal.intake import SkippedInputError
from yarn_plugin.journal.records import JournalUnavailableError, RecordFile
from yarn_plugin.model.cluster import Capabilities, Node, YarnApp
from yarn_plugin.model.resources import Resources


def commands(decided):
    return [command for one in decided for command in one.commands]


FOUR = ("n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1")


def auctioned(**settings):
    return gpu("toy-auction", auction.Settings(FOUR, **settings))


@pytest.fixture
def live(tmp_path):
    made = []

    def begin(*pools):
        made.append(Live(tmp_path, *pools))
        return made[-1]

    yield begin
    for one in made:
        one.close()


# (a) An auction: ask, deadline, solve in the worker, leases, revoke, cancelled revoke.


def test_an_auction_live_simulated_and_replayed(live, tmp_path):
    stage = live(auctioned(ask_s=30.0, lease_s=1.0, grace_s=0.6))
    a = stage.register("ann", wants=4)
    stage.until(lambda: len(stage.state().leases) == 4, "ann has all cells")
    b = stage.register("eve", wants=2)
    stage.until(lambda: len(stage.sent(Revoke)) == 4, "ann's leases end, for eve waits")
    stage.deregister(b)
    lease = stage.sent(Revoke)[0].lease
    stage.say(a, StillNeeded(lease))
    stage.until(lambda: stage.sent(CancelRevoke), "nobody took it: ann keeps it")
    stage.until(lambda: len(stage.sent(LeaseEnded)) == 3, "the grace of the others is over")
    stage.until(lambda: len(stage.state().leases) == 4, "and ann wins them in another round")
    stage.until(lambda: stage.sent(Renew), "leases that nobody wants go on")
    stage.daemon.stop()
    assert [one.lease for one in stage.sent(CancelRevoke)] == [lease]
    check_leases(stage.decided)
    check_agreement(tmp_path / "journal", stage.decided)


def test_a_round_takes_answers_that_are_timely_and_for_it_alone():
    stage = Simulated(auctioned(ask_s=1.0))
    good, silent, stale, malformed, late = (stage.register(name) for name in ("good", "silent", "stale", "mal", "late"))
    # The first round was about those that were there when it was opened.
    stage.wait(2.0)
    stage.take(request("one more"), 0.01)
    number = stage.state().round
    assert stage.state().phase == "asking"
    stage.say(good, Answer(number, 2))
    stage.say(stale, Answer(number - 1, 4))
    stage.say(malformed, Answer(number, -4))
    stage.say(malformed, Answer(number, 4, -1.0))
    decided = stage.wait(1.0)
    stage.say(late, Answer(number, 4, 100.0))
    (problem,) = [command.problem for one in decided for command in one.commands if isinstance(command, SolveInWorker)]
    assert [bid.app for bid in problem.bids] == [good]
    assert {held.lease.app for held in stage.state().leases.values()} == {good}
    assert len(stage.state().leases) == 2
    assert silent not in stage.state().wants


def test_an_unregistered_application_gets_no_question():
    stage = Simulated(auctioned())
    stranger = YarnApp("application_1_0001", "x", "eve", "root.gpu.x", True, 1000.0, Resources(), Resources(), 0)
    stage.take(AppsChanged((stranger,), ()), 0.1)
    assert (stage.sent(Ask), len(stage.kept().seen.claims)) == ([], 1)
    app = stage.register("ann")
    assert [ask.app for ask in stage.sent(Ask)] == [app]


def test_whether_an_answer_is_late_is_decided_by_the_order_of_the_journal():
    def round_with(after):
        stage = Simulated(auctioned(ask_s=1.0))
        stage.register("silent")
        stage.wait(2.0)
        app = stage.register("ann")
        stage.say(app, Answer(stage.state().round, 4), after)
        return stage

    deadline = round_with(0.5).sent(Ask)[-1].answer_by
    asked_at = deadline - 1.0
    assert round_with(0.5).state().answers
    assert not round_with(1.0).state().answers, "at the deadline, the timer comes first"
    before = round_with(1.0 - 1e-3)
    assert before.decided[-1].at < deadline
    assert before.decided[-1].at > asked_at
    assert before.state().answers


def test_stale_and_duplicate_outcomes_change_nothing():
    stage = Simulated(auctioned(), solves=False)
    app = stage.register("ann")
    stage.say(app, Answer(1, 2))
    (command,) = stage.problems
    stage.solve()
    before = stage.state()
    result = auction.allocate(command.problem)
    for name, kind in ((command.id, "done"), (command.id, "lost"), ("gpu#999", "failed"), ("elsewhere", "done")):
        (decided,) = stage.take(Solved("gpu", name, kind, result), 0.001)
        assert (decided.commands, stage.state()) == ((), before)


def test_a_problem_that_is_lost_is_given_again_under_its_id_and_one_that_fails_ends_its_round():
    stage = Simulated(auctioned(), solves=False)
    app = stage.register("ann")
    stage.say(app, Answer(1, 2))
    (first,) = stage.problems
    stage.solve("lost")
    assert [one.id for one in stage.problems] == [first.id]
    stage.solve("failed", error="ValueError: no solution")
    assert (stage.state().phase, dict(stage.state().leases), stage.problems) == ("idle", {}, [])


def test_open_commands_are_given_again_after_a_restart_with_the_same_ids():
    stage = Simulated(auctioned(lease_s=1.0), solves=False)
    pools = stage.intake.state.pools
    a = stage.register("ann")
    stage.register("eve")

    def again():
        before = len(stage.decided)
        stage.take(Configured(pools), 0.001)
        commands = stage.decided[before].commands
        return [one for one in commands if isinstance(one, SolveInWorker)] + sent(stage.decided[before : before + 1])

    assert again() == stage.sent(Ask)[:1], "asking"
    stage.say(a, Answer(1, 4))
    asked = again()
    assert [type(one) for one in asked] == [SolveInWorker]
    assert asked == stage.problems[:1], "solving"
    stage.solve()
    stage.problems.clear()
    assert len(stage.state().leases) == 4
    assert again() == [], "what is granted is granted"
    stage.wait(1.0)
    assert {one.lease for one in stage.sent(Revoke)} == set(stage.state().leases)
    revokes = sorted(stage.sent(Revoke), key=lambda one: one.id)
    assert sorted(again(), key=lambda one: one.id) == revokes, "revoking"


def test_other_pools_send_shares_while_a_solve_runs(live, tmp_path):
    stage = live(auctioned(ask_s=30.0, solve_s=1.5))
    stage.register("ann", wants=1)
    stage.until(lambda: stage.state().phase == "solving", "the worker solves")
    stage.register("sam", pool="sql")
    stage.until(lambda: stage.state().leases, "it has solved")
    stage.daemon.stop()
    kinds = [kind for one in stage.decided for kind in (type(one.event), *map(type, one.commands))]
    begun, told, solved = (kinds.index(kind) for kind in (SolveInWorker, TellShare, Solved))
    assert begun < told < solved
    check_agreement(tmp_path / "journal", stage.decided)


# kill -9 of the worker and of the arbiter.


def kill_worker(stage):
    os.kill(stage.until(stage.worker_pid, "there is a worker process"), signal.SIGKILL)


def test_a_worker_that_is_killed_in_any_phase_costs_no_more_than_its_solve(live, tmp_path):
    stage = live(auctioned(ask_s=60.0, solve_s=1.0, lease_s=2.0, grace_s=1.0))
    a = stage.register("ann")
    stage.say(a, Answer(1, 4))
    kill_worker(stage)
    stage.until(lambda: len(stage.state().leases) == 4, "its problem is solved by another")
    kill_worker(stage)
    b = stage.register("eve")
    stage.until(lambda: stage.sent(Revoke), "eve waits, so ann's leases end")
    stage.until(lambda: stage.state().round == 2, "and there is another round")
    stage.say(a, Answer(2, 1))
    stage.say(b, Answer(2, 3))
    stage.until(lambda: len(stage.state().leases) == 4, "which a new process solves")
    stage.daemon.stop()
    solved = [one.event for one in stage.decided if isinstance(one.event, Solved)]
    assert [one.kind for one in solved] == ["lost", "done", "done"]
    assert solved[0].id == solved[1].id
    assert check_leases(stage.decided) == 8
    check_agreement(tmp_path / "journal", stage.decided)


@pytest.fixture
def process(tmp_path):
    manager = ScriptedManager(QUEUES)
    cells = ", ".join(f'"{cell}"' for cell in FOUR)
    made = Process(manager.url, tmp_path, f"{{ cells = [{cells}], ask_s = 60, solve_s = 1, lease_s = 2, grace_s = 2 }}")
    yield made
    made.close()
    manager.close()


def test_an_arbiter_that_is_killed_in_any_phase_completes_its_rounds_once(process):
    """Killed while it asks, while the worker solves, with leases granted, and while they are revoked."""
    process.start()
    ann = process.register("ann")
    eventually(lambda: ann.ids("ask"), "ann is asked")
    process.kill_and_start()
    eventually(lambda: len(ann.ids("ask")) == 2, "ann is asked again")
    ann.answer(1, 4)
    eventually(lambda: process.auction().phase == "solving", "the worker solves")
    process.kill_and_start()
    eventually(lambda: len(process.auction().leases) == 4, "the round ends")
    process.kill_and_start()
    eve = process.register("eve")
    eventually(lambda: any(held.by for held in process.auction().leases.values()), "ann's leases are revoked")
    process.kill_and_start()
    eventually(lambda: process.auction().round == 2, "the next round asks")
    ann.answer(2, 1)
    eve.answer(2, 3)
    eventually(lambda: eve.ids("grant"), "eve hears what is granted")
    process.close()
    for follower in (ann, eve):
        follower.close()
    decided = check_agreement(process.journal).history
    story = [kind for one in decided for kind in (type(one.event), *map(type, one.commands), *map(type, sent([one])))
             if kind in (Configured, Ask, SolveInWorker, Solved, Grant, Revoke, LeaseEnded)]  # fmt: skip
    once = [kind for kind, _ in itertools.groupby(story)]
    assert once == [
        *(Configured, Ask),
        *(Configured, Ask, SolveInWorker),
        *(Configured, SolveInWorker, Solved, Grant),
        *(Configured, Revoke),
        *(Configured, Revoke, LeaseEnded, Ask, LeaseEnded, SolveInWorker, Solved, Grant),
    ]
    assert len(set(ann.ids("ask")[:2])) == 1, "asked again under the same id"
    assert check_leases(decided) == 8
    granted = [lease.app for grant in sent(decided, Grant) for lease in grant.leases]
    assert [granted.count(one.app) for one in (ann, eve)] == [5, 3]


# (b) A host of two children with virtual cells.


def hosted(**settings):
    """Two tenants with two cells each, which they call the same; a third cell is in both parts."""
    ann = Part({"gpu-0": "n1/gpu-0", "gpu-1": "n1/gpu-1", "spare": "n2/gpu-1"})
    eve = Part({"gpu-0": "n2/gpu-0", "spare": "n2/gpu-1"})
    tenants = [
        Tenant(name, user, part, "toy-auction", auction.Settings(**settings))
        for name, user, part in (("prod-a", "ann", ann), ("prod-b", "eve", eve))
    ]
    return gpu("toy-host", HostSettings(tuple(tenants), FOUR))


def test_a_host_of_two_children_live_simulated_and_replayed(live, tmp_path):
    stage = live(hosted(ask_s=30.0, lease_s=1.0, grace_s=0.3))
    a, b = stage.register("ann", wants=3), stage.register("eve", wants=2)
    stage.until(lambda: len(stage.state().taken) == 4, "all cells are leased")
    stage.until(lambda: len(stage.state().delayed) == 1, "one of them is wanted by both; one waits for it")
    first = stage.state().taken["n2/gpu-1"]
    stage.deregister(a if first.startswith("gpu/prod-a#") else b)
    stage.until(lambda: stage.state().taken.get("n2/gpu-1", first) != first, "then it is the other's")
    stage.daemon.stop()
    grants = stage.sent(Grant)
    assert {holding.cell for grant in grants for lease in grant.leases for holding in lease.holdings} <= set(FOUR)
    assert {grant.id.split("#")[0] for grant in grants} == {"gpu/prod-a", "gpu/prod-b"}
    check_leases(stage.decided)
    check_agreement(tmp_path / "journal", stage.decided)


def test_a_child_never_sees_a_physical_cell_and_its_ids_and_timers_carry_its_path():
    stage = Simulated(hosted(solve_s=0.0), solves=False)
    for user in ("ann", "eve"):
        app = stage.register(user)
        stage.say(app, Answer(1, 1))
    assert [one.id.split("#")[0] for one in stage.problems] == ["gpu/prod-a", "gpu/prod-b"]
    assert {one.pool for one in stage.problems} == {"gpu"}
    stage.solve()
    stage.solve()
    for name, child in stage.state().children.items():
        assert set(stage.kept().timers) >= {f"gpu/{name}"}
        seen = repr((child.state, child.seen))
        assert "gpu-0" in seen
        assert not any(cell in seen for cell in FOUR)


def test_a_host_refuses_a_cell_that_is_not_in_the_part_of_its_child():
    rogue = Tenant("rogue", "ann", Part({"gpu-0": "n1/gpu-0"}), "toy-auction", auction.Settings(cells=("n2/gpu-0",)))
    stage = Simulated(gpu("toy-host", HostSettings((rogue,), FOUR)))
    stage.say(stage.register("ann"), Answer(1, 1))
    assert stage.sent(Grant) == []
    assert stage.state().taken == {}


def test_a_child_that_raises_stops_alone():
    stage = Simulated(hosted(ask_s=1.0))
    a = stage.register("ann")
    stage.say(a, Provoke("TimerDue"), 0.5)
    b = stage.register("eve")
    decided = stage.wait(0.7)
    (stopped,) = [one for one in commands(decided) if isinstance(one, PoolStopped)]
    assert (stopped.pool, stopped.error) == ("gpu/prod-a", "RuntimeError: provoked by TimerDue")
    assert stage.kept().failure is None
    stage.say(b, Answer(1, 1))
    assert {lease.split("#")[0] for lease in stage.state().taken.values()} == {"gpu/prod-b"}
    stage.say(a, Provoke("nothing"))
    resumed = [one for one in commands(stage.wait(advance.RETRY_AFTER)) if isinstance(one, PoolResumed)]
    assert [one.pool for one in resumed] == ["gpu/prod-a"]


def cells_hosted():
    tenants = (Tenant("prod-a", "ann", Part(), "toy-cells"), Tenant("prod-b", "eve", Part(), "toy-cells"))
    return gpu("toy-host", HostSettings(tenants, FOUR))


def test_what_children_change_in_place_is_taken_back_with_them(touchy):
    stage = Simulated(cells_hosted())
    app = stage.register("ann")
    tables = [child.state for child in stage.state().children.values()]
    before = [table.dump() for table in tables]
    with pytest.raises(SkippedInputError, match="9 cells at once"):
        stage.say(app, More(9))
    touchy.append(lambda event: isinstance(event, AppSaid))
    with pytest.raises(SkippedInputError, match="OverflowError"):
        stage.say(app, More(2))
    assert [table.dump() for table in tables] == before
    touchy.clear()
    stage.say(app, More(2))
    assert len(tables[0].of[app]) == EACH + 2
    assert [table.savepoint() for table in tables] == [0, 0], "nothing is kept to be undone"
    stage.intake.compact()
    again = Simulated(journal=stage.journal)
    assert [child.state.dump() for child in again.state().children.values()] == [table.dump() for table in tables]


# (c) 65,536 cells changed in place.


def test_cells_changed_in_place_live_simulated_and_replayed(live, tmp_path):
    stage = live(gpu("toy-cells", name="cells"))
    a = stage.register("ann", "cells")
    b = stage.register("eve", "cells")
    stage.say(a, More(3))
    reports = [stage.daemon.state.pool_states["cells"].report]
    with pytest.raises(SkippedInputError, match="9 cells at once"):
        stage.say(b, More(9))
    reports.append(stage.daemon.state.pool_states["cells"].report)
    stage.deregister(a)
    reports.append(stage.daemon.state.pool_states["cells"].report)
    stage.daemon.stop()
    assert reports[0] == reports[1], "what the API shows does not change with the state"
    assert [(one.free, len(one.of)) for one in reports] == [(CELLS - 2 * EACH - 3, 2)] * 2 + [(CELLS - EACH, 1)]
    replayed = check_agreement(tmp_path / "journal", stage.decided)
    assert replayed.skipped == 1
    assert replayed.state.pool_states["cells"].state.dump() == stage.state("cells").dump()


def test_an_advance_costs_what_it_changes_not_what_there_is():
    stage = Simulated(gpu("toy-cells", name="cells"))
    for number in range(20):
        before = stage.state("cells").operations
        stage.register(f"user {number}", "cells")
        assert stage.state("cells").operations - before == EACH
    before = stage.state("cells").operations
    with pytest.raises(SkippedInputError):
        stage.say("app_2", More(9))
    assert stage.state("cells").operations - before == 2 * 9, "nine cells, and back"
    assert stage.state("cells").savepoint() == 0, "nothing is kept to be undone"


@pytest.fixture
def touchy(monkeypatch):
    """A step that fails after all pools have been advanced, on what a test names."""
    step, fails = journaling.step, []

    def failing(state, seq, at, event, registry):
        decided = step(state, seq, at, event, registry)
        if any(wrong(event) for wrong in fails):
            raise OverflowError("int too large to convert to float")
        return decided

    monkeypatch.setattr(journaling, "step", failing)
    return fails


def test_a_step_that_fails_later_leaves_mutable_state_unchanged(touchy):
    stage = Simulated(gpu("toy-cells", name="cells"))
    stage.register("ann", "cells")
    before, seen = stage.state("cells").dump(), stage.intake.state
    touchy.append(lambda event: isinstance(event, AppSaid))
    with pytest.raises(SkippedInputError, match="OverflowError"):
        stage.say("app_2", More(5))
    assert (stage.state("cells").dump(), stage.intake.state) == (before, seen)
    touchy.clear()
    again = Simulated(journal=stage.journal)
    assert again.state("cells").dump() == before, "the journal says that it failed"


# Failure: a controller that raises stops its own pool only.


def nodes(count):
    return NodesChanged(tuple(Node(f"n{n}:1", "/r", Resources.of({"memory-mb": 8192, "vcores": 8}))
                              for n in range(count)), ())  # fmt: skip


def shared_beside(*pools):
    stage = Simulated(*pools)
    stage.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
    stage.take(nodes(4))
    return stage


def stopped_on(stage, decided, pool, error):
    (stopped,) = [one for one in commands(decided) if isinstance(one, PoolStopped)]
    assert (stopped.pool, stopped.error, stopped.retry_at) == (pool, error, decided[-1].at + advance.RETRY_AFTER)
    told = [one.app for one in commands(stage.take(request(f"sam {len(stage.decided)}", "sql", "sam")))
            if isinstance(one, TellShare)]  # fmt: skip
    assert told, "the share pool goes on"
    return stopped


@pytest.mark.parametrize("what", ["ViewChanged", "TimerDue", "Outcome"])
def test_a_controller_that_raises_stops_its_own_pool_until_it_does_not(what):
    stage = shared_beside(auctioned(ask_s=1.0))
    app, other = stage.register("ann"), stage.register("eve")
    stage.say(app, Provoke(what))
    before = stage.state()
    match what:
        case "ViewChanged":
            decided = stage.take(Deregistered(other), 0.1)
        case "TimerDue":
            decided = stage.wait(1.0)
        case "Outcome":
            stage.solves = False
            stage.say(app, Answer(1, 2))
            before = stage.state()
            decided = stage.solve()
    stopped_on(stage, decided, "gpu", f"RuntimeError: provoked by {what}")
    assert stage.state() == before
    stage.say(app, Provoke("nothing"))
    decided = stage.wait(advance.RETRY_AFTER)
    match what:
        case "Outcome":
            # What is owed comes in its order: the outcome is tried again, then lost, before the message behind it.
            assert PoolResumed("gpu") not in commands(decided)
            decided = stage.wait(20 * advance.RETRY_AFTER)
    assert PoolResumed("gpu") in commands(decided)
    assert stage.kept().failure is None
    stage.wait(2.0)
    check_same(stage)


@pytest.mark.parametrize("what", ["ViewChanged", "TimerDue"])
def test_a_controller_of_cells_that_raises_midway_leaves_them_as_they_were(what):
    stage = shared_beside(gpu("toy-cells", name="cells"))
    app, other = stage.register("ann", "cells"), stage.register("eve", "cells")
    stage.say(app, Provoke(what))
    before = stage.state("cells").dump()
    decided = stage.take(Deregistered(other), 0.01) if what == "ViewChanged" else stage.wait(0.1)
    stopped_on(stage, decided, "cells", f"RuntimeError: provoked by {what}")
    assert stage.state("cells").dump() == before
    stage.say(app, Provoke("nothing"))
    assert PoolResumed("cells") in commands(stage.wait(advance.RETRY_AFTER))
    if what == "ViewChanged":
        assert set(stage.state("cells").of) == {app}
    check_same(stage)


def test_the_daemon_continues_after_a_controller_raises(live, tmp_path, monkeypatch):
    monkeypatch.setattr(advance, "RETRY_AFTER", 1.0)
    stage = live(auctioned(ask_s=60.0))
    a, b = stage.register("ann"), stage.register("eve")
    stage.say(a, Provoke("ViewChanged"))
    stage.deregister(b)
    assert "gpu" in str(stage.daemon.health().problems)
    sam = stage.register("sam", pool="sql")
    assert sam in stage.daemon.state.members
    stage.say(a, Provoke("nothing"))
    stage.until(lambda: PoolResumed("gpu") in commands(list(stage.decided)), "it is called again")
    assert stage.state().provoked == "nothing"
    stage.daemon.stop()
    check_agreement(tmp_path / "journal", stage.decided)


def check_same(stage):
    """What is journaled so far, decided on again, is the same."""
    again = journaling.arbiter_replay(TOYS)
    again.take_all(stage.journal.read())
    again.decide_waiting()
    assert again.different == 0
    for name, kept in stage.intake.state.pool_states.items():
        one = again.state.pool_states[name]
        if isinstance(kept.state, CellTable):
            assert kept.state.dump() == one.state.dump()
            kept, one = replace(kept, state=None), replace(one, state=None)
        assert kept == one


def test_a_message_on_which_a_controller_raises_is_refused_and_nothing_else():
    stage = shared_beside(auctioned(), gpu("toy-cells", name="cells"))
    app = stage.register("ann")
    stage.register("kim", "cells")
    before, cells = stage.intake.state, stage.state("cells").dump()
    with pytest.raises(SkippedInputError, match="provoked by a message"):
        stage.say(app, Provoke("now"))
    assert (stage.intake.state, stage.state("cells").dump()) == (before, cells)
    stage.say(app, Answer(1, 1))
    assert stage.state().leases
    check_same(stage)


class Careless:
    """A controller that, on a message, gives what no journal can hold, or keeps it."""

    reads = frozenset({"claims"})

    def initial_state(self):
        return Answer(0, 0)

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        match state.round, what:
            case _, FromApp(_, Answer() as said):
                return replace(said, worth=math.inf) if said.round == 9 else said, ()
            case 1, _:
                return state, (Ask("bad#1", "app_1", object(), at),)
            case 2, _:
                return state, (Solve("bad#2", Answer(1, 1, math.nan)),)
            case 3, _:
                return state, (Ask("bad#3", "app_1", Provoke("half \ud800"), at),)
            case 4, _:
                return object(), ()
        return state, ()


CARELESS = Kind("careless", lambda pool, registry: Careless(), {})


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_what_no_journal_can_hold_stops_the_pool_that_gives_it_alone(number):
    registry = replace(TOYS, kinds={**TOYS.kinds, "careless": CARELESS})
    stage = Simulated(gpu("careless"), registry=registry)
    app, other = stage.register("ann"), stage.register("eve")
    stage.say(app, Answer(number, 0))
    decided = stage.take(Deregistered(other))
    assert [one.pool for one in commands(decided) if isinstance(one, PoolStopped)] == ["gpu"]
    assert other not in stage.intake.state.registered, "the input itself is decided on"
    assert any(isinstance(one, TellShare) for one in commands(stage.take(request("sam", "sql"))))


def test_a_state_that_cannot_be_restored_does_not_replace_its_inputs():
    registry = replace(TOYS, kinds={**TOYS.kinds, "careless": CARELESS})
    stage = Simulated(gpu("careless"), registry=registry)
    stage.say(stage.register("ann"), Answer(9, 0))
    before = stage.journal.content()
    with pytest.raises(JournalUnavailableError, match="cannot be written and read back"):
        stage.intake.compact()
    assert stage.journal.content() == before
    again = Simulated(journal=stage.journal, registry=registry)
    assert again.state() == stage.state()


# A compaction in the middle.


def test_a_compaction_changes_nothing_and_restores_typed_values(tmp_path):
    def run(compact, name):
        journal = RecordFile(tmp_path / name)
        stage = Simulated(auctioned(lease_s=1.0), gpu("toy-cells", name="cells"), journal=journal)
        app = stage.register("ann")
        stage.register("kim", "cells")
        for step in (lambda on: on.say(app, Answer(1, 4)), lambda on: on.register("eve"), lambda on: on.wait(1.2)):
            if compact:
                stage.intake.compact()
                seen = stage.intake.state
                journal.close()
                journal = RecordFile(tmp_path / name)
                began = stage
                stage = Simulated(journal=journal)
                stage.clock.time, stage.decided = began.clock.time, began.decided
                assert typed(stage.intake.state) == typed(seen)
            step(stage)
        journal.close()
        return [stage.intake.encoded(one) for one in stage.decided], stage.state("cells").dump()

    def typed(state):
        kept = state.pool_states
        return kept["gpu"], replace(kept["cells"], state=None), kept["cells"].state.dump(), state.registered

    assert run(True, "compacted") == run(False, "whole")


def test_open_commands_are_restored_from_the_journal():
    stage = Simulated(auctioned(), hosted_beside(), solves=False)
    app = stage.register("ann")
    stage.register("eve", "cells")
    stage.say(app, Answer(1, 1))
    stage.intake.compact()
    again = Simulated(journal=stage.journal)
    assert isinstance(again.state(), AuctionState)
    assert again.state() == stage.state()
    assert [type(one).__name__ for one in again.state().open.values()] == ["Solve"]
    assert isinstance(again.state("cells"), HostState)
    assert isinstance(again.state("cells").children["prod-b"].state, AuctionState)
    assert no_dicts_for_types(again.intake.state.pool_states)


def hosted_beside():
    return replace(hosted(), name="cells", queue="root.cells")


def no_dicts_for_types(value):
    """Whether nothing that was an object is a mapping with a type now."""
    if is_dataclass(value):
        return all(no_dicts_for_types(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, dict):
        return "type" not in value and all(map(no_dicts_for_types, value.values()))
    return not isinstance(value, tuple | list) or all(map(no_dicts_for_types, value))
