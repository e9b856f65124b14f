"""What a query makes of stages that should have ended."""

from dataclasses import replace

import pytest

from qoop.as_written.causes import UntypedCause
from qoop.estimate.cost import CostModel
from qoop.parsing.statement import parse_statement
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT
from qoop.replan import commands, events
from qoop.replan.causes import NotPlanned
from qoop.replan.decision import Rules, Straggler
from qoop.replan.machine import step
from qoop.replan.state import State
from tests.property.query_world import TEXTS, Known, planned

STAR = "SELECT a.x FROM a, b, c WHERE a.k = b.k AND a.m = c.m AND b.x = 1 AND c.x = 2"
CHAIN = "SELECT a.x FROM a, b, c, d, e WHERE a.k = b.k AND b.m = c.m AND c.x = d.x AND d.z = e.z"


def begin(text, rows, slots=4.0):
    """A query that was just planned and got its share; and its commands."""
    known = Known(rows)
    made = plan(parse_statement(text), known, known.statistics, CutPolicy(), CostModel())
    state, _ = step(State(made.plans, made.estimator, made.estimator, Rules()), 0.0, events.Planned(len(made.plans), 2))
    return step(state, 0.0, events.ShareChanged(slots, None, "alone", 0.0, None))


def waited(state, seconds):
    """The state after so many seconds in which no running stage ends; cancelled stages stop."""
    stopped = []
    for at in range(5, seconds, 5):
        state, told = step(state, float(at), events.TimerFired())
        for stage in (stage for one in told if isinstance(one, commands.CancelStages) for stage in one.stages):
            stopped.append(stage)
            state, _ = step(state, float(at), events.StageCancelled(stage))
    return state, stopped


def test_two_join_orders_of_one_late_stage_do_not_stop_each_other():
    state, _ = begin(STAR, (3_000_000, 1_000, 1_000, 1, 1, 1))
    assert len(state.plans) > 1
    assert len(state.running) == 1
    state, stopped = waited(state, 120)
    assert (state.counts.switches, stopped) == (0, [])


@pytest.mark.parametrize("slots", [1.0, 4.0, 16.0])
def test_a_stage_that_was_stopped_late_is_not_taken_for_a_fast_one_again(slots):
    state, _ = begin(CHAIN, (10_000_000, 10_000_000, 1_000_000, 10_000_000, 10_000_000, 1), slots)
    before = {stage: state.estimator.stage_rows(stage) for stage in state.running}
    state, stopped = waited(state, 600)
    assert stopped
    assert len(stopped) == len(set(stopped)), "none is stopped twice without having been counted"
    assert all(state.stragglers[stage].rows > before[stage] for stage in stopped if stage in before)


def test_a_cold_start_is_no_evidence():
    """The first check comes before a cold executor has done anything."""
    state, _ = begin(CHAIN, (10_000_000, 10_000_000, 1_000_000, 10_000_000, 10_000_000, 1))
    state, stopped = waited(state, 11)
    assert stopped == []
    assert all(one.done <= 1.0 for one in state.running.values())


def test_measurements_reduce_the_lateness_of_running_stages():
    state, _ = begin(CHAIN, (30_000_000, 1_000_000, 2_500_000, 30_000, 2_000_000, 1))
    state, _ = step(state, 14.0, events.TimerFired())
    finished, *others = state.running
    assert others
    late = state.running[others[0]]
    state, _ = step(state, 14.0, events.StageFinished(finished, 1e6, 1e8, 14.0, 400.0))
    now = state.running[others[0]]
    assert now.work.core_seconds > late.work.core_seconds
    assert now.done < late.done


def test_a_switch_that_only_a_late_stage_explains_is_not_put_down_to_the_share():
    """With the initial estimates the new share alone would do; with the rows counted since then it does not."""
    state, _ = begin(CHAIN, (20_000, 3_000_000, 60_000, 7_000, 12_000_000, 500_000), 8.0)
    first = min(state.running)
    state, _ = step(state, 3.0, events.StageFinished(first, 100 * state.estimator.stage_rows(first), 1e6, 3.0, 24.0))
    state, told = step(state, 3.0, events.ShareChanged(2.0, None, "another arrived", 3.0))
    assert not any(isinstance(one, commands.CancelStages) for one in told)
    for at in range(5, 100, 5):
        state, told = step(state, float(at), events.TimerFired())
        notes = [one.decision for one in told if isinstance(one, commands.Note)]
        if any(note.switched for note in notes):
            break
    assert [note.won_by for note in notes] == ["late stage"]


def test_a_count_settles_what_was_suspected():
    state, _ = begin(CHAIN, (10_000_000, 10_000_000, 1_000_000, 10_000_000, 10_000_000, 1))
    state, _ = waited(state, 600)
    running = next(iter(state.running))
    stragglers = replace(state, stragglers={**state.stragglers, running: Straggler(1e9, 1e3)})
    state, _ = step(stragglers, 601.0, events.StageFinished(running, 5.0, 5.0, 1.0, 1.0))
    assert running not in state.stragglers


def test_plans_that_are_refused_while_they_run_are_given_up():
    made = planned(TEXTS[0], [1_000_000] * 6)
    state, _ = step(State(made.plans, made.estimator, made.estimator, Rules()), 0.0, events.Planned(len(made.plans), 2))
    state, _ = step(state, 0.0, events.ShareChanged(4.0, None, "", 0.0))
    running = tuple(sorted(state.running))
    assert running
    state, found = step(state, 1.0, events.CannotPlan(UntypedCause("the plan is not equivalent")))
    assert found == (
        commands.CancelStages(running),
        commands.RunAsWritten(NotPlanned(UntypedCause("the plan is not equivalent"))),
    )
    for late in (events.CannotPlan(UntypedCause("again")), *(events.StageCancelled(stage) for stage in running)):
        state, found = step(state, 2.0, late)
        assert (state.phase, found) == ("as written", ())
    state, found = step(state, 3.0, events.StageFinished(RESULT, 1.0, 0.0, 1.0, None))
    assert (state.phase, found) == ("done", (commands.Finish(),))
    assert step(state, 4.0, events.CannotPlan(UntypedCause("too late")))[0].phase == "done"


def test_a_stage_of_a_plan_that_was_given_up_fails_nothing():
    made = planned(TEXTS[0], [1_000_000] * 6)
    state, _ = step(State(made.plans, made.estimator, made.estimator, Rules()), 0.0, events.Planned(len(made.plans), 2))
    state, _ = step(state, 0.0, events.CannotPlan(UntypedCause("the plan is not equivalent")))
    for retry in (False, True):
        late, found = step(state, 1.0, events.StageFailed(RESULT, "out of memory", retry, of_plan=True))
        assert (late.phase, late.counts.failed, found) == ("as written", 0, ())
    late, found = step(state, 1.0, events.StageFailed(RESULT, "out of memory", False))
    assert (late.phase, [type(one) for one in found]) == ("failed", [commands.Fail])


def test_nothing_follows_a_stage_that_may_have_stored_rows():
    made = planned(TEXTS[0], [1_000_000] * 6)
    state, _ = step(State(made.plans, made.estimator, made.estimator, Rules()), 0.0, events.Planned(len(made.plans), 2))
    state, _ = step(state, 0.0, events.ShareChanged(4.0, None, "", 0.0))
    given_up, _ = step(state, 0.5, events.CannotPlan(UntypedCause("another plan is not equivalent")))
    for before in (state, given_up):
        late, found = step(before, 1.0, events.StageFailed(RESULT, "could not rename", False, of_plan=True, final=True))
        assert (late.phase, type(found[-1])) == ("failed", commands.Fail)


def test_no_switch_while_the_last_stage_stores_rows():
    """A forced switch would come with every share."""
    made = planned(TEXTS[0], [10] * 6)
    for stores in (False, True):
        rules = Rules(force=True, stores=stores)
        state, _ = step(State(made.plans, made.estimator, made.estimator, rules), 0.0, events.Planned(9, 2))
        state, _ = step(state, 0.0, events.ShareChanged(4.0, None, "", 0.0))
        while RESULT not in state.running:
            state, _ = step(state, 1.0, events.StageFinished(min(state.running), 10.0, 80.0, 0.1, 0.1))
        late, found = step(state, 2.0, events.ShareChanged(2.0, None, "", 0.0))
        assert any(isinstance(one, commands.Note) for one in found) != stores
        assert late.share.slots == 2.0
