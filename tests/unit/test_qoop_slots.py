"""What a query believes of its slots: its share, the executors that there are, and what its tasks really do."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from qoop.engine import executors as engine_executors
from qoop.engine.jobs import _covered
from qoop.engine.task_samples import TaskSamples
from qoop.estimate.calibration import Calibration
from qoop.estimate.cost import CostModel, Work
from qoop.parsing.statement import parse_statement
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT
from qoop.replan import commands, events
from qoop.replan.causes import NewExecutors
from qoop.replan.decision import Progress, Rules, evaluate
from qoop.replan.events import ExecutorsChanged
from qoop.replan.first_choice import likely_slots, over_shares
from qoop.replan.machine import step
from qoop.replan.state import State
from tests.property.query_world import TEXTS, Known

LARGE = (30_000_000,) * 6


def begin(executors, share=32.0, rows=LARGE, rules=None):
    """A query that was planned and got its share after these executors were reported; and its commands."""
    known = Known(rows)
    made = plan(parse_statement(TEXTS[0]), known, known.statistics, CutPolicy(), CostModel(), fewer_stages=True)
    state = State(made.plans, made.estimator, made.estimator, rules or Rules())
    state, _ = step(state, 0.0, events.Planned(len(made.plans), made.join_trees))
    if executors is not None:
        state, _ = step(state, 0.0, executors)
    return step(state, 0.0, events.ShareChanged(share, None, "", 0.0))


def decisions(told):
    return [one.decision for one in told if isinstance(one, commands.Note)]


@pytest.mark.parametrize(
    ("executors", "slots"),
    [
        (None, 32.0),
        (ExecutorsChanged(2), 32.0),
        (ExecutorsChanged(2, 2.0), 2.0),
        (ExecutorsChanged(1, 2.0, may_grow=False), 2.0),
        (ExecutorsChanged(64, 64.0), 32.0),
        (ExecutorsChanged(0, 0.0), 32.0),
    ],
)
def test_slots_are_those_of_the_share_and_no_more_than_executors_have(executors, slots):
    state, told = begin(executors)
    assert state.slots == slots and [one.slots for one in decisions(told)] == [slots]


def test_the_plans_are_compared_again_when_the_executors_have_other_slots():
    state, _ = begin(ExecutorsChanged(0, 0.0))
    state, told = step(state, 1.0, ExecutorsChanged(2, 2.0))
    assert [(one.cause, one.slots) for one in decisions(told)] == [(NewExecutors(32.0, 2.0), 2.0)]
    state, told = step(state, 2.0, ExecutorsChanged(3, 3.0))
    assert [(one.cause, one.slots) for one in decisions(told)] == [(NewExecutors(2.0, 3.0), 3.0)]
    state, told = step(state, 3.0, ExecutorsChanged(4, 3.0))
    assert not decisions(told), "as many slots as before"
    state, told = step(state, 4.0, events.ShareChanged(1.0, None, "", 4.0))
    state, told = step(state, 5.0, ExecutorsChanged(4, 4.0))
    assert not decisions(told) and state.slots == 1.0, "the share is less"


def test_time_with_a_share_counts_with_the_slots_that_there_were():
    state, _ = begin(ExecutorsChanged(2, 2.0))
    state, _ = step(state, 10.0, events.TimerFired())
    assert state.usage.mean_slots == 2.0


def test_a_plan_is_no_longer_held_when_executors_have_other_slots():
    state, _ = begin(ExecutorsChanged(2, 2.0))
    state = replace(state, held_until=100.0)
    state, told = step(state, 1.0, ExecutorsChanged(4, 4.0))
    assert state.held_until == 0.0 and decisions(told)


@pytest.mark.parametrize(
    ("share", "executors", "likely"),
    [
        (32.0, None, (32.0,)),
        (32.0, ExecutorsChanged(2), (32.0,)),
        (32.0, ExecutorsChanged(32, 32.0), (32.0,)),
        (1.0, ExecutorsChanged(1, 8.0, may_grow=False), (1.0,)),
        (16.0, ExecutorsChanged(1, 2.0, may_grow=False), (2.0,)),
        (32.0, ExecutorsChanged(0, 0.0), (4.0, 8.0, 16.0, 32.0)),
        (32.0, ExecutorsChanged(20, 20.0), (4.0, 8.0, 16.0, 32.0)),
        (16.0, ExecutorsChanged(1, 1.0), (1.0, 16 ** (1 / 3), 16 ** (2 / 3), 16.0)),
        (2.0, ExecutorsChanged(0, 0.0), (1.0, 2 ** (1 / 3), 2 ** (2 / 3), 2.0)),
    ],
)
def test_the_first_plan_is_for_an_eighth_of_the_share_to_the_share_while_executors_may_come(share, executors, likely):
    assert likely_slots(share, executors) == pytest.approx(likely)


def test_the_first_plan_is_the_best_on_average_over_the_likely_shares():
    """One that is a little faster on all slots, and four times as slow on few, is not it."""
    state, _ = begin(None)
    plans, estimator = state.plans, state.estimator
    found = evaluate(plans, estimator, Progress(frozenset(), {}), 32.0, Rules())
    likely = (4.0, 8.0, 16.0, 32.0)
    means = over_shares(plans, estimator, found, likely, Rules())
    at_each = [evaluate(plans, estimator, Progress(frozenset(), {}), slots, Rules()) for slots in likely]
    for place, one in enumerate(means):
        product = at_each[0][place].seconds
        for others in at_each[1:]:
            product *= others[place].seconds
        assert one.seconds == pytest.approx(product**0.25)
    assert over_shares(plans, estimator, found, (32.0,), Rules()) == found


def test_a_query_begins_with_that_plan():
    """The fastest on 32 slots takes .86 s, another one .93 s; on 4 to 32 slots they take 1.5 and .96 s on average."""
    known = Known((3_000_000, 1000, 1_000_000, 3_000_000, 1000, 500))
    made = plan(parse_statement(TEXTS[0]), known, known.statistics, CutPolicy(), CostModel())
    began = {}
    for executors in (None, ExecutorsChanged(0, 0.0)):
        state = State(made.plans, made.estimator, made.estimator, Rules())
        for event in (events.Planned(len(made.plans), 2), executors, events.ShareChanged(32.0, None, "", 0.0)):
            state, _ = step(state, 0.0, event) if event is not None else (state, ())
        began[executors] = state.current
    found = evaluate(made.plans, made.estimator, Progress(frozenset(), {}), 32.0, Rules())
    means = over_shares(made.plans, made.estimator, found, likely_slots(32.0, ExecutorsChanged(0, 0.0)), Rules())
    fastest = [min(some, key=lambda one: (one.seconds, one.plan)).plan for some in (found, means)]
    assert list(began.values()) == fastest and fastest[0] != fastest[1]


def stage_of(state):
    (stage,) = list(state.running)[:1]
    return stage, state.running[stage]


def ran(state, at, **core_seconds):
    return step(state, at, events.TasksRan(tuple((stage, core_seconds["each"]) for stage in sorted(state.running))))


def test_a_stage_is_not_late_while_its_tasks_wait_for_slots():
    """Told 32 slots while the executors, of which nothing is known, run one task: time says late, tasks do not."""
    state, _ = begin(None)
    state = replace(state, estimator=state.estimator.updated({}, Calibration(stages=9)))
    _, running = stage_of(state)
    at = 50.0 * running.work.seconds(32.0)
    late, _ = step(state, at, events.TimerFired())
    assert all(one.done > 10.0 for one in late.running.values())
    state, told = ran(state, at, each=0.1)
    assert all(one.done < 1.0 for one in state.running.values())
    assert decisions(told), "the plans are compared with that"
    assert not state.counts.switches


def test_a_stage_whose_tasks_need_longer_than_expected_is_late():
    state, _ = begin(None)
    state = replace(state, estimator=state.estimator.updated({}, Calibration(stages=9)))
    stage, running = stage_of(state)
    state, _ = ran(state, 1.0, each=5.0 * running.work.core_seconds)
    assert state.running[stage].done > 3.0 if stage in state.running else state.counts.cancelled


def test_no_stage_is_late_by_its_tasks_while_executors_start_up():
    state, _ = begin(None)
    _, running = stage_of(state)
    state, _ = ran(state, 5.0, each=20.0 * running.work.core_seconds)
    assert all(one.done == 1.0 for one in state.running.values())


def test_tasks_of_a_stage_that_has_ended_are_ignored():
    state, _ = begin(None)
    after, _ = step(state, 1.0, events.TasksRan(((RESULT, 3.0),)))
    assert after.running.keys() == state.running.keys()


def test_the_machine_is_calibrated_by_the_time_in_which_tasks_ran_not_by_the_slots_believed():
    """A second of the driver's in both, and a stage that had 2 slots where 16 were believed."""
    work = Work(8.0, 1.0, 100.0)
    right = Calibration().updated(work, 2.0, 5.0, 8.0)
    assert Calibration().updated(work, 16.0, 5.0, 8.0).fixed_factor > 2.0 * right.fixed_factor
    assert Calibration().updated(work, 16.0, 5.0, 8.0, computing=4.0) == right


def test_time_in_which_tasks_ran():
    assert _covered([(5.0, 7.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.5)]) == 5.0
    assert _covered([]) == 0.0


def test_samples_of_running_tasks_add_up():
    samples = TaskSamples()
    assert samples.add(10.0, {"a": 2}) == {"a": 0.0} and samples.due_at == 11.0
    assert not samples.are_to_report(10.0)
    assert samples.add(11.0, {"a": 2, "b": 1}) == {"a": 2.0, "b": 0.0}
    assert samples.add(13.0, {"a": 3, "b": 1}) == {"a": 8.0, "b": 2.0}
    assert samples.add(14.0, {"b": 1}) == {"b": 3.0}
    assert samples.are_to_report(14.0) and not samples.are_to_report(15.0)


def context(master, slots):
    scala = SimpleNamespace(
        maxNumConcurrentTasks=lambda profile: slots,
        resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=lambda: None),
    )

    class Context:
        def __init__(self):
            self.master, self.defaultParallelism, self._conf = master, 200, {}
            self._jsc, self._jvm = SimpleNamespace(sc=lambda: scala), None

    return Context()


@pytest.mark.parametrize(
    ("master", "told", "slots"),
    [
        ("local[2]", 16.0, 2.0),
        ("local[2]", None, 2.0),
        ("local[8]", 1.0, 1.0),
        ("yarn", 16.0, 16.0),
        ("yarn", None, 200.0),
    ],
)
def test_in_local_mode_a_query_has_no_more_slots_than_the_process(master, told, slots):
    there = context(master, 8 if "8" in master else 2)
    assert engine_executors.slots_within(there, told) == slots


def test_slots_that_spark_does_not_tell_are_as_told():
    broken = context("local[2]", 2)
    broken._jsc = None
    assert engine_executors.slots_within(broken, 16.0) == 16.0
