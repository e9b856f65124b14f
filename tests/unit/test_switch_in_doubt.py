"""Switches are worth it although estimates may be wrong: over the doubts that true row counts have left."""

from dataclasses import replace
from math import inf

import pytest

from qoop.replan import events, switch
from qoop.replan.decision import Candidate, Progress, Rules, StageProgress, delay_estimate
from qoop.replan.machine import step
from qoop.replan.switch import plan_to_go_on_with, saves_in_doubt
from tests.property.query_world import TEXTS, QueryWorld, begin, planned, started

CHAIN, CHAIN_SIZES = TEXTS[0], [1_000_000] * 6


@pytest.mark.parametrize(
    ("present", "seconds", "is_worth_it"),
    [
        ((100.0, 100.0, 100.0), (80.0, 200.0, 80.0), False),  # a fifth less as expected, twice as much if there is more
        ((100.0, 100.0, 100.0), (90.0, 90.0, 90.0), False),  # a tenth less
        ((100.0, 100.0, 100.0), (80.0, 80.0, 80.0), True),
        ((223.0, 659.0, 45.0), (92.0, 6_860.0, 45.0), False),  # query 72: the joins that are left are what is uncertain
        ((2_000.0, 9_000.0, 600.0), (50.0, 300.0, 40.0), True),  # a join has exploded
        ((100.0, 200.0, 50.0), (20.0, 30.0, 45.0), True),
        ((0.5, 0.5, 0.5), (0.39, 0.39, 0.39), False),  # another plan has its price
        ((inf, inf, inf), (100.0, 100.0, 100.0), True),
        ((100.0, 100.0, 100.0), (inf, 10.0, 10.0), False),
        ((100.0, 100.0, 100.0), (0.0, 0.0, 0.0), True),
    ],
)
def test_a_switch_saves_the_hysteresis_as_the_geometric_mean_over_the_doubts(present, seconds, is_worth_it):
    assert saves_in_doubt(present, seconds, Rules()) is is_worth_it


def test_nothing_saves_all_of_the_time():
    assert not saves_in_doubt((100.0,) * 3, (0.0,) * 3, Rules(hysteresis=1.0))


def chosen(monkeypatch, plans, current=0):
    """The plan that is gone on with if plans take so many seconds as expected, with more, and with fewer rows."""

    def evaluate(plans_, estimator, progress, slots, rules, numbers, doubt):
        return [Candidate(number, plans[number][switch.DOUBTS.index(doubt)]) for number in numbers]

    monkeypatch.setattr(switch, "evaluate", evaluate)
    candidates = [Candidate(number, seconds[0]) for number, seconds in enumerate(plans)]
    return plan_to_go_on_with((), None, Progress(frozenset(), {}), candidates, current, 4.0, Rules())


def test_the_fastest_plan_that_withstands_the_doubts_is_switched_to(monkeypatch):
    present, fragile, robust, slow = (100.0, 150.0, 50.0), (40.0, 900.0, 40.0), (60.0, 90.0, 30.0), (90.0, 90.0, 10.0)
    assert chosen(monkeypatch, [present, fragile, robust, slow]) == 2
    assert chosen(monkeypatch, [present, fragile, slow]) == 0, "one must save enough as expected too"
    assert chosen(monkeypatch, [fragile, present, robust], current=1) == 2


def test_a_join_that_has_exploded_is_switched_away_from():
    sizes = [1_000_000, 1_000_000, 1_000_000, 30_000_000, 1_000_000, 1_000]
    world = started(QueryWorld(begin(planned(TEXTS[4], sizes))), 4)
    stage = min(world.running)
    world.finish(stage, rows=50 * world.state.estimator.stage_rows(stage), seconds=1.0)
    assert world.state.counts.switches == 1


def test_a_late_stage_of_certain_size_is_no_evidence_of_more_rows():
    made = planned(CHAIN, CHAIN_SIZES)
    stage = min(made.plans[0].stages())
    expected = made.estimator.stage_rows(stage)

    def rows(done, uncertainty, doubt=0.0):
        work = made.estimator.work(made.plans[0], stage)
        late = Progress(frozenset(), {stage: StageProgress(0, work, done, uncertainty)})
        return delay_estimate(late, made.estimator, doubt).rows[stage] / expected

    assert rows(10.0, 0.0) == 1.0
    assert 1.0 < rows(10.0, 0.5) < rows(10.0, 1.5) < 10.0
    assert rows(2.0, 1.0, -1.0) == 1.0, "the machine may be slow"
    assert 1.0 < rows(50.0, 2.0, -1.0) < rows(50.0, 2.0) < rows(50.0, 2.0, 1.0)


def test_a_stage_whose_tasks_wait_is_not_late():
    """Time that passes while its tasks have no slots would have passed for any plan."""
    world = started(QueryWorld(begin(planned(CHAIN, CHAIN_SIZES))), 4)
    stage = min(world.state.running)
    needed = world.state.running[stage].work.core_seconds
    waiting, _ = step(world.state, 200.0, events.TasksRan(((stage, needed / 2),)))
    waiting, _ = step(waiting, 300.0, events.TimerFired())
    assert waiting.running[stage].done == 1.0
    ran, _ = step(waiting, 305.0, events.TasksRan(((stage, 10 * needed),)))
    later, _ = step(ran, 400.0, events.TimerFired())
    assert later.running[stage].done == ran.running[stage].done > 5.0
    unmeasured = replace(world.state, running={stage: replace(world.state.running[stage], measured=False)})
    assert step(unmeasured, 300.0, events.TimerFired())[0].running[stage].done > 1.0
