"""Plans without the stages that cost more than they save."""

from collections.abc import Sequence
from dataclasses import replace

from qoop.estimate.estimator import Estimator
from qoop.plans.plan import Plan
from qoop.replan.decision import Progress, Rules, evaluate

SLOTS = 4.0
"""The share for which cuts are judged: plans are made before a query knows its share."""


def fastest_in_stages(plans: Sequence[Plan], estimator: Estimator, most: int) -> list[Plan]:
    """The plans with several stages that are expected to finish first."""
    found = [(_seconds(plan, estimator), place) for place, plan in enumerate(plans) if len(plan.stages()) > 1]
    return [plans[place] for _, place in sorted(found)[:most]]


def without_needless_cuts(plan: Plan, estimator: Estimator) -> Plan:
    """The plan without each cut, larger sets first, that it is expected to be as fast without.

    What a cut saves: Spark knows the size of what it reads next. What it costs: the stage's fixed time and its output.
    """
    now = _seconds(plan, estimator)
    for block, part in plan.block_plans.items():
        for cut in sorted(part.cuts, reverse=True):
            fewer = replace(part, cuts=plan.block_plans[block].cuts - {cut})
            other = Plan(plan.query, {**plan.block_plans, block: fewer})
            if (seconds := _seconds(other, estimator)) <= now:
                plan, now = other, seconds
    return plan


def _seconds(plan: Plan, estimator: Estimator) -> float:
    (found,) = evaluate([plan], estimator, Progress(frozenset(), {}), SLOTS, Rules())
    return found.seconds
