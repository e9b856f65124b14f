"""The guard: a query whose planned runs were slower than the query as written runs as written, and is measured anew."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.as_written.causes import Measured, SlowerBefore, WrittenBefore
from qoop.as_written.wording import text
from qoop.estimate.guard import MAX_ERROR, Guard, PastRun, PlanTime, Verdict, busy_part
from qoop.plans.plan import AS_WRITTEN

GUARD = Guard(interval=8)
SLOTS = 4.0


def planned(seconds, slots=SLOTS, core_seconds=0.0, cold=False):
    return PastRun(True, seconds, slots, core_seconds, cold)


def written(seconds, slots=SLOTS, core_seconds=0.0, cold=False):
    return PastRun(False, seconds, slots, core_seconds, cold)


def verdict(*runs, slots=SLOTS, cold=False, given_up=frozenset()):
    return GUARD.verdict(runs, slots, cold, given_up)


def test_it_says_why():
    found = verdict(planned(12.1), planned(11.8), written(9.0))
    assert found == Verdict(SlowerBefore((12.1, 11.8), 9.0, 6))


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (planned(12.0),),
        (written(9.0), planned(12.0)),
        (planned(12.0), planned(9.5), written(9.0)),
        (planned(9.5), planned(12.0), written(9.0)),
        (planned(12.0), planned(12.0), planned(9.5), written(9.0)),
        (planned(9.8), planned(9.8), written(9.0)),
    ],
    ids=["none", "one", "one slower", "the last not", "only the last", "the last of three not", "within a tenth"],
)
def test_these_are_planned(runs):
    assert verdict(*runs) is None


def test_an_early_run_as_written_decides_for_it_but_not_against_it():
    """The first runs of an application are slow, so one that was slower than the plans says little."""
    fast, slow, hopeless = (replace(written(seconds), early=True) for seconds in (5.0, 15.0, 30.0))
    plans = planned(12.0), planned(12.0)
    assert "planned again" in text(verdict(fast, *plans).cause)
    assert verdict(slow, *plans) == Verdict(Measured((12.0, 12.0), 15.0, "before-planned"), 1.1 * 12.0)
    assert verdict(written(15.0), *plans) is None
    assert verdict(hopeless, *plans) is None


def test_one_fast_run_as_written_does_not_decide():
    assert verdict(written(12.0), written(12.0), written(5.0), planned(12.0), planned(12.0)) is None


def test_of_many_runs_one_in_eight_is_planned():
    runs, plans = [planned(12.0), planned(12.0), written(9.0)], 0
    for _ in range(80):
        as_written = verdict(*runs) is not None
        plans += not as_written
        runs.append(written(9.0) if as_written else planned(12.0))
    assert plans == 10


def test_the_count_in_the_message_is_right():
    runs = [planned(12.0), planned(12.0), written(9.0)]
    said = []
    while (found := verdict(*runs)) is not None:
        said.append(text(found.cause).rpartition("after ")[2])
        runs.append(written(9.0))
    assert said == [*(f"{left} more runs" for left in (6, 5, 4, 3, 2)), "1 more run"]


def test_a_plan_that_became_fast_is_kept():
    assert verdict(planned(12.0), planned(12.0), written(9.0), planned(6.0)) is None


def test_a_query_that_was_never_run_as_written_is_tried_as_written():
    """For at most a tenth longer than the faster of its plans took."""
    found = verdict(planned(12.0), planned(10.0))
    assert found is not None and found.trial_s == pytest.approx(11.0)
    assert text(found.cause) == "planned runs took 12.0 and 10.0 s; as written, it was not measured yet"


def test_it_is_tried_again_one_run_in_eight():
    runs = [written(12.0), *[planned(10.0)] * 6]
    assert verdict(*runs) is None
    found = verdict(*runs, planned(10.0))
    assert found is not None and found.trial_s is not None


def test_it_is_never_tried_again_if_there_is_no_hope():
    assert verdict(written(21.0), *[planned(10.0)] * 30) is None


def test_a_run_with_a_small_share_is_not_a_slow_plan():
    """At one slot instead of four: the same plan, whose tasks take 36 core seconds."""
    quick, slow = written(10.0, 4.0, 36.0), planned(37.0, 1.0, 36.0)
    assert slow.seconds_at(4.0) == pytest.approx(10.0)
    assert verdict(quick, slow, slow) is None
    assert verdict(quick, replace(slow, slots=4.0), replace(slow, slots=4.0)) is not None


def test_the_times_in_the_message_are_at_the_present_share():
    found = verdict(planned(37.0, 1.0, 36.0), planned(37.0, 1.0, 36.0), written(5.0, 4.0, 16.0), slots=4.0)
    assert found is not None and text(found.cause).startswith("planned runs took 10.0 and 10.0 s, as written 5.0 s")


def test_the_first_query_of_an_application_is_compared_with_such_queries_only():
    runs = (planned(12.0, cold=True), planned(12.0, cold=True), written(9.0))
    assert verdict(*runs, cold=False) is None
    found = verdict(*runs, cold=True)
    assert found is not None and found.trial_s is not None
    assert "as written 9.0 s" in text(verdict(*runs, written(9.0, cold=True), cold=True).cause)


def kept(seconds, slots=SLOTS, cold=False):
    """The two records of a query that was planned, and then ran as written."""
    return PastRun(True, seconds + 0.2, slots, 0.0, cold, kept=True), written(seconds, slots, cold=cold)


def test_a_query_that_was_planned_in_vain_is_not_planned_in_the_next_runs():
    runs, plans = [], 0
    for _ in range(80):
        found = verdict(*runs)
        plans += found is None
        runs += [written(9.0)] if found else kept(9.0)
    assert plans == 10
    said = verdict(*kept(9.0))
    assert said == Verdict(WrittenBefore(7))
    assert verdict(*kept(9.0, cold=True)) == said, "a decision does not depend on what has started"


@pytest.mark.parametrize(("slots", "holds"), [(1.9, False), (2.0, True), (8.0, True), (8.1, False)])
def test_a_decision_holds_for_similar_shares(slots, holds):
    assert (verdict(*kept(9.0, slots=4.0), slots=slots) is not None) == holds


def run_of(plan, seconds, **more):
    return replace(planned(seconds, **more), plan=plan)


def test_a_query_that_was_planned_in_vain_is_planned_if_a_plan_took_less_time_before():
    """What is counted later may make a fast plan look slow."""
    runs = (*kept(20.0), run_of("a", 3.0), *kept(20.0))
    assert verdict(*runs) is None
    assert verdict(*runs, slots=16.0) is None, "the share is another"
    assert verdict(run_of("a", 19.0), *kept(20.0)) is not None, "it is hardly faster"
    assert verdict(run_of("", 3.0), *kept(20.0)) is not None, "no plan ran from start to end"
    assert verdict(run_of("a", 3.0, cold=True), *kept(20.0)) is None
    slow_to_plan = (replace(kept(20.0)[0], seconds=24.0), written(20.0))
    assert verdict(run_of("a", 3.0), *slow_to_plan, *slow_to_plan) is None, "they are no planned runs"


def measured(*runs, cold=False, given_up=frozenset()):
    return {plan: took.seconds for plan, took in GUARD.measured(runs, SLOTS, cold, given_up).items()}


def test_what_each_plan_took():
    a, b = run_of("a", 3.0), run_of("b", 9.0)
    assert measured(a, b, written(5.0), run_of("", 1.0), *kept(7.0)) == {"a": 3.0, "b": 9.0, AS_WRITTEN: 6.0}
    assert measured(*(run_of("a", seconds) for seconds in (90.0, 3.0, 4.0, 5.0))) == {"a": 4.0}
    assert measured(a, run_of("a", 50.0, slots=1.0)) == {"a": 3.0}, "a similar share"
    first = [run_of("a", 8.0, cold=True), run_of("a", 6.0, cold=True), run_of("b", 7.0, cold=True), b]
    assert measured(*first) == {"a": 6.0, "b": 9.0}, "at most what it took as the first"
    assert measured(*first, cold=True) == {"a": 7.0, "b": 7.0}
    assert measured(a, b, cold=True) == {}
    assert measured(a, run_of(AS_WRITTEN, 1.0)) == {"a": 3.0}
    assert measured(a, b, a, given_up={"a"}) == {"b": 9.0}


def test_a_plan_that_was_given_up_is_not_planned_for_again():
    runs = (run_of("a", 5.0), run_of("a", 25.0), *kept(10.0))
    assert verdict(*runs, given_up={"a"}) is not None
    assert verdict(run_of("a", 5.0), *kept(10.0)) is None


def test_the_fastest_plan_counts_although_later_ones_were_slow():
    runs = (run_of("a", 5.0), written(10.0), run_of("b", 25.0), run_of("c", 25.0))
    assert verdict(*runs) is None
    assert verdict(*runs, given_up={"a"}) is not None
    late = verdict(*runs, *[run_of("b", 25.0)] * 7)
    assert late is not None and late.trial_s == pytest.approx(5.5), "a trial ends when that plan would have ended"


def test_what_a_plan_takes_with_other_slots():
    run = replace(run_of("a", 10.0, core_seconds=32.0), slots=4.0)
    (time,) = GUARD.measured([run], SLOTS, cold=False).values()
    assert time == PlanTime(10.0, computing=8.0)
    assert time.at(2.0, SLOTS) == PlanTime(18.0, computing=16.0) and time.at(8.0, SLOTS).seconds == 6.0
    (all_computing,) = GUARD.measured([replace(run, core_seconds=80.0)], SLOTS, cold=False).values()
    assert all_computing.computing == 10.0


def test_whether_a_plan_was_left_the_last_time():
    a, left = run_of("a", 3.0), replace(run_of("a", 5.0), switched=True)
    assert GUARD.measured([a, left], SLOTS, cold=False) == {"a": PlanTime(4.0, switched=True)}
    assert GUARD.measured([left, a], SLOTS, cold=False) == {"a": PlanTime(4.0)}


def test_how_wrong_the_first_estimate_of_a_plan_was():
    runs = [replace(run_of("a", seconds), expected=expected) for seconds, expected in ((6.0, 2.0), (4.0, 4.0))]
    assert GUARD.measured(runs, SLOTS, cold=False) == {"a": PlanTime(5.0, error=3.0)}
    cold = replace(run_of("a", 60.0, cold=True), expected=2.0)
    assert GUARD.measured([cold, *runs], SLOTS, cold=False)["a"].error == 3.0, "not of the first of an application"
    assert GUARD.measured([replace(runs[0], expected=1e-300)], SLOTS, cold=False)["a"].error == MAX_ERROR


def test_only_the_last_decision_counts():
    assert verdict(*kept(9.0), planned(8.0)) is None
    assert verdict(planned(8.0), *kept(9.0)) is not None


def test_what_a_run_as_written_computes_is_known_from_the_last_one():
    runs = (written(10.0, core_seconds=9.0), written(5.0, slots=2.0, core_seconds=8.0), planned(9.0, core_seconds=1.0))
    assert busy_part(runs, cold=False) == pytest.approx(0.8)
    assert busy_part(runs, cold=True) is None
    assert busy_part((planned(9.0, core_seconds=1.0),), cold=False) is None
    assert busy_part((written(1e-200, slots=1e-200, core_seconds=1.0),), cold=False) is None
    assert busy_part((written(1e-200, core_seconds=1e200),), cold=False) is None
    assert busy_part((written(1.0, core_seconds=math.nan),), cold=False) is None


RUN = st.builds(PastRun, st.booleans(), st.floats(0.01, 1e5), st.floats(0.1, 1e4), st.floats(0, 1e9), st.booleans())


@given(st.lists(RUN, max_size=60), st.floats(0.1, 1e4), st.booleans())
def test_only_what_was_slower_twice_is_not_planned(runs, slots, cold):
    found = Guard().verdict(runs, slots, cold)
    if found is not None and found.trial_s is None:
        alike = [run for run in runs if run.cold == cold]
        slow = [run.seconds_at(slots) for run in alike if run.planned][-2:]
        fast = [run.seconds_at(slots) for run in alike if not run.planned]
        assert len(slow) == 2 and min(slow) > 1.1 * min(fast)
    if found is not None and found.trial_s is not None:
        assert found.trial_s > 0


@given(RUN, st.floats(0.1, 1e4))
def test_a_larger_share_never_takes_longer(run, slots):
    assert run.seconds_at(2 * slots) <= run.seconds_at(slots)
    assert run.seconds_at(run.slots) == pytest.approx(run.seconds)
