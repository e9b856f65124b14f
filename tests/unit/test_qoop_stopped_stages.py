"""Cancelled stages of whose output a part is stored: the rest is known, and they are resumed as they ran."""

from dataclasses import replace

import pytest

from qoop.estimate.cost import Work
from qoop.plans.plan import BLOCK_RESULT, RESULT, StageId
from qoop.replan import commands, events
from qoop.replan.decision import Progress, Rules, StoppedStage, evaluate, resumed_stages
from qoop.replan.machine import MAX_LOST, step
from tests.property.query_world import TEXTS, begin, planned, share

CHAIN = TEXTS[0]
SIZES = (30_000_000, 1_000_000, 1_000_000, 30_000_000, 10, 10)


@pytest.fixture
def running():
    """A query that runs one stage, of a plan of several."""
    state, _ = step(begin(planned(CHAIN, SIZES), Rules(min_gain=1e9)), 0.0, events.Planned(12, 12))
    state, _ = step(state, 0.0, share(4))
    assert [stage for stage in state.running if stage != RESULT]
    return state


def first(state):
    return min(stage for stage in state.running if stage != RESULT)


def cancelled(state, kept, core_seconds=None, stage=None):
    """The state after a stage was cancelled, without the stages that start then."""
    stage = stage or first(state)
    return step(
        replace(state, phase="switching", awaiting_cancel=frozenset({stage, RESULT})),
        1.0,
        events.StageCancelled(stage, kept, core_seconds),
    )[0]


def started(state):
    """The stages that start when the switch is complete."""
    state, told = step(replace(state, phase="running", awaiting_cancel=frozenset()), 1.0, events.ExecutorsChanged(1))
    return state, {one.stage: one for one in told if isinstance(one, commands.StartStage)}


def test_a_cancelled_stage_is_resumed_as_it_ran(running):
    stage = first(running)
    before = running.running[stage]
    state, told = started(cancelled(running, 0.8, 40.0))
    assert told[stage] == commands.StartStage(stage, before.plan, before.inputs, 0, 0.8)
    assert state.running[stage].work.core_seconds == pytest.approx(10.0)


def test_a_stage_of_which_nothing_is_stored_starts_anew(running):
    stage = first(running)
    state, told = started(cancelled(running, 0.0, 40.0))
    assert told[stage].kept == 0.0
    assert state.running[stage].work == running.running[stage].work


@pytest.mark.parametrize(
    ("before", "kept", "core_seconds", "rest"),
    [(0.0, 0.75, 30.0, 10.0), (0.5, 0.75, 30.0, 30.0), (0.5, 0.5, 30.0, 8.0), (0.0, 0.75, None, 2.0)],
)
def test_what_is_left_of_a_stage_is_what_its_stored_partitions_took(running, before, kept, core_seconds, rest):
    stage = first(running)
    work = Work(8.0, 0.1, 4.0)
    known = replace(running.running[stage], work=work, kept=before)
    state = cancelled(replace(running, running={**running.running, stage: known}), kept, core_seconds, stage)
    assert state.stopped[stage].rest == replace(work, core_seconds=pytest.approx(rest))


def test_a_plan_that_resumes_a_stage_is_estimated_to_finish_earlier(running):
    stage = first(running)
    state = cancelled(running, 0.9, 0.9)
    seen = [Progress(frozenset(), {}), Progress(frozenset(), {}, stopped=state.stopped)]
    fresh, resumed = (evaluate(state.plans, state.estimator, one, 1.0, state.rules) for one in seen)
    need = [plan.contains(stage) for plan in state.plans]
    assert any(need) and not all(need)
    for one, other, needed in zip(fresh, resumed, need, strict=True):
        assert other.seconds < one.seconds if needed else other.seconds == one.seconds


def test_another_way_to_compute_a_stage_is_taken_if_it_is_shorter_than_the_rest(running):
    state = running
    block = first(running).block
    trees = {relations for plan in state.plans for relations in plan.block_plans[block].joins}
    wide = max(
        trees,
        key=lambda relations: (
            sum(relations in plan.block_plans[block].joins for plan in state.plans),
            relations.bit_count() == 3,
        ),
    )
    stage = StageId(block, wide)
    assert len({plan.block_plans[block].joins[wide] for plan in state.plans if plan.contains(stage)}) > 1
    inputs = frozenset[StageId]()
    number = next(number for number, plan in enumerate(state.plans) if plan.contains(stage))
    ways = {other: plan.content(stage, inputs) for other, plan in enumerate(state.plans) if plan.contains(stage)}

    def resuming(core_seconds):
        stopped = StoppedStage(number, (), 0.5, Work(core_seconds, 0.1, 4.0))
        seen = Progress(frozenset(), {}, stopped={stage: stopped})
        return {
            other
            for other in range(len(state.plans))
            if resumed_stages(other, state.plans, state.estimator, seen, frozenset())
        }

    assert resuming(1e-9) == set(ways)
    assert resuming(1e9) == {other for other, way in ways.items() if way == ways[number]}


def test_a_stage_whose_input_was_lost_starts_anew(running):
    stage, read = first(running), StageId("qoop_result", 1)
    reader = replace(running.running[stage], inputs=(read,))
    state = cancelled(replace(running, running={**running.running, stage: reader}), 0.8)
    assert started(state)[1][stage].kept == 0.0, "the input is not there"
    state = replace(state, ready={read: 10.0})
    assert set(state.stopped) == {stage}
    assert not step(state, 2.0, events.CheckpointLost(read, "gone"))[0].stopped


def test_what_was_kept_may_be_lost(running):
    state = cancelled(running, 0.8)
    state, _ = step(state, 2.0, events.CheckpointLost(first(running), "its executors are gone"))
    assert not state.stopped
    assert state.counts.lost == 0


def test_an_output_that_is_lost_again_and_again_is_not_computed_for_ever(running):
    stage = first(running)
    for times in range(1, MAX_LOST + 2):
        state = replace(running, ready={stage: 10.0}, running={}, losses={stage: times - 1})
        state, told = step(state, 2.0, events.CheckpointLost(stage, "its executors are gone"))
        assert any(isinstance(one, commands.RunAsWritten) for one in told) == (times > MAX_LOST)
    assert state.phase == "as written" and state.losses == {stage: MAX_LOST + 1}


@pytest.mark.parametrize("phase", ["as written", "done", "failed"])
def test_a_query_that_runs_as_written_is_not_started_again_for_a_lost_output(running, phase):
    """Several outputs may be lost for the last time at once."""
    stage = first(running)
    state = replace(running, phase=phase, ready={stage: 10.0}, running={}, losses={stage: MAX_LOST})
    state, told = step(state, 2.0, events.CheckpointLost(stage, "its executors are gone"))
    assert state.phase == phase and told == ()


def test_a_result_that_is_being_computed_is_not_given_up_for_a_lost_output(running):
    stage = first(running)
    result = {RESULT: running.running[stage]}
    state = replace(running, ready={stage: 10.0}, running=result, losses={stage: MAX_LOST})
    state, told = step(state, 2.0, events.CheckpointLost(stage, "its executors are gone"))
    assert state.phase == "running" and not any(isinstance(one, commands.RunAsWritten) for one in told)


def test_a_resumed_stage_does_not_measure_the_machine(running):
    stage = first(running)
    state, _ = started(cancelled(running, 0.8, 40.0))
    before = state.estimator.calibration
    state, _ = step(state, 3.0, events.StageFinished(stage, 100.0, 800.0, 2.0, 1.0))
    assert state.estimator.calibration == before
    assert not state.stopped


def test_a_failed_stage_starts_anew(running):
    stage = first(running)
    state, _ = started(cancelled(running, 0.8, 40.0))
    state, told = step(state, 3.0, events.StageFailed(stage, "an executor was lost", True))
    (again,) = [one for one in told if isinstance(one, commands.StartStage) and one.stage == stage]
    assert (again.attempt, again.kept) == (1, 0.0)


def test_a_query_as_written_resumes_nothing(running):
    state = cancelled(running, 0.8)
    plans = (*state.plans, replace(state.plans[0], as_written=True))
    seen = Progress(frozenset(), {}, stopped=state.stopped)
    assert not resumed_stages(len(plans) - 1, plans, state.estimator, seen, frozenset())


def test_every_plan_contains_the_results_of_its_blocks(running):
    assert all(plan.contains(RESULT) for plan in running.plans)
    assert not running.plans[0].contains(StageId("nothing", BLOCK_RESULT))
