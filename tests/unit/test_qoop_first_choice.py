"""The query as written as a candidate, plans with fewer stages, and the first choice among them."""

from dataclasses import replace

import pytest

from qoop.as_written.causes import UntypedCause
from qoop.estimate.cost import CostModel
from qoop.estimate.guard import PlanTime
from qoop.parsing.statement import parse_statement
from qoop.planner import Findings, plan
from qoop.plans.candidates import CutPolicy, plan_of
from qoop.plans.plan import AS_WRITTEN, BLOCK_RESULT, RESULT, BlockPlan, BlockShape, Plan, StageId, StageName
from qoop.plans.trees import Leaf, joined, joins
from qoop.replan import first_choice
from qoop.replan.commands import CancelStages, Fail, Finish, Note, RunAsWritten, SetTimer, StartStage
from qoop.replan.decision import Progress, Rules, evaluate
from qoop.replan.events import (
    CannotPlan,
    Planned,
    ShareChanged,
    StageCancelled,
    StageFailed,
    StageFinished,
    TimerFired,
)
from qoop.replan.first_choice import PREMIUM, first_plan
from qoop.replan.machine import step
from qoop.replan.needless_cuts import without_needless_cuts
from qoop.replan.state import State
from qoop.run.journal import QueryJournal
from qoop.run.query_run import QueryRun
from tests.property.query_world import TEXTS, Known

CHAIN = TEXTS[0]
LARGE = [30_000_000] * 6
NOTHING = Progress(frozenset(), {})


def made(text, rows, **more):
    known = Known(rows)
    return plan(
        parse_statement(text), known, known.statistics, CutPolicy(), CostModel(), **{"fewer_stages": True, **more}
    )


def first(planned, slots=4.0, rules=None, **changed):
    """The first choice, after the estimated seconds of some plans were changed."""
    rules = rules or Rules()
    found = evaluate(planned.plans, planned.estimator, NOTHING, slots, rules)
    found = [replace(one, seconds=changed.get(f"plan{one.plan}", one.seconds)) for one in found]
    return planned.plans[first_plan(planned.plans, planned.estimator, found, slots, rules)]


def test_the_query_as_written_is_the_last_candidate_and_one_stage_without_inputs():
    planned = made(CHAIN, LARGE)
    *others, written = planned.plans
    assert written.as_written and not any(plan.as_written for plan in others)
    stored = frozenset(stage for plan in others for stage in plan.stages() if stage != RESULT)
    assert stored
    assert written.stages(stored) == {RESULT: frozenset()}
    assert not written.reused(stored)


def test_rows_that_earlier_runs_counted_replace_estimates():
    large, unknown = StageName("qoop_result", ("a", "b")), StageName("gone", ("a", "b"))
    without, known = made(CHAIN, LARGE), made(CHAIN, LARGE, findings=Findings({large: 5e10, unknown: 1.0}))
    query, joined = known.text.query, StageId("qoop_result", 0b11)
    assert query.name_of(joined) == large and query.stage_of(large) == joined
    assert known.estimator.counted == {joined: 5e10} and known.estimator.stage_rows(joined) == 5e10
    trees = [first(one).block_plans["qoop_result"].joins for one in (without, known)]
    assert joined.relations in trees[0] and joined.relations not in trees[1]


@pytest.mark.parametrize("name", [("gone", ()), ("gone", ("a",)), ("qoop_result", ("a", "gone"))])
def test_a_stage_that_a_query_does_not_have(name):
    assert made(CHAIN, LARGE).text.query.stage_of(StageName(*name)) is None


def test_the_result_of_a_block_has_a_name():
    query = made(CHAIN, LARGE).text.query
    assert query.stage_of(query.name_of(RESULT)) == RESULT


def test_there_are_plans_in_one_piece_cut_once_and_cut_everywhere():
    planned = made(CHAIN, LARGE)
    shape = frozenset(join.relations for join in joins(planned.plans[0].block_plans["qoop_result"].tree))
    cuts = {
        len(plan.block_plans["qoop_result"].cuts)
        for plan in planned.plans
        if not plan.as_written and shape == frozenset(plan.block_plans["qoop_result"].joins)
    }
    assert {0, 1, len(shape) - 1} <= cuts


def test_the_cut_is_where_the_doubt_is_largest():
    planned = made("SELECT a.x FROM a, b, c, d, e WHERE a.k = b.k AND b.x = c.x AND c.k = d.k AND d.k = e.k", LARGE)
    whole = planned.plans[0].block_plans["qoop_result"]
    rows = planned.estimator.rows["qoop_result"]
    (once,) = (
        plan.block_plans["qoop_result"].cuts
        for plan in planned.plans
        if plan.block_plans["qoop_result"].tree is whole.tree and len(plan.block_plans["qoop_result"].cuts) == 1
    )
    (cut,) = once
    assert rows.uncertainty(cut) == max(rows.uncertainty(other) for other in whole.cuts)


def seconds(planned, plan, slots=4.0):
    (found,) = evaluate([plan], planned.estimator, NOTHING, slots, Rules())
    return found.seconds


def test_stages_that_cost_more_than_they_save_are_merged():
    """After the two large tables only a few rows are left: cuts above them save nothing."""
    planned = made(CHAIN, [30_000_000, 20_000_000, 100_000, 100_000, 10, 10], fewer_stages=False)
    cut = max(planned.plans, key=lambda plan: len(plan.stages()))
    fewer = without_needless_cuts(cut, planned.estimator)
    assert len(fewer.stages()) < len(cut.stages())
    assert seconds(planned, fewer) <= seconds(planned, cut)
    assert {name: part.tree for name, part in fewer.block_plans.items()} == {
        name: part.tree for name, part in cut.block_plans.items()
    }


def test_a_stage_whose_size_spark_must_know_stays():
    """Its small output is broadcast to a table of many rows; computed in one piece, both would be shuffled."""
    text = "SELECT a.x FROM a, b, c WHERE a.k = b.k AND b.m = c.m AND a.x = 1"
    planned = made(text, [2_000_000, 2_000_000, 300_000_000, 10, 10, 10], fewer_stages=False)
    cut = next(plan for plan in planned.plans if len(plan.stages()) > 1)
    assert without_needless_cuts(cut, planned.estimator).stages() == cut.stages()


def test_without_the_option_plans_are_cut_as_the_policy_says():
    assert not any(plan.as_written for plan in made(CHAIN, LARGE, fewer_stages=False).plans)


def test_a_query_whose_plans_win_nothing_runs_as_written():
    assert first(made(CHAIN, [1000] * 6)).as_written
    small_dimensions = [30_000_000, 10, 10, 10, 10, 10]
    assert first(made("SELECT a.x FROM a, b, c WHERE a.k = b.k AND a.m = c.k", small_dimensions)).as_written


def test_a_query_with_a_grouping_that_is_read_twice_must_be_expected_to_save_much():
    text = "WITH v AS (SELECT a.k, sum(b.x) AS s FROM a JOIN b ON a.x = b.x JOIN c ON a.k = c.k GROUP BY a.k)"
    rows = [1_000_000, 1_000_000, 10, 10, 10, 10]

    def runs_as_written(query, seconds_as_written):
        planned = made(f"{text} {query}", rows)
        times = {f"plan{number}": 20.0 for number in range(len(planned.plans))}
        times |= {f"plan{len(planned.plans) - 1}": seconds_as_written, "plan0": 7.0}
        return first(planned, **times).as_written

    assert not runs_as_written("SELECT v.s FROM v", 9.9)
    assert runs_as_written("SELECT v.s FROM v, v w WHERE v.k = w.k", 9.9)
    assert not runs_as_written("SELECT v.s FROM v, v w WHERE v.k = w.k", 10.1)


BAD_ORDER = ("SELECT a.k FROM a JOIN b ON a.x = b.x JOIN c ON a.k = c.k", [1_000_000, 1_000_000, 10, 10, 10, 10])


def test_a_bad_order_of_the_text_is_not_run_as_written():
    assert not first(made(*BAD_ORDER)).as_written


def test_a_plan_with_stages_is_chosen_if_it_costs_no_more_than_the_premium():
    planned = made("SELECT a.x FROM a, b, c, d WHERE a.x = b.x AND b.m = c.m AND c.k = d.k", LARGE)
    piece, staged = (
        next(number for number, plan in enumerate(planned.plans) if (len(plan.stages()) > 1) == several)
        for several in (False, True)
    )

    def stages(seconds, factor):
        """Those of the first plan, if all others take longer than one in one piece and one with stages."""
        others = {f"plan{number}": 10 * seconds for number in range(len(planned.plans))}
        chosen = first(planned, **{**others, f"plan{piece}": seconds, f"plan{staged}": seconds * factor})
        return len(chosen.stages())

    assert stages(10.0, 1 + PREMIUM) > 1
    assert stages(10.0, 1.11) == 1
    assert stages(1.0, 1.01) == 1, "it would end before a switch could save what it must"
    assert stages(1.0, 0.99) > 1


def test_a_query_without_another_plan_runs_as_written():
    """All others may be ruinous."""
    planned = made(CHAIN, LARGE)
    assert first(replace(planned, plans=planned.plans[-1:])).as_written


def test_a_forced_mode_never_runs_a_query_as_written():
    planned = made(CHAIN, [1000] * 6)
    assert first(planned).as_written
    assert not first(planned, rules=Rules(force=True), plan0=0.001).as_written


@pytest.mark.parametrize(
    "readers",
    [
        "SELECT v.x FROM v, c WHERE v.k = c.k UNION ALL SELECT v.x FROM v, d WHERE v.k = d.k",
        "SELECT x FROM (SELECT sum(x) AS x FROM v UNION ALL SELECT max(x) AS x FROM v)",
    ],
    ids=["in two blocks", "in one"],
)
@pytest.mark.parametrize(("grouped", "times"), [("", 2), (" GROUP BY a.k, b.x", 1)])
def test_as_written_spark_computes_a_join_for_each_reader_and_a_grouping_once(grouped, times, readers):
    text = f"WITH v AS (SELECT a.k, b.x FROM a, b WHERE a.k = b.k{grouped}) {readers}"
    written = made(text, LARGE).plans[-1]
    assert written.as_written
    blocks = [fragment.block for fragment in written.content(RESULT).fragments]
    assert blocks.count("qoop_v") == times


def test_as_written_spark_computes_a_join_as_often_as_a_union_reads_it():
    branches = " UNION ALL ".join(f"SELECT {how}(x) AS x FROM v" for how in ("sum", "max", "min"))
    written = made(f"WITH v AS (SELECT a.k, b.x FROM a, b WHERE a.k = b.k) SELECT x FROM ({branches})", LARGE).plans[-1]
    assert [fragment.block for fragment in written.content(RESULT).fragments].count("qoop_v") == 3


def test_a_running_query_as_written_serves_no_other_plan():
    *_, other, written = made(CHAIN, LARGE).plans
    assert not written.computes_same(other, RESULT) and not other.computes_same(written, RESULT)
    assert written.computes_same(written, RESULT)
    assert written.computes_same(other, StageId("qoop_result", 0b11)), "a join of the same relations"
    assert RESULT.relations == BLOCK_RESULT


def started(planned, event):
    """The commands after the query as written was started and an event."""
    state = State(planned.plans, planned.estimator, planned.estimator, Rules())
    state, _ = step(state, 0.0, Planned(len(planned.plans), planned.join_trees))
    state, commands = step(state, 0.0, ShareChanged(4.0, None, "start", 0.0))
    (start,) = [command for command in commands if isinstance(command, StartStage)]
    assert planned.plans[start.plan].as_written and (start.stage, start.inputs) == (RESULT, ())
    return step(state, 1.0, event)


def test_the_query_as_written_ends_like_any_plan():
    state, _ = started(made(CHAIN, [1000] * 6), StageFinished(RESULT, 1.0, 0.0, 1.0, 1.0))
    assert state.phase == "done"


def test_an_error_of_the_query_as_written_is_not_tried_again():
    planned = made(CHAIN, [1000] * 6)
    state, commands = started(planned, StageFailed(RESULT, "DIVIDE_BY_ZERO", retry=False))
    assert state.phase == "failed"
    assert [type(command) for command in commands] == [Fail]
    state, commands = started(planned, StageFailed(RESULT, "ExecutorLostFailure", retry=True))
    assert state.phase == "running" and not any(isinstance(command, RunAsWritten) for command in commands)


def on_trial(seconds):
    """The state of a query that is tried as written for so long, and the commands that start it."""
    planned = made(*BAD_ORDER)
    state = State(planned.plans, planned.estimator, planned.estimator, Rules(trial_s=seconds, measured_slots=4.0))
    state, _ = step(state, 100.0, Planned(len(planned.plans), planned.join_trees))
    return step(state, 100.0, ShareChanged(4.0, None, "", 0.0))


def test_a_query_on_trial_starts_as_written_although_a_plan_is_expected_to_win():
    state, commands = on_trial(60.0)
    assert [state.plans[one.plan].as_written for one in commands if isinstance(one, StartStage)] == [True]
    assert [one.decision.won_by for one in commands if isinstance(one, Note)] == ["trial"]


def test_a_trial_of_what_is_expected_to_take_many_times_the_time_of_a_plan_is_not_begun(monkeypatch):
    # Much longer than its planned runs took is not enough: estimates may be too large for all plans.
    state, commands = on_trial(0.01)
    assert [state.plans[one.plan].as_written for one in commands if isinstance(one, StartStage)] == [True]
    monkeypatch.setattr(first_choice, "HOPELESS_FACTOR", 1.2)
    state, commands = on_trial(0.01)
    assert not any(state.plans[one.plan].as_written for one in commands if isinstance(one, StartStage))
    assert [one.decision.won_by for one in commands if isinstance(one, Note)] == ["first"]
    assert state.rules.trial_s is None
    _, state, _ = run_before(0.01, trial_s=0.01, error=4.0)
    assert state.plans[state.current].as_written, "estimates were wrong"


def test_a_trial_is_left_when_it_ends_not_at_the_next_check():
    _, commands = on_trial(62.0)
    assert SetTimer(105.0) in commands
    state, _ = on_trial(62.0)
    _, commands = step(state, 160.0, TimerFired())
    assert SetTimer(162.0) in commands
    state, _ = step(state, 160.0, TimerFired())
    state, commands = step(state, 162.0, TimerFired())
    assert any(isinstance(one, CancelStages) for one in commands)
    assert state.rules.trial_s is None


def test_during_a_trial_nothing_is_decided_and_then_a_plan_replaces_what_takes_too_long():
    state, _ = on_trial(60.0)
    for event in (TimerFired(), ShareChanged(2.0, None, "", 0.0), TimerFired()):
        state, commands = step(state, 120.0, event)
        assert not any(isinstance(one, Note | CancelStages) for one in commands)
    state, commands = step(state, 161.0, TimerFired())
    assert any(isinstance(one, CancelStages) for one in commands)
    assert not state.plans[state.current].as_written


def test_what_a_query_used_is_known_at_its_end():
    state, _ = on_trial(60.0)
    state, _ = step(state, 130.0, ShareChanged(2.0, None, "", 0.0))
    state, _ = step(state, 140.0, StageFinished(RESULT, 1.0, 0.0, 40.0, 55.0))
    assert state.phase == "done"
    assert state.usage.mean_slots == pytest.approx((30 * 4 + 10 * 2) / 40)
    assert state.usage.core_seconds == 55.0
    assert state.usage.using(None).core_seconds is None is state.usage.using(None).using(1.0).core_seconds


def signatures(planned):
    return [plan.signature for plan in planned.plans]


def test_plans_have_signatures_of_their_own_that_stay():
    found = signatures(made(*BAD_ORDER))
    assert len(set(found)) == len(found) > 3 and found[-1] == AS_WRITTEN
    assert found == signatures(made(*BAD_ORDER))
    once = made("SELECT a.x FROM a JOIN b ON a.k = b.k", LARGE)
    assert once.plans[0].signature == "5579f292cc730fd0", "records of earlier versions hold"


def choose(measured, best=10.0, other=20.0, written=60.0, error=1.0):
    """Which of three plans is the first: the best by the estimates, another one, or the query as written.

    All times are given: those of earlier runs, and what is expected.
    """
    planned = made(*BAD_ORDER)
    rules = Rules()
    numbers = range(len(planned.plans))
    found = evaluate(planned.plans, planned.estimator, NOTHING, 4.0, rules)
    names = {"best": first_plan(planned.plans, planned.estimator, found, 4.0, rules), "written": numbers[-1]}
    names["other"] = next(number for number in numbers if number not in names.values())
    expected = {f"plan{number}": 100.0 for number in numbers}
    expected |= {
        f"plan{names[name]}": given for name, given in (("best", best), ("other", other), ("written", written))
    }
    known = {planned.plans[names[name]].signature: PlanTime(seconds, error) for name, seconds in measured.items()}
    chosen = first(planned, rules=replace(rules, measured=known, measured_slots=4.0), **expected)
    return next(name for name, number in names.items() if planned.plans[number] is chosen)


def test_of_plans_that_were_tried_the_one_that_took_less_time_is_chosen_whatever_is_expected():
    assert choose({}) == "best"
    assert choose({"best": 30.0, "other": 12.0}) == "other"
    assert choose({"best": 11.0, "other": 12.0}) == "best"
    assert choose({"best": 30.0, "other": 12.0, "written": 5.0}) == "other", "the guard decides what runs as written"


def test_a_plan_that_was_not_tried_must_be_expected_to_save_something_also_if_its_estimate_is_as_wrong():
    assert choose({"other": 20.0}, best=16.0) == "best"
    assert choose({"other": 20.0}, best=18.0) == "other", "not by the estimates of today"
    assert choose({"other": 12.0}, best=16.0) == "other", "not by what the other one took"
    assert choose({"other": 20.0}, best=16.0, error=1.1) == "best"
    assert choose({"other": 20.0}, best=16.0, error=1.5) == "other"
    assert choose({"other": 80.0}, best=16.0, error=8.0) == "best", "the other one took long"
    assert choose({"other": 20.0, "written": 10.0}, best=16.0) == "best", "the guard decides what runs as written"


@pytest.mark.parametrize(("written", "in_one_piece"), [(9.9, "written"), (10.0, "written"), (10.1, "plan")])
def test_a_plan_of_one_stage_must_have_been_faster_than_the_query_as_written(written, in_one_piece):
    planned = made(*BAD_ORDER)
    whole = next(one for one in planned.plans if len(one.stages()) == 1)
    cut = next(one for one in planned.plans if len(one.stages()) > 1)
    for best, chosen in ((whole, in_one_piece), (cut, "plan")):
        known = {best.signature: PlanTime(10.0), AS_WRITTEN: PlanTime(written)}
        expected = {f"plan{number}": 10.0 if one is best else 100.0 for number, one in enumerate(planned.plans)}
        found = first(planned, rules=Rules(measured=known, measured_slots=4.0), **expected)
        assert found is (planned.plans[-1] if chosen == "written" else best)


def test_a_query_is_not_planned_in_vain_if_a_plan_took_less_time():
    """The query as written is expected to be the fastest."""
    assert choose({"other": 12.0}, best=55.0, other=58.0, written=50.0) == "other", "not by much"
    assert choose({"other": 60.0}, best=155.0, other=158.0, written=50.0) == "written"
    assert choose({"other": 12.0, "written": 60.0}, best=155.0, other=158.0, written=50.0) == "other"
    assert choose({"other": 12.0, "written": 11.5}, best=155.0, other=158.0, written=50.0) == "written"


def run_before(seconds, switched=False, slots=4.0, computing=0.0, error=1.0, **more):
    """The state of a query whose plan took so long in an earlier run, and the commands that start it."""
    planned = made(*BAD_ORDER)
    found = evaluate(planned.plans, planned.estimator, NOTHING, 4.0, Rules())
    slowest = max(found[:-1], key=lambda one: one.seconds).plan
    took = {plan.signature: PlanTime(2.0 * seconds) for plan in planned.plans[:-1]}
    rules = Rules(
        measured=took | {planned.plans[slowest].signature: PlanTime(seconds, error, switched, computing)},
        measured_slots=4.0,
        **more,
    )
    state = State(planned.plans, planned.estimator, planned.estimator, rules)
    state, _ = step(state, 100.0, Planned(len(planned.plans), planned.join_trees))
    return slowest, *step(state, 100.0, ShareChanged(slots, None, "", 0.0))


def test_a_plan_is_held_as_long_as_it_took_before():
    slowest, state, commands = run_before(20.0)
    assert [(one.decision.plan, one.decision.won_by) for one in commands if isinstance(one, Note)] == [
        (slowest, "earlier runs")
    ]
    for at, due in ((105.0, 110.0), (110.0, 115.0), (119.0, 122.0)):
        state, commands = step(state, at, TimerFired())
        assert commands == (SetTimer(due),)
    state, commands = step(state, 122.0, TimerFired())
    assert any(isinstance(one, Note) for one in commands), "from then on it is compared with the others"


def test_a_plan_is_held_as_long_as_it_takes_at_the_present_share():
    assert run_before(20.0, computing=16.0, slots=2.0)[1].held_until == pytest.approx(100.0 + 1.1 * 36.0)
    assert run_before(20.0, computing=16.0, slots=8.0)[1].held_until == pytest.approx(100.0 + 1.1 * 12.0)


def test_a_plan_that_replaces_a_trial_is_the_one_that_took_less_time_before_and_is_held():
    slowest, state, _ = run_before(20.0, trial_s=60.0)
    assert state.plans[state.current].as_written
    state, commands = step(state, 161.0, TimerFired())
    (note,) = (one.decision for one in commands if isinstance(one, Note))
    assert (note.plan, note.won_by, state.held_until) == (slowest, "late trial", 161.0 + 22.0)


def test_a_plan_that_was_left_before_is_not_held():
    _, state, _ = run_before(20.0, switched=True)
    _, commands = step(state, 105.0, TimerFired())
    assert any(isinstance(one, Note) for one in commands)


def test_times_at_another_share_say_nothing():
    _, state, commands = run_before(20.0, slots=9.0)
    (note,) = (one.decision for one in commands if isinstance(one, Note))
    assert (note.won_by, state.held_until) == ("first", 0.0)


def test_a_query_that_runs_as_written_is_not_started_again_when_plans_are_given_up():
    _, state, _ = run_before(20.0, trial_s=60.0)
    assert state.plans[state.current].as_written
    state, commands = step(state, 105.0, CannotPlan(UntypedCause("outputs take too much")))
    assert (state.phase, commands) == ("as written", ())
    state, commands = step(state, 120.0, StageFinished(RESULT, 1.0, 0.0, 20.0, 20.0))
    assert state.phase == "done" and [type(one) for one in commands] == [Finish]


@pytest.mark.parametrize(("event", "again"), [(TimerFired(), False), (StageCancelled(RESULT), True)])
def test_a_query_that_runs_as_written_survives_a_planner_failure(event, again):
    _, state, _ = run_before(20.0, trial_s=60.0)
    run = QueryRun("q", "SELECT 1", None, None, Rules(), QueryJournal(None))
    run._latest = event
    state, commands = run._give_up_planning(state, KeyError("a defect"))
    assert state.phase == "as written" and any(isinstance(one, RunAsWritten) for one in commands) == again


def test_there_is_no_trial_at_another_share():
    _, state, _ = run_before(20.0, slots=9.0, trial_s=60.0)
    assert not state.plans[state.current].as_written
    _, state, _ = run_before(20.0, trial_s=60.0)
    state, _ = step(state, 105.0, ShareChanged(9.0, None, "", 0.0))
    assert state.rules.trial_s is None


def test_a_trial_that_is_being_cancelled_is_started_again_when_plans_are_given_up():
    """Nothing else would compute the result."""
    _, state, _ = run_before(20.0, trial_s=60.0)
    state, commands = step(state, 161.0, TimerFired())
    assert CancelStages((RESULT,)) in commands and state.phase == "switching"
    state, commands = step(state, 161.1, CannotPlan(UntypedCause("outputs take too much")))
    assert state.phase == "as written" and any(isinstance(one, RunAsWritten) for one in commands)


def test_plans_that_were_given_up_are_no_candidates():
    planned = made(*BAD_ORDER)
    first_one = planned.plans[0].signature
    for shapes in ((), (planned.plans[0].shape,)):
        known = Findings(tried=shapes, given_up=frozenset({first_one}))
        assert signatures(made(*BAD_ORDER, findings=known)) == signatures(planned)[1:]
    every = Findings(given_up=frozenset(signatures(planned)))
    assert signatures(made(*BAD_ORDER, findings=every)) == signatures(planned), "none is left"


def test_a_plan_is_held_only_at_that_share():
    _, state, _ = run_before(20.0)
    _, commands = step(state, 105.0, ShareChanged(2.0, None, "", 0.0))
    assert any(isinstance(one, Note) for one in commands)


def test_a_plan_of_an_earlier_run_is_a_candidate_again():
    known = made(*BAD_ORDER)
    *others, _ = known.plans
    assert all(plan_of(known.text.query, one.shape).key == one.key for one in others)
    assert signatures(made(*BAD_ORDER, findings=Findings(tried=(others[0].shape,)))) == signatures(known), (
        "it is one already"
    )
    tree = joined(joined(Leaf(0b100), Leaf(0b10)), Leaf(0b1))
    other = Plan(known.text.query, {"qoop_result": BlockPlan(tree, frozenset({0b110}))})
    assert other.signature not in signatures(known)
    again = made(*BAD_ORDER, findings=Findings(tried=(other.shape,)))
    assert again.plans[-2].key == other.key and again.plans[-1].as_written


SHAPE = BlockShape("qoop_result", (("a", "b"), ("a", "b", "c")), (("a", "b"),))


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (SHAPE._replace(block="gone"),),
        (SHAPE._replace(joins=(("a", "gone"), ("a", "b", "c"))),),
        (SHAPE._replace(joins=(("a", "b", "c"),)),),
        (SHAPE._replace(joins=(("a", "b"), ("b", "c"))),),
        (SHAPE._replace(joins=(("a", "b"),)),),
        (SHAPE._replace(joins=()),),
        (SHAPE._replace(cuts=(("b", "c"),)),),
        (SHAPE._replace(cuts=(("a", "b", "c"),)),),
    ],
    ids=[
        "no block",
        "another block",
        "another alias",
        "a gap",
        "overlap",
        "a part",
        "no join",
        "no such cut",
        "all cut",
    ],
)
def test_what_is_no_plan_of_the_query_is_ignored(shape):
    planned = made(*BAD_ORDER)
    assert plan_of(planned.text.query, (SHAPE,)) is not None
    assert plan_of(planned.text.query, shape) is None
    assert signatures(made(*BAD_ORDER, findings=Findings(tried=(shape,)))) == signatures(planned)
