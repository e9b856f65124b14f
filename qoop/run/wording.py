"""Causes and decisions in plain English, for the terminal and the report. Nothing parses these sentences."""

from collections.abc import Sequence
from typing import assert_never

from qoop.as_written.causes import UntypedCause
from qoop.as_written.wording import text
from qoop.plans.plan import PREFIX, StageId
from qoop.replan.causes import (
    Cause,
    FailedStage,
    FinishedStage,
    LostOutput,
    NewExecutors,
    NewShare,
    NotPlanned,
    OutgrownStage,
    PlannerFailed,
    PlansMade,
    Retried,
    StagesChecked,
    Stopped,
    WhyFailed,
)
from qoop.replan.decision import Decision, Winner
from yarn_plugin.quantities import count


def why(cause: Cause) -> str:
    """A cause as a clause, without a capital letter or a full stop."""
    match cause:
        case PlansMade(plans, join_trees):
            return f"{count(plans, 'candidate plan')} over {count(join_trees, 'join tree')}"
        case NewShare(said=reason) if reason:
            return reason
        case NewShare(before, slots):
            return _share_change(before, slots)
        case NewExecutors(before, slots):
            return f"the executors have {in_slots(slots)} for it now, not {before:g}"
        case FinishedStage(stage, joins):
            return f"stage {_stage(stage, joins)} finished"
        case OutgrownStage(stage, joins, rows, expected):
            return f"stage {_stage(stage, joins)} is now expected to have {rows:,.0f} rows, not {expected:,.0f}"
        case FailedStage(stage, joins, message):
            return f"stage {_stage(stage, joins)} failed: {message}"
        case LostOutput(stage, joins, reason):
            return f"the output of stage {_stage(stage, joins)} was lost: {reason}"
        case StagesChecked():
            return "running stages were checked against their estimates"
        case PlannerFailed(name, message):
            return f"the planner failed: {name}: {message}"
        case Retried(message, attempt):
            return f"attempt {attempt + 1} after a failure: {message}"
        case NotPlanned(as_written):
            return text(as_written)
        case Stopped(reason) | UntypedCause(reason):
            return reason
    assert_never(cause)


def error_message(cause: WhyFailed) -> str:
    """Why a query failed, in the words of Spark or of whoever stopped it."""
    return cause.error if isinstance(cause, FailedStage) else why(cause)


DECIDED_BY: dict[Winner, str] = {
    "first": "the first estimates",
    "earlier runs": "in earlier runs the query took the least time with it",
    "trial": "the query is measured as written, to compare it with its planned runs",
    "late trial": "as written the query takes longer than its fastest plan took",
    "kept": "the estimates",
    "forced": "a test option",
    "share": "share",
    "row counts": "row counts",
    "share or row counts": "share or row counts, either of which would suffice",
    "share and row counts": "share and row counts together, neither alone",
    "late stage": "a slow stage",
    "late stage and share or row counts": "a slow stage together with the share or the row counts",
}
"""What made a plan win, for people."""


def verdict(decision: Decision) -> str:
    """The estimates that a decision is based on; also what decided it, if that was anything else."""
    is_told = decision.switched or decision.won_by in ("trial", "earlier runs")
    reason = f"; reason: {DECIDED_BY[decision.won_by]}" if is_told else ""
    return f"{comparison(decision)}{reason}"


def story(decisions: Sequence[Decision]) -> str:
    """What happened to a planned query, in a sentence: its first plan, and what a new share or a switch changed."""
    if not decisions:
        return ""
    first = decisions[0]
    worst = max(first.seconds)
    ahead = f", the slowest of {count(len(first.seconds), 'plan')} in {worst:.1f} s" if len(first.seconds) > 1 else ""
    parts = [f"it began with plan {first.plan}, estimated to take {first.expected:.1f} s{ahead}"]
    for decision in decisions[1:]:
        if decision.switched and decision.before is not None:
            saved = decision.seconds[decision.before] - decision.expected
            parts.append(f"{why(decision.cause)}: it switched to plan {decision.plan}, to save {saved:.1f} s")
        elif isinstance(decision.cause, NewShare) and decision.cause.before is not None:
            stayed = "was kept, as estimates may be wrong" if _is_faster_as_expected(decision) else "was still best"
            parts.append(f"{_share_change(decision.cause.before, decision.slots)}: plan {decision.plan} {stayed}")
    return "; ".join(parts)


def comparison(decision: Decision) -> str:
    """The estimates that a decision is based on, in seconds to the result."""
    slots, before, plan, fastest = in_slots(decision.slots), decision.before, decision.plan, decision.fastest
    ends = [f"{seconds:.1f} s" for seconds in decision.seconds]
    if before is None and plan == fastest:
        return f"on {slots} plan {plan} would finish first, in {ends[plan]}"
    if before is None:
        return f"on {slots} plan {plan} would finish in {ends[plan]}, plan {fastest} in {ends[fastest]}"
    if decision.switched:
        return f"on {slots} plan {plan} would finish in {ends[plan]}, plan {before} in {ends[before]}"
    if fastest == before:
        return f"on {slots} plan {before} is still the fastest, at {ends[before]}"
    estimates = f"on {slots} plan {before} would finish in {ends[before]}, plan {fastest} in {ends[fastest]}"
    if decision.needed is None:
        return f"{estimates}: not worth a switch"
    if _is_faster_as_expected(decision):
        return f"{estimates}: not worth a switch, as the estimates may be wrong"
    return f"{estimates}: a switch must save at least {decision.needed:.1f} s"


def _is_faster_as_expected(decision: Decision) -> bool:
    """Whether the fastest plan would save what a switch must save, but not over the doubts that are left."""
    if decision.needed is None or decision.switched or decision.before is None:
        return False
    return decision.seconds[decision.before] - decision.seconds[decision.fastest] >= decision.needed


def _share_change(before: float | None, slots: float) -> str:
    if before is None:
        return f"the first share is {in_slots(slots)}"
    if slots == before:
        return f"the share is still {in_slots(slots)}"
    return f"the share {'fell' if slots < before else 'rose'} from {before:g} to {in_slots(slots)}"


def _stage(stage: StageId, joins: tuple[str, ...]) -> str:
    """A stage for people: the relations that it joins, or the block whose result it is."""
    return "+".join(joins) or stage.block.removeprefix(PREFIX)


def in_slots(slots: float) -> str:
    """A number of slots with its noun."""
    return f"{slots:g} {'slot' if slots == 1 else 'slots'}"
