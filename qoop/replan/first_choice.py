"""The first plan of a query: in stages, in one piece, or as the user wrote it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from statistics import fmean

from qoop.estimate.estimator import Estimator
from qoop.estimate.guard import PlanTime
from qoop.plans.plan import AS_WRITTEN, Plan
from qoop.replan.decision import Candidate, Progress, Rules, choose, evaluate, min_gain_for_switch
from qoop.replan.events import ExecutorsChanged
from qoop.replan.switch import COMPARED, DOUBTS, PLANNED_SECONDS

PREMIUM = 0.1
"""The fraction of its time that a query may spend on being able to switch: on stages that no estimate asks for.

A shorter query than `Rules.min_gain / PREMIUM` spends nothing: it ends before a switch could save as much.
"""

SHARED_GAIN = 0.3
"""The fraction of its time that a query must be expected to save by storing a grouping that several parts read.

Spark computes such a grouping once too, and what storing it costs beyond that is underestimated: of the TPC-DS queries
that have one, 23 (expected to save 4%) and 64 (18%) take twice as long in stages, 14 (47%) a third longer.
"""

HOPELESS_FACTOR = 4.0
"""A query that is expected to take this many times as long as its planned runs took, and as the best plan is expected
to take, is not tried as written; as many times more as the estimates of its plans were wrong."""

SHARES = (1.0, 0.5, 2.0)
"""Likely shares, as multiples of the present one."""

LEAST_PART, LIKELY = 8.0, 4
"""Executors that are still to come may be as few as one in so many of the share; how many such cases are compared.

Plans for many slots take up to four times as long on few, plans for few up to a fifth longer on many.
"""


def likely_slots(share: float, executors: ExecutorsChanged | None) -> tuple[float, ...]:
    """The slots that a query may have when it begins, those of its share last: other numbers, if executors are to come.

    As long as executors do not report theirs, the share is all that is known of them.
    """
    live = executors.slots if executors is not None else None
    if executors is None or live is None or live >= share:
        return (share,)
    if not executors.may_grow:
        return (live,)
    least = min(live or share, max(share / LEAST_PART, min(1.0, share)))
    return tuple(least * (share / least) ** (place / (LIKELY - 1)) for place in range(LIKELY))


def over_shares(
    plans: Sequence[Plan], estimator: Estimator, candidates: Sequence[Candidate], likely: Sequence[float], rules: Rules
) -> list[Candidate]:
    """The candidates, each with the geometric mean of its seconds over several shares instead of those at one."""
    if len(likely) == 1:
        return list(candidates)
    numbers = [one.plan for one in candidates]
    at_each = [_seconds(plans, estimator, slots, rules, numbers) for slots in likely]
    means = [exp(fmean(map(log, seconds))) for seconds in zip(*at_each, strict=True)]
    return [replace(one, seconds=mean) for one, mean in zip(candidates, means, strict=True)]


def first_plan(
    plans: Sequence[Plan],
    estimator: Estimator,
    candidates: Sequence[Candidate],
    slots: float,
    rules: Rules,
    likely: Sequence[float] = (),
) -> int:
    """Choose the plan to start with, given all candidates as expected; `likely`: the slots that it may have.

    A plan that can be left after a stage is worth a small premium. If no plan would save what a switch must save over
    the query as written, at any likely share and whichever way the estimates are wrong, or if it would cost more than
    the premium on average, the query runs as written. So does one with a grouping that several parts read if it would
    not save `SHARED_GAIN`, unless some plan is forced; and one that is tried as written, unless that is hopeless.

    Plans that were run before are compared by the time that they took. One that was not is started only if it is
    expected to save what a switch must save, even if its estimate is as wrong as theirs were. The guard lets a plan be
    somewhat slower than the query as written, as another one can reuse its stages; one of one stage must be faster.
    """
    written = next((number for number, plan in enumerate(plans) if plan.as_written), None)
    if written is None or rules.force:
        return choose(candidates, None, rules)
    as_written = next(one.seconds for one in candidates if one.plan == written)
    ranked = sorted(candidates, key=lambda one: (one.seconds, one.plan))
    if rules.trial_s is not None:
        wrong = max((max(one.error, 1.0 / one.error) for one in rules.times_at(slots).values()), default=1.0)
        if as_written <= wrong * HOPELESS_FACTOR * max(rules.trial_s, ranked[0].seconds):
            return written
    expected = _expected_first(plans, estimator, ranked, written, likely or (slots,), rules)
    chosen = by_measurement(plans, candidates, expected, slots, rules)
    return written if _was_in_vain(plans[chosen], rules.times_at(slots)) else chosen


def _was_in_vain(plan: Plan, times: Mapping[str, PlanTime]) -> bool:
    """Whether a plan of one stage took at least as long as the query as written."""
    if len(plan.stages()) > 1 or not times.keys() >= {plan.signature, AS_WRITTEN}:
        return False
    return times[plan.signature].seconds >= times[AS_WRITTEN].seconds


def by_measurement(
    plans: Sequence[Plan], candidates: Sequence[Candidate], expected: int, slots: float, rules: Rules
) -> int:
    """The fastest of the plans that were tried, unless the plan that is `expected` to be the best is worth a try.

    If that is the query as written, what it took counts too. Otherwise the guard has compared it with the plans.
    """
    times = rules.times_at(slots)
    took = {number: times[one.signature].seconds for number, one in enumerate(plans) if one.signature in times}
    tried = [number for number in took if not plans[number].as_written]
    if not tried:
        return expected
    fastest = min(tried, key=lambda number: (took[number], number))
    seconds = {one.plan: one.seconds for one in candidates}
    if expected in tried:
        return fastest
    if expected in took:
        return fastest if took[fastest] < took[expected] else expected
    # What was expected of the plans that were tried was wrong by some factors. Each was the best of many estimates, and
    # so is this one, which is therefore likely to be wrong in the same way; the 1 stands for an estimate that is right.
    errors = [log(time.error) for plan, time in times.items() if plan != AS_WRITTEN]
    likely = seconds[expected] * exp(sum(errors) / (len(errors) + 1))
    least = 1.0 - rules.hysteresis
    is_better = seconds[expected] <= least * seconds[fastest] and likely <= least * took[fastest]
    return expected if is_better else fastest


def _expected_first(
    plans: Sequence[Plan],
    estimator: Estimator,
    ranked: Sequence[Candidate],
    written: int,
    likely: Sequence[float],
    rules: Rules,
) -> int:
    """The choice by the estimates alone; `ranked`: all candidates, the fastest first."""
    as_written = next(one.seconds for one in ranked if one.plan == written)
    if plans[written].query.shared_groupings and ranked[0].seconds > (1.0 - SHARED_GAIN) * as_written:
        return written
    limit = ranked[0].seconds * (1.0 + _premium(ranked[0].seconds, rules))
    insured = [one for one in ranked if one.seconds <= limit and len(plans[one.plan].stages()) > 1]
    planned = [one.plan for one in (*insured, *ranked) if one.plan != written]
    compared = list(dict.fromkeys(planned))[:COMPARED]
    if not compared:
        return written
    return compared[0] if _is_worth_it(plans, estimator, compared, written, likely, rules) else written


def _is_worth_it(
    plans: Sequence[Plan],
    estimator: Estimator,
    compared: Sequence[int],
    written: int,
    likely: Sequence[float],
    rules: Rules,
) -> bool:
    """Whether some plan could win, and the first one costs no more than the premium on average over the doubts."""
    could_win, ratios, premiums = False, [], []
    for doubt in DOUBTS:
        doubted = estimator.with_pessimism(doubt) if doubt else estimator
        for slots in dict.fromkeys((*likely, *(slots * share for slots in likely for share in SHARES))):
            now, *others = _seconds(plans, doubted, slots, rules, (written, *compared))
            could_win |= any(now - other - PLANNED_SECONDS >= min_gain_for_switch(now, rules) for other in others)
            if slots in likely:
                ratios.append(log((others[0] + PLANNED_SECONDS) / now))
                premiums.append(log(1.0 + _premium(now, rules)))
    return could_win and fmean(ratios) <= fmean(premiums)


def _premium(seconds: float, rules: Rules) -> float:
    """The fraction of its time that a query of so many seconds may spend on being able to switch."""
    return PREMIUM if PREMIUM * seconds >= rules.min_gain else 0.0


def _seconds(
    plans: Sequence[Plan], estimator: Estimator, slots: float, rules: Rules, numbers: Sequence[int]
) -> list[float]:
    """The seconds of these plans from their start, above 0."""
    found = evaluate(plans, estimator, Progress(frozenset(), {}), slots, rules, numbers)
    return [max(one.seconds, 1e-3) for one in found]
