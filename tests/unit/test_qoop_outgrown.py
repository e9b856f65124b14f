"""Running stages that have far more rows than expected: their trees are left while they run, and that is remembered."""

from dataclasses import replace

import pytest

from qoop.plans.plan import RESULT
from qoop.replan import commands, events
from qoop.replan.causes import OutgrownStage
from qoop.replan.decision import Rules
from qoop.replan.machine import step
from tests.property.query_world import TEXTS, begin, planned, share

CHAIN = TEXTS[0]
SIZES = (30_000_000, 1_000_000, 1_000_000, 30_000_000, 10, 10)


@pytest.fixture(params=[Rules(), Rules(force=True)], ids=["", "forced"])
def running(request):
    """A query that runs one stage, of a plan of several."""
    state, _ = step(begin(planned(CHAIN, SIZES), request.param), 0.0, events.Planned(12, 12))
    state, _ = step(state, 0.0, share(4))
    assert [stage for stage in state.running if stage != RESULT]
    return state


def grown(state, times, finished=0.5):
    """The state after the stage that runs first has had so many times the rows that were expected."""
    stage = min(stage for stage in state.running if stage != RESULT)
    rows = state.estimator.stage_rows(stage)
    return stage, rows, *step(state, 0.1, events.StageGrew(stage, rows * times, finished))


def test_a_stage_that_has_many_times_the_rows_expected_is_left(running):
    stage, rows, state, told = grown(running, 1000.0)
    decision = next(one.decision for one in told if isinstance(one, commands.Note))
    assert decision.switched
    assert decision.won_by == "row counts"
    assert commands.CancelStages((stage,)) in told
    joins = running.estimator.query.name_of(stage).aliases
    assert decision.cause == OutgrownStage(stage, joins, pytest.approx(rows * 2000), pytest.approx(rows))
    assert not state.plans[state.current].contains(stage)


def test_its_rows_are_remembered_until_it_is_measured(running):
    stage, rows, state, _ = grown(running, 1000.0)
    state, _ = step(state, 0.2, events.StageCancelled(stage))
    assert state.stragglers[stage].rows == pytest.approx(rows * 2000)
    state, _ = step(state, 0.3, events.StageFinished(stage, rows, rows * 8, 1.0, 1.0))
    assert stage not in state.stragglers
    assert state.estimator.counted[stage] == rows


def test_a_stage_that_has_nearly_finished_goes_on(running):
    stage, _, state, told = grown(running, 4.2, finished=0.99)
    assert any(isinstance(one, commands.Note) for one in told)
    assert not any(isinstance(one, commands.CancelStages) for one in told)
    assert state.current == running.current
    assert state.running[stage].work.core_seconds < running.running[stage].work.core_seconds


def test_a_stage_with_the_rows_expected_goes_on(running):
    _, _, state, told = grown(running, 1.9)
    assert not any(isinstance(one, commands.Note | commands.CancelStages) for one in told)
    assert state.estimator is running.estimator


def test_a_later_report_replaces_what_was_suspected(running):
    stage, rows, state, _ = grown(replace(running, rules=Rules(min_gain=1e9)), 10.0, finished=0.01)
    assert state.stragglers[stage].rows == pytest.approx(rows * 1000)
    state, told = step(state, 0.2, events.StageGrew(stage, rows * 20, 0.5))
    assert not any(isinstance(one, commands.Note) for one in told)
    assert state.stragglers[stage].rows == pytest.approx(rows * 40)
    _, told = step(state, 0.3, events.StageGrew(stage, rows * 900, 0.9))
    assert any(isinstance(one, commands.Note) for one in told)


def test_a_stage_that_has_ended_meanwhile_has_its_own_count(running):
    stage = min(stage for stage in running.running if stage != RESULT)
    state, _ = step(running, 0.1, events.StageFinished(stage, 7.0, 56.0, 1.0, 1.0))
    state, told = step(state, 0.2, events.StageGrew(stage, 1e12, 0.5))
    assert state.estimator.counted[stage] == 7.0
    assert not any(isinstance(one, commands.Note) for one in told)
