"""What a run adds to what is known of its query, and what the next run makes of that."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from qoop.as_written.causes import WrittenBefore
from qoop.estimate.guard import Guard
from qoop.estimate.speed import Line
from qoop.plans.plan import AS_WRITTEN, StageName
from qoop.replan.causes import PlansMade
from qoop.replan.decision import Decision
from qoop.replan.state import QueryCounts, Usage
from qoop.run.earlier_runs import EarlierRuns, Run
from qoop.run.past_runs import Past
from qoop.run.query_run import Outcome
from qoop.run.runs_here import RunsHere

STAGED = SimpleNamespace(as_written=False, signature="s1", shape=("staged",))
WRITTEN = SimpleNamespace(as_written=True, signature=AS_WRITTEN, shape=())
PLANNED = SimpleNamespace(plans=(STAGED, WRITTEN), moment=None)


def chose(plan, won_by="estimate"):
    return Decision(PlansMade(2, 1), 4.0, None, plan, (3.0, 9.0), (), (), (), (), won_by, plan)


def outcome(*chosen, seconds=10.0, as_written=False, cores=20.0, **more):
    usage = Usage(seconds, 4.0 * seconds, cores)
    return Outcome(QueryCounts(), 1, seconds, None, chosen, as_written=as_written, usage=usage, **more)


STAGES = Run(outcome(chose(0)), PLANNED, 0.5, on_trial=False)
IN_VAIN = Run(outcome(chose(1), as_written=True), PLANNED, 0.5, on_trial=False)
GATED = Run(outcome(as_written=True), None, None, on_trial=False)


class Record:
    """A record in memory."""

    def __init__(self):
        self.past = Past()

    def read(self):
        return self.past

    def add(self, runs, counted, plans=(), given_up=frozenset()):
        past = self.past
        self.past = Past(
            (*past.runs, *runs), {**past.counted, **counted}, {**past.plans, **dict(plans)}, past.given_up | given_up
        )


@pytest.fixture
def record():
    return Record()


@pytest.fixture
def earlier(record):
    """Begins a run of the query in this process; returns what is known, and why it is not planned."""
    here = RunsHere()

    def begin(slots=4.0, is_fixed=True, guard=Guard(), keeps_rows=True):  # noqa: B008 - it is frozen
        known = EarlierRuns(guard, here, 7, slots, is_fixed)
        return known, known.consult(record, keeps_rows)

    return begin


def test_a_run_is_known_to_the_next_one(earlier, record):
    for _ in range(2):
        known, reason = earlier()
        assert reason is None
        known.add(replace(STAGES, outcome=replace(STAGES.outcome, stage_rows={StageName("b", ()): 5.0})), True)
    known, _ = earlier()
    assert known.findings.counted == {StageName("b", ()): 5.0}
    assert known.findings.tried == (("staged",),)
    assert known.measured["s1"].seconds == 10.5, "with planning"
    assert [(run.planned, run.cold) for run in record.past.runs] == [(True, True), (True, False)]


def test_what_was_expected_is_kept_at_nominal_speed(record):
    known = EarlierRuns(Guard(), RunsHere(), 7, 4.0, is_fixed=True, line=Line(2.0, 5.0))
    known.consult(record, True)
    for _ in range(2):
        known.add(replace(STAGES, factor=6.0), True)
    assert [run.expected for run in record.past.runs] == [0.5, 0.5], "3 s at a sixth of the speed"
    known.consult(record, True)
    assert known.measured["s1"].error == pytest.approx(10.0 / (2.0 + 5.0 * 0.5), rel=0.1)


def test_beside_other_jobs_only_rows_are_known(earlier, record):
    known, _ = earlier()
    known.add(replace(STAGES, outcome=replace(STAGES.outcome, stage_rows={StageName("b", ()): 5.0})), False)
    assert record.past.runs == () and record.past.counted


@pytest.mark.parametrize(("moment", "keeps_rows"), [("now", True), (None, False)])
def test_rows_that_may_be_others_next_time_are_not_kept(earlier, record, moment, keeps_rows):
    known, _ = earlier(keeps_rows=keeps_rows)
    planned = SimpleNamespace(plans=PLANNED.plans, moment=moment)
    counted = replace(STAGES.outcome, stage_rows={StageName("b", ()): 5.0})
    known.add(replace(STAGES, outcome=counted, planned=planned), True)
    assert not record.past.counted and record.past.runs


def test_what_was_planned_in_vain_is_not_planned_again_where_the_share_is_fixed(earlier):
    known, _ = earlier()
    known.add(IN_VAIN, True)
    known, reason = earlier()
    assert isinstance(reason, WrittenBefore)
    assert earlier(slots=1.0)[1] is None


def test_it_is_planned_again_where_the_share_may_change(earlier):
    known, _ = earlier(is_fixed=False)
    known.add(IN_VAIN, True)
    assert earlier(is_fixed=False)[1] is None


def test_after_two_planned_runs_it_is_tried_as_written(earlier, record):
    for _ in range(3):
        known, reason = earlier()
        known.add(STAGES, True)
    known, reason = earlier()
    assert reason is None and known.trial.trial_s == pytest.approx(1.1 * 10.5)
    known.add(Run(outcome(chose(1), seconds=8.0, as_written=True), PLANNED, 0.5, on_trial=True), True)
    assert (record.past.runs[-1].planned, record.past.runs[-1].seconds) == (False, 8.0)


def test_a_trial_that_was_late_counts_as_a_run_as_written(earlier, record):
    known, _ = earlier()
    late = outcome(chose(1), chose(0, "late trial"), seconds=30.0)
    known.add(Run(late, PLANNED, 0.5, on_trial=True), True)
    assert [(run.planned, run.seconds) for run in record.past.runs] == [(False, 30.0)]


def test_a_trial_of_plans_that_were_given_up_says_nothing_of_the_query_as_written(earlier, record):
    known, _ = earlier()
    late = outcome(chose(1), chose(0, "late trial"), seconds=30.0, given_up=True, stopped_planning=True)
    known.add(Run(late, PLANNED, 0.5, on_trial=True), True)
    assert [run.planned for run in record.past.runs] == [True]
    assert record.past.given_up == {"s1"}
    assert earlier()[0].findings.given_up == {"s1"}


def test_what_a_short_query_takes_is_known_to_the_gate_from_its_second_run_on(earlier):
    for seconds in (None, None, 10.0):
        known, _ = earlier()
        assert known.seconds == seconds
        known.add(GATED, True)


def test_it_is_not_asked_for_again_at_once_after_it_was_planned_in_vain(earlier):
    for _ in range(2):
        earlier()[0].add(IN_VAIN, True)
    assert earlier()[0].seconds is None


def test_without_a_guard_nothing_is_compared(earlier, record):
    known, reason = earlier(guard=None)
    assert (known.seconds, reason, known.needs_core_seconds) == (None, None, False)


def test_a_plan_that_took_too_long_is_not_run_again(earlier, record):
    known, _ = earlier()
    known.add_late(replace(STAGES, is_late=True))
    known, _ = earlier()
    assert known.findings.given_up == {"s1"}
    assert record.past.runs == (), "it would have taken longer"
    known.add_late(replace(IN_VAIN, is_late=True))
    assert earlier()[0].findings.given_up == {"s1"}


def test_what_ran_over_other_amounts_of_data_says_nothing(earlier):
    for _ in range(2):
        known, _ = earlier()
        known.reads([1e6, 2e6])
        known.add(GATED, True)
    for sizes, seconds in (([2e6, 2e6], 10.0), ([2e7], None), ([2e7, None], 10.0)):
        known, _ = earlier()
        known.reads(sizes)
        assert known.seconds == seconds
