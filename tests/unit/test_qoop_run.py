"""A query still returns its answer when parts that it does not depend on fail."""

import dataclasses
import errno
import time

import pytest

from qoop.as_written.causes import UntypedCause
from qoop.plans.plan import RESULT
from qoop.replan import machine
from qoop.replan.causes import NotPlanned
from qoop.replan.commands import RunAsWritten, StartStage
from qoop.replan.decision import Rules
from qoop.replan.events import ArbiterAway, ExecutorsChanged, ShareChanged, StageFinished, TimerFired
from qoop.run import journal as journals
from qoop.run import query_run as run_module
from qoop.run.journal import QueryJournal
from qoop.run.progress import ProgressLines
from qoop.run.query_run import QueryRun
from tests.clock import HandClock
from tests.property.query_world import TEXTS, planned
from yarn_plugin import console
from yarn_plugin.journal.clock import JournalClock


class Engine:
    """Runs the one stage there is as soon as executors were asked for."""

    def __init__(self, problem):
        self.problem, self.run = problem, None

    def check_plan(self, text):
        pass

    def prepare(self, query):
        pass

    def start(self, stage, query, view):
        assert stage == RESULT

    def cancel(self, stages):
        raise AssertionError("nothing is to be cancelled")

    def set_executors(self, target, by):
        self.run.send(ExecutorsChanged(target))
        self.run.send(StageFinished(RESULT, 1.0, 1.0, 1.0, None))
        raise self.problem


class Feed:
    """Tells one share."""

    def start(self, tell):
        tell(ShareChanged(2.0, 2, "a share", 1.0, seq=17))

    def close(self):
        pass


@pytest.mark.parametrize("problem", [RuntimeError("Java has gone"), AttributeError(), OSError(5, "input/output error")])
def test_executors_and_confirmations_that_fail_end_no_query(problem):
    warned, confirmed = [], []

    def confirm(seq):
        confirmed.append(seq)
        raise problem

    engine = Engine(problem)
    run = QueryRun("q", "SELECT 1", None, "it has one table", Rules(), QueryJournal(None), confirm, warned.append)
    engine.run = run
    assert run.run(engine, Feed()).counts.stages == 1
    assert confirmed == [17]
    executors, share = warned
    assert ("2 executors:" in executors, "share 17 " in share) == (True, True)
    assert all(f": {type(problem).__name__}" in line for line in warned)


def test_progress_survives_a_closed_terminal(capsys):
    class Gone:
        def write(self, text):
            raise OSError(errno.EIO, "the terminal has gone")

        def flush(self):
            raise OSError(errno.EIO, "the terminal has gone")

    ProgressLines(console.PlainConsole(file=Gone())).warn("nobody hears this")
    ProgressLines(console.err).show(RunAsWritten(NotPlanned(UntypedCause("[/x] has one\ntable\x1b[2J"))))
    assert (
        capsys.readouterr().err.partition("] ")[2] == "running as written, in one stage: [/x] has one\\ntable\\x1b[2J\n"
    )


# The journal, and the order of time.


class Slowly:
    """Holds stages until a test finishes them; the query as written finishes at once."""

    def __init__(self):
        self.kept, self.run = [], None

    def check_plan(self, text):
        pass

    def prepare(self, query):
        pass

    def start(self, stage, query, view):
        if view is None and query == "as the user wrote it":
            self.run.send(StageFinished(RESULT, 1.0, 1.0, 1.0, None))
        else:
            self.kept.append(stage)

    def finish(self):
        kept, self.kept = self.kept, []
        for stage in kept:
            self.run.send(StageFinished(stage, 1000.0, 8000.0, 1.0, 1.0))

    def cancel(self, stages):
        pass

    def set_executors(self, target, by):
        pass


@pytest.fixture
def slowly(tmp_path):
    """Makes a run whose stages wait to be finished, with its engine and its journal."""

    def made(**options):
        engine = Slowly()
        query = planned(TEXTS[0], [1_000_000] * 6)
        notes = QueryJournal(tmp_path / "journal", options.pop("lost", pytest.fail))
        run = QueryRun("q", "as the user wrote it", query, None, Rules(), notes, **options)
        engine.run = run
        return run, engine

    return made


def noted(tmp_path, kind):
    return [record for record in journals.read(tmp_path / "journal") if record["kind"] == kind]


def kinds(tmp_path):
    return [record["event"]["type"] for record in noted(tmp_path, "input")]


def test_an_event_is_journaled_before_the_decision(slowly, tmp_path, monkeypatch):
    """A query that is killed while it decides leaves what it died of."""

    def killed(state, at, event):
        if isinstance(event, ShareChanged):
            raise SystemExit(9)
        return machine.step(state, at, event)

    monkeypatch.setattr(run_module, "step", killed)
    run, engine = slowly()
    with pytest.raises(SystemExit):
        run.run(engine, Feed())
    assert kinds(tmp_path) == ["Planned", "ShareChanged"]
    assert [record["seq"] for record in noted(tmp_path, "decision")] == [2]


@pytest.mark.parametrize("part", ["step", "stage_query"])
def test_after_a_planner_failure_the_query_runs_as_written(slowly, tmp_path, monkeypatch, part):
    """Also where the stages that it wants cannot be written."""

    def fails(*given):
        if part == "step" and not isinstance(given[2], ShareChanged):
            return machine.step(*given)
        raise OverflowError("too wide")

    monkeypatch.setattr(run_module, part, fails)
    warned = []
    run, engine = slowly(warn=warned.append)
    run.run(engine, Feed())
    (warning,) = warned
    assert "the planner failed" in warning
    decisions = noted(tmp_path, "decision")
    assert [one["type"] for one in decisions[1]["commands"]] == ["RunAsWritten"]
    assert [record["phase"] for record in decisions] == ["running", "as written", "done"]


def test_a_planner_failure_while_running_as_written_ends_the_query(slowly, monkeypatch):
    def fails(state, at, event):
        raise OverflowError("too wide")

    monkeypatch.setattr(run_module, "step", fails)
    run, engine = slowly(warn=lambda line: None)
    with pytest.raises(OverflowError):
        run.run(engine, Feed())


def test_a_journal_that_fails_ends_no_query(slowly, monkeypatch):
    lost = []
    run, engine = slowly(lost=lost.append, watch=lambda command: engine.finish())

    def broken(value):
        raise AttributeError("nobody thought of this")

    monkeypatch.setattr(run._journal._codec, "write", broken)
    assert run.run(engine, Feed()).counts.stages > 0
    (warning,) = lost
    assert warning.startswith("--journal ")
    assert "continues without" in warning


@pytest.mark.parametrize("jump", [-7200.0, 7200.0])
def test_a_wall_clock_that_jumps_neither_stalls_timers_nor_turns_time_back(slowly, tmp_path, monkeypatch, jump):
    monkeypatch.setattr(machine, "PROGRESS_CHECK_S", 0.02)
    offset, fired = [0.0], []

    def watch(command):
        if type(command).__name__ == "SetTimer":
            fired.append(command)
            offset[0] += jump
            if len(fired) % 3 == 0:
                engine.finish()

    monkeypatch.setattr(run_module, "JournalClock", lambda: JournalClock(lambda: time.time() + offset[0]))
    run, engine = slowly(watch=watch)
    run.run(engine, Feed())
    times = [record["at"] for record in journals.read(tmp_path / "journal")]
    assert "TimerFired" in kinds(tmp_path)
    assert times == sorted(times)
    assert times[-1] - times[0] < 3600.0


def test_an_event_that_arrived_before_a_timer_was_due_precedes_it(slowly, tmp_path):
    clock = HandClock(1000.0)

    def watch(command):
        if type(command).__name__ == "SetTimer" and clock.time == 1000.0:
            # The query is busy with this decision meanwhile.
            clock.time = 1000.0 + machine.PROGRESS_CHECK_S - 1.0
            run.send(ArbiterAway("before"))
            clock.time = 1000.0 + machine.PROGRESS_CHECK_S + 9.0
            run.send(ArbiterAway("after"))
        elif type(command).__name__ == "SetTimer":
            engine.finish()

    run, engine = slowly(watch=watch, clock=clock, warn=lambda line: None)
    run.run(engine, Feed())
    found = [(record["event"]["type"], record["at"]) for record in noted(tmp_path, "input")]
    begun = found.index(("ShareChanged", 1000.0)) + 1
    # The look at what runs is put off by whatever is decided in between.
    assert found[begun : begun + 2] == [("ArbiterAway", 1004.0), ("TimerFired", 1009.0)]
    assert ("ArbiterAway", 1014.0) in found


def test_stages_are_checked_only_while_some_are_running():
    made = planned(TEXTS[0], [1_000_000] * 6)
    state = machine.State(made.plans, made.estimator, made.estimator, Rules())
    for at, event in ((1.0, machine.Planned(len(made.plans), 1)), (2.0, ShareChanged(4.0, None, "a share", 2.0))):
        state, commands = machine.step(state, at, event)
    assert state.timer_at == commands[-1].at == 2.0 + machine.PROGRESS_CHECK_S
    state, _ = machine.step(state, state.timer_at, TimerFired())
    assert state.timer_at == 2.0 + 2 * machine.PROGRESS_CHECK_S
    assert machine.run_as_written(state, NotPlanned(UntypedCause("no reason")))[0].timer_at is None
    state, _ = machine.step(state, 9.0, StageFinished(RESULT, 1.0, 1.0, 1.0, 1.0))
    assert state.timer_at is None


def test_what_starts_next_is_prepared_while_the_stages_before_it_run(slowly):
    prepared, started = [], []
    run, engine = slowly(watch=lambda command: engine.finish())
    start = engine.start

    def record(stage, query, view):
        started.append((query, query in prepared))
        start(stage, query, view)

    engine.start, engine.prepare = record, prepared.append
    run.run(engine, Feed())
    first, *others = started
    assert not first[1]
    assert others and others[-1][1], "the result"
    assert len(set(prepared)) >= sum(was_prepared for _, was_prepared in others) > 0


def test_nothing_is_prepared_after_the_last_stage_or_while_a_switch_waits():
    made = planned(TEXTS[0], [1_000_000] * 6)
    state = machine.State(made.plans, made.estimator, made.estimator, Rules())
    assert machine.likely_starts(state) == ()
    for event in (machine.Planned(len(made.plans), 1), ShareChanged(1.0, None, "a share", 2.0)):
        state, commands = machine.step(state, 1.0, event)
    while (likely := machine.likely_starts(state)) != ():
        assert machine.likely_starts(dataclasses.replace(state, phase="switching")) == ()
        (stage,) = state.running
        state, commands = machine.step(
            state, 2.0, StageFinished(stage, state.estimator.stage_rows(stage), 1.0, 1.0, 1.0)
        )
        assert [one for one in commands if isinstance(one, StartStage)] == list(likely)
    assert set(state.running) == {RESULT}


def test_the_expected_completion_is_told_after_each_decision(slowly):
    """First as estimated with the guarantee; then with what was measured, and the time since."""
    clock, told = HandClock(1000.0), []

    def expect(completion):
        told.append(completion)
        raise OSError("the arbiter has gone")  # which the query survives

    def watch(command):
        if type(command).__name__ == "SetTimer":
            clock.time += 2.0
            engine.finish()

    warned = []
    run, engine = slowly(clock=clock, expect=expect, warn=warned.append, watch=watch)
    run.run(engine, Feed())
    first, *later = told
    assert (first.elapsed_s, first.rho) == (0.0, 1.0)
    assert first.remaining_s == first.guaranteed_s > 0.0
    assert [one.elapsed_s for one in later[:2]] == [2.0, 4.0]
    assert {one.guaranteed_s for one in later} == {first.guaranteed_s}
    assert later[-1].remaining_s < first.remaining_s
    assert len(warned) == len(told)
    assert warned[0] == "could not report the expected completion: OSError: the arbiter has gone"
