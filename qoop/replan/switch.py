"""Whether to leave the running plan for another one (QOOP section 2.3.4), although estimates may be wrong."""

from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from qoop.estimate.estimator import Estimator
from qoop.plans.plan import Plan
from qoop.replan.decision import Candidate, Progress, Rules, evaluate, min_gain_for_switch

DOUBTS = (0.0, 1.0, -1.0)
"""How far estimates may be wrong: as expected, with more rows, with fewer rows."""

PLANNED_SECONDS = 0.1
"""What a plan costs beside its stages: comparing it with the query as written, and writing its text."""

COMPARED = 8
"""How many plans are compared in doubt."""


def plan_to_go_on_with(
    plans: Sequence[Plan],
    estimator: Estimator,
    progress: Progress,
    candidates: Sequence[Candidate],
    current: int,
    slots: float,
    rules: Rules,
) -> int:
    """Choose the fastest plan that is worth a switch as expected, and over the doubts that true row counts have left.

    Of many estimates the lowest is likely to be too low, and that of the present plan is corrected most by what has
    been counted. So a plan that is faster only if the estimates of joins that nobody has counted are right is not
    switched to. `candidates`: all plans as expected.
    """
    now = next(one.seconds for one in candidates if one.plan == current)
    least = min_gain_for_switch(now, rules)
    ranked = sorted(candidates, key=lambda one: (one.seconds, one.plan))
    faster = [one.plan for one in ranked if one.plan != current and now - one.seconds >= least][:COMPARED]
    if not faster:
        return current
    doubted = [evaluate(plans, estimator, progress, slots, rules, (current, *faster), doubt) for doubt in DOUBTS]
    present, *others = ([one.seconds for one in of_plan] for of_plan in zip(*doubted, strict=True))
    return next(
        (plan for plan, seconds in zip(faster, others, strict=True) if saves_in_doubt(present, seconds, rules)), current
    )


def saves_in_doubt(present: Sequence[float], seconds: Sequence[float], rules: Rules) -> bool:
    """Whether a plan saves the fraction `rules.hysteresis` of the present one's time, as the geometric mean.

    `present`, `seconds`: what is left of the present plan and of the other one, at each doubt.
    """
    ratios = [
        log(_within_limits(other + PLANNED_SECONDS) / _within_limits(now))
        for now, other in zip(present, seconds, strict=True)
    ]
    return exp(fmean(ratios)) <= 1.0 - rules.hysteresis


def _within_limits(seconds: float) -> float:
    return min(max(seconds, 1e-3), 1e30)
