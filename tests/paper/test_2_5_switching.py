"""QOOP, section 2.5: the states RUNNING and SWITCHING of a query."""

import pytest

from qoop.plans.plan import RESULT
from qoop.replan import commands
from qoop.replan.decision import Rules
from tests.property.query_world import TEXTS, QueryWorld, begin, planned, share, started


@pytest.fixture
def switching():
    """A query that is cancelling a stage because its share fell from 64 slots to 1."""
    sizes = [30_000_000, 30_000_000, 1_000, 1_000_000, 30_000_000, 10]
    world = started(QueryWorld(begin(planned(TEXTS[4], sizes), Rules(hysteresis=0.1))), 64)
    world.take(share(1))
    assert world.stopping
    return world


def test_a_change_of_resources_forces_a_query_from_running_to_switching(switching):
    assert switching.state.phase == "switching"
    assert switching.state.counts.switches == 1


def test_running_stages_go_on_but_none_is_launched_while_switching(switching):
    for _ in range(3):
        switching.take(share(1))
        assert not any(isinstance(one, commands.StartStage) for one in switching.took[-1][2])
    assert switching.stopping <= switching.running


def test_it_runs_again_once_the_switch_is_over_with_the_stages_of_the_new_plan(switching):
    for stage in sorted(switching.stopping):
        switching.stopped(stage)
    assert switching.state.phase == "running"
    over = len(switching.took)
    switching.end()
    begun = [one for _, _, told in switching.took[over:] for one in told if isinstance(one, commands.StartStage)]
    assert begun
    assert {one.plan for one in begun} == {switching.state.current}


def test_inputs_of_stages_of_the_new_plan_point_to_checkpoints(switching):
    for stage in sorted(switching.stopping):
        switching.stopped(stage)
    while RESULT not in switching.running:
        switching.finish(min(switching.running))
    goal = next(
        one
        for _, _, told in switching.took
        for one in told
        if isinstance(one, commands.StartStage) and one.stage == RESULT
    )
    assert goal.inputs
    assert set(goal.inputs) <= switching.kept
