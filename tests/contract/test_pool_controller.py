"""The contract of pool controllers, with toys: an auction, 65,536 cells changed in place.

Each runs live (the daemon, a journal on disk, a worker process), simulated and replayed, with identical results.
"""

import itertools
import math
import os
import signal
from dataclasses import fields, is_dataclass, replace

import pytest

from tests.eventually import eventually
from tests.fixtures.scripted_manager import ScriptedManager
from tests.toys import auction
from tests.toys.auction import Answer, AuctionState, Provoke, StillNeeded
from tests.toys.cells import CELLS, EACH, CellTable, More
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

    def start(*pools):
        made.append(Live(tmp_path, *pools))
        return made[-1]

    yield start
    for one in made:
        one.close()


# (a) An auction: ask, deadline, solve in the worker, leases, revoke, cancelled revoke.


def test_an_auction_gives_the_same_results_live_simulated_and_replayed(live, tmp_path):
    stage = live(auctioned(ask_s=30.0, lease_s=1.0, grace_s=0.6))
    a = stage.register("ann", wants=4)
    stage.until(lambda: len(stage.state().leases) == 4, "ann has all cells")
    b = stage.register("eve", wants=2)
    stage.until(lambda: len(stage.sent(Revoke)) == 4, "ann's leases are revoked, since eve waits")
    stage.deregister(b)
    lease = stage.sent(Revoke)[0].lease
    stage.say(a, StillNeeded(lease))
    stage.until(lambda: stage.sent(CancelRevoke), "no one took the lease, so ann keeps it")
    stage.until(lambda: len(stage.sent(LeaseEnded)) == 3, "the grace period of the others ends")
    stage.until(lambda: len(stage.state().leases) == 4, "ann wins their cells in another round")
    stage.until(lambda: stage.sent(Renew), "leases that no one else wants are renewed")
    stage.daemon.stop()
    assert [one.lease for one in stage.sent(CancelRevoke)] == [lease]
    check_leases(stage.decided)
    check_agreement(tmp_path / "journal", stage.decided)


def test_a_round_accepts_only_valid_answers_for_it_before_its_deadline():
    stage = Simulated(auctioned(ask_s=1.0))
    good, silent, stale, malformed, late = (stage.register(name) for name in ("good", "silent", "stale", "mal", "late"))
    # The first round concerns only the applications that were registered when it opened.
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


def test_an_unregistered_application_is_not_asked():
    stage = Simulated(auctioned())
    unregistered = YarnApp("application_1_0001", "x", "eve", "root.gpu.x", True, 1000.0, Resources(), Resources(), 0)
    stage.take(AppsChanged((unregistered,), ()), 0.1)
    assert (stage.sent(Ask), len(stage.pool_state().seen.claims)) == ([], 1)
    app = stage.register("ann")
    assert [ask.app for ask in stage.sent(Ask)] == [app]


def test_the_order_of_the_journal_decides_whether_an_answer_is_late():
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


def test_a_lost_problem_is_solved_again_under_its_id_and_a_failed_one_ends_its_round():
    stage = Simulated(auctioned(), solves=False)
    app = stage.register("ann")
    stage.say(app, Answer(1, 2))
    (first,) = stage.problems
    stage.solve("lost")
    assert [one.id for one in stage.problems] == [first.id]
    stage.solve("failed", error="ValueError: no solution")
    assert (stage.state().phase, dict(stage.state().leases), stage.problems) == ("idle", {}, [])


def test_open_commands_are_repeated_after_a_restart_with_the_same_ids():
    stage = Simulated(auctioned(lease_s=1.0), solves=False)
    pools = stage.intake.state.pools
    a = stage.register("ann")
    stage.register("eve")

    def commands_after_restart():
        before = len(stage.decided)
        stage.take(Configured(pools), 0.001)
        commands = stage.decided[before].commands
        return [one for one in commands if isinstance(one, SolveInWorker)] + sent(stage.decided[before : before + 1])

    assert commands_after_restart() == stage.sent(Ask)[:1], "asking"
    stage.say(a, Answer(1, 4))
    repeated = commands_after_restart()
    assert [type(command) for command in repeated] == [SolveInWorker]
    assert repeated == stage.problems[:1], "solving"
    stage.solve()
    stage.problems.clear()
    assert len(stage.state().leases) == 4
    assert commands_after_restart() == [], "grants are not repeated"
    stage.wait(1.0)
    assert {one.lease for one in stage.sent(Revoke)} == set(stage.state().leases)
    revokes = sorted(stage.sent(Revoke), key=lambda one: one.id)
    assert sorted(commands_after_restart(), key=lambda one: one.id) == revokes, "revoking"


def test_other_pools_send_shares_while_a_solve_runs(live, tmp_path):
    stage = live(auctioned(ask_s=30.0, solve_s=1.5))
    stage.register("ann", wants=1)
    stage.until(lambda: stage.state().phase == "solving", "the worker solves")
    stage.register("sam", pool="sql")
    stage.until(lambda: stage.state().leases, "the worker has solved the problem")
    stage.daemon.stop()
    kinds = [kind for one in stage.decided for kind in (type(one.event), *map(type, one.commands))]
    started, shared, solved = (kinds.index(kind) for kind in (SolveInWorker, TellShare, Solved))
    assert started < shared < solved
    check_agreement(tmp_path / "journal", stage.decided)


# kill -9 of the worker and of the arbiter.


def kill_worker(stage):
    os.kill(stage.until(stage.worker_pid, "there is a worker process"), signal.SIGKILL)


def test_a_killed_worker_loses_only_its_current_solve(live, tmp_path):
    stage = live(auctioned(ask_s=60.0, solve_s=1.0, lease_s=2.0, grace_s=1.0))
    a = stage.register("ann")
    stage.say(a, Answer(1, 4))
    kill_worker(stage)
    stage.until(lambda: len(stage.state().leases) == 4, "another worker solves its problem")
    kill_worker(stage)
    b = stage.register("eve")
    stage.until(lambda: stage.sent(Revoke), "eve waits, so ann's leases are revoked")
    stage.until(lambda: stage.state().round == 2, "another round starts")
    stage.say(a, Answer(2, 1))
    stage.say(b, Answer(2, 3))
    stage.until(lambda: len(stage.state().leases) == 4, "a new process solves it")
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


def test_an_arbiter_killed_in_any_phase_completes_each_round_once(process):
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
    eventually(lambda: eve.ids("grant"), "eve receives her grant")
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


# (b) 65,536 cells changed in place.


def test_cells_changed_in_place_give_the_same_results_live_and_replayed(live, tmp_path):
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
    assert reports[0] == reports[1], "a report does not change with the state"
    assert [(one.free, len(one.of)) for one in reports] == [(CELLS - 2 * EACH - 3, 2)] * 2 + [(CELLS - EACH, 1)]
    replayed = check_agreement(tmp_path / "journal", stage.decided)
    assert replayed.skipped == 1
    assert replayed.state.pool_states["cells"].state.dump() == stage.state("cells").dump()


def test_an_advance_costs_as_much_as_it_changes():
    stage = Simulated(gpu("toy-cells", name="cells"))
    for number in range(20):
        before = stage.state("cells").operations
        stage.register(f"user {number}", "cells")
        assert stage.state("cells").operations - before == EACH
    before = stage.state("cells").operations
    with pytest.raises(SkippedInputError):
        stage.say("app_2", More(9))
    assert stage.state("cells").operations - before == 2 * 9, "nine cells, and their rollback"
    assert stage.state("cells").savepoint() == 0, "the undo log is empty"


@pytest.fixture
def failing_events(monkeypatch):
    """Predicates of events on which a step fails after all pools have been advanced."""
    step, predicates = journaling.step, []

    def failing(state, seq, at, event, registry):
        decided = step(state, seq, at, event, registry)
        if any(predicate(event) for predicate in predicates):
            raise OverflowError("int too large to convert to float")
        return decided

    monkeypatch.setattr(journaling, "step", failing)
    return predicates


def test_a_step_that_fails_later_leaves_mutable_state_unchanged(failing_events):
    stage = Simulated(gpu("toy-cells", name="cells"))
    stage.register("ann", "cells")
    before, seen = stage.state("cells").dump(), stage.intake.state
    failing_events.append(lambda event: isinstance(event, AppSaid))
    with pytest.raises(SkippedInputError, match="OverflowError"):
        stage.say("app_2", More(5))
    assert (stage.state("cells").dump(), stage.intake.state) == (before, seen)
    failing_events.clear()
    again = Simulated(journal=stage.journal)
    assert again.state("cells").dump() == before, "the journal records that it failed"


# Failure: a controller that raises stops its own pool only.


def nodes(count):
    return NodesChanged(tuple(Node(f"n{n}:1", "/r", Resources.of({"memory-mb": 8192, "vcores": 8}))
                              for n in range(count)), ())  # fmt: skip


def beside_a_share_pool(*pools):
    """Pools in a stage that also has a pool of shares, with four nodes."""
    stage = Simulated(*pools)
    stage.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
    stage.take(nodes(4))
    return stage


def check_stopped(stage, decided, pool, error):
    """Check that this pool, and no other, has stopped with this error."""
    (stopped,) = [one for one in commands(decided) if isinstance(one, PoolStopped)]
    assert (stopped.pool, stopped.error, stopped.retry_at) == (pool, error, decided[-1].at + advance.RETRY_AFTER)
    notified = [one.app for one in commands(stage.take(request(f"sam {len(stage.decided)}", "sql", "sam")))
            if isinstance(one, TellShare)]  # fmt: skip
    assert notified, "the share pool continues"


@pytest.mark.parametrize("what", ["ViewChanged", "TimerDue", "Outcome"])
def test_a_controller_that_raises_stops_only_its_own_pool_until_a_retry_succeeds(what):
    stage = beside_a_share_pool(auctioned(ask_s=1.0))
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
    check_stopped(stage, decided, "gpu", f"RuntimeError: provoked by {what}")
    assert stage.state() == before
    stage.say(app, Provoke("nothing"))
    decided = stage.wait(advance.RETRY_AFTER)
    match what:
        case "Outcome":
            # Postponed inputs are retried in order: first the outcome, which then counts as lost, then the message.
            assert PoolResumed("gpu") not in commands(decided)
            decided = stage.wait(20 * advance.RETRY_AFTER)
    assert PoolResumed("gpu") in commands(decided)
    assert stage.pool_state().failure is None
    stage.wait(2.0)
    check_replay(stage)


@pytest.mark.parametrize("what", ["ViewChanged", "TimerDue"])
def test_a_controller_that_raises_midway_leaves_its_cells_unchanged(what):
    stage = beside_a_share_pool(gpu("toy-cells", name="cells"))
    app, other = stage.register("ann", "cells"), stage.register("eve", "cells")
    stage.say(app, Provoke(what))
    before = stage.state("cells").dump()
    decided = stage.take(Deregistered(other), 0.01) if what == "ViewChanged" else stage.wait(0.1)
    check_stopped(stage, decided, "cells", f"RuntimeError: provoked by {what}")
    assert stage.state("cells").dump() == before
    stage.say(app, Provoke("nothing"))
    assert PoolResumed("cells") in commands(stage.wait(advance.RETRY_AFTER))
    if what == "ViewChanged":
        assert set(stage.state("cells").of) == {app}
    check_replay(stage)


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
    stage.until(lambda: PoolResumed("gpu") in commands(list(stage.decided)), "the controller is called again")
    assert stage.state().provoked == "nothing"
    stage.daemon.stop()
    check_agreement(tmp_path / "journal", stage.decided)


def check_replay(stage):
    """Check that a replay of the journal so far gives the same state."""
    again = journaling.arbiter_replay(TOYS)
    again.take_all(stage.journal.read())
    again.decide_waiting()
    assert again.different == 0
    for name, expected in stage.intake.state.pool_states.items():
        actual = again.state.pool_states[name]
        if isinstance(expected.state, CellTable):
            assert expected.state.dump() == actual.state.dump()
            expected, actual = replace(expected, state=None), replace(actual, state=None)
        assert expected == actual


def test_a_message_on_which_a_controller_raises_is_rejected_without_other_effects():
    stage = beside_a_share_pool(auctioned(), gpu("toy-cells", name="cells"))
    app = stage.register("ann")
    stage.register("kim", "cells")
    before, cells = stage.intake.state, stage.state("cells").dump()
    with pytest.raises(SkippedInputError, match="provoked by a message"):
        stage.say(app, Provoke("now"))
    assert (stage.intake.state, stage.state("cells").dump()) == (before, cells)
    stage.say(app, Answer(1, 1))
    assert stage.state().leases
    check_replay(stage)


class InvalidController:
    """A controller that returns commands or a state that cannot be journaled, as a message requests."""

    reads = frozenset({"claims"})

    def initial_state(self):
        return Answer(0, 0)

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        match state.round, what:
            case _, FromApp(_, Answer() as answer):
                return replace(answer, worth=math.inf) if answer.round == 9 else answer, ()
            case 1, _:
                return state, (Ask("bad#1", "app_1", object(), at),)
            case 2, _:
                return state, (Solve("bad#2", Answer(1, 1, math.nan)),)
            case 3, _:
                return state, (Ask("bad#3", "app_1", Provoke("half \ud800"), at),)
            case 4, _:
                return object(), ()
        return state, ()


INVALID = Kind("invalid", lambda pool, registry: InvalidController(), {})


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_result_that_cannot_be_journaled_stops_only_its_pool(number):
    registry = replace(TOYS, kinds={**TOYS.kinds, "invalid": INVALID})
    stage = Simulated(gpu("invalid"), registry=registry)
    app, other = stage.register("ann"), stage.register("eve")
    stage.say(app, Answer(number, 0))
    decided = stage.take(Deregistered(other))
    assert [one.pool for one in commands(decided) if isinstance(one, PoolStopped)] == ["gpu"]
    assert other not in stage.intake.state.registered, "the event itself is processed"
    assert any(isinstance(one, TellShare) for one in commands(stage.take(request("sam", "sql"))))


def test_a_state_that_cannot_be_restored_does_not_replace_its_events():
    registry = replace(TOYS, kinds={**TOYS.kinds, "invalid": INVALID})
    stage = Simulated(gpu("invalid"), registry=registry)
    stage.say(stage.register("ann"), Answer(9, 0))
    before = stage.journal.content()
    with pytest.raises(JournalUnavailableError, match="cannot be written and read back"):
        stage.intake.compact()
    assert stage.journal.content() == before
    again = Simulated(journal=stage.journal, registry=registry)
    assert again.state() == stage.state()


# Compaction between two events.


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
                before = stage
                stage = Simulated(journal=journal)
                stage.clock.time, stage.decided = before.clock.time, before.decided
                assert typed(stage.intake.state) == typed(seen)
            step(stage)
        journal.close()
        return [stage.intake.encoded(one) for one in stage.decided], stage.state("cells").dump()

    def typed(state):
        pools = state.pool_states
        return pools["gpu"], replace(pools["cells"], state=None), pools["cells"].state.dump(), state.registered

    assert run(True, "compacted") == run(False, "uncompacted")


def test_open_commands_are_restored_from_the_journal():
    stage = Simulated(auctioned(), solves=False)
    app = stage.register("ann")
    stage.say(app, Answer(1, 1))
    stage.intake.compact()
    again = Simulated(journal=stage.journal)
    assert isinstance(again.state(), AuctionState)
    assert again.state() == stage.state()
    assert [type(one).__name__ for one in again.state().open.values()] == ["Solve"]
    assert is_typed(again.intake.state.pool_states)


def is_typed(value):
    """Whether no object has become a mapping with a `type`."""
    if is_dataclass(value):
        return all(is_typed(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, dict):
        return "type" not in value and all(map(is_typed, value.values()))
    return not isinstance(value, tuple | list) or all(map(is_typed, value))
