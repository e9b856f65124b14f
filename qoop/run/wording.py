"""What people read of causes and decisions. The only place that makes sentences of them; nothing reads them back."""

from typing import assert_never

from qoop.plans.plan import StageId
from qoop.replan.causes import (
    Cause,
    FailedStage,
    FinishedStage,
    LostOutput,
    NewShare,
    NotPlanned,
    PlannerFailed,
    PlansMade,
    Retried,
    Said,
    StagesChecked,
    Stopped,
    WhyFailed,
)
from qoop.replan.decision import Decision


def why(cause: Cause) -> str:
    """A cause as a clause, with neither a capital nor a full stop."""
    match cause:
        case PlansMade(plans, join_trees):
            return f"{_count(plans, 'candidate plan')} over {_count(join_trees, 'join tree')}"
        case NewShare(said=said) if said:
            return said
        case NewShare(None, slots):
            return f"the first share: {_slots(slots)}"
        case NewShare(before, slots):
            return f"the share changed from {before:g} to {_slots(slots)}"
        case FinishedStage(stage, joins):
            return f"stage {_stage(stage, joins)} finished"
        case FailedStage(stage, joins, said):
            return f"stage {_stage(stage, joins)} failed: {said}"
        case LostOutput(stage, joins, said):
            return f"output of stage {_stage(stage, joins)} lost ({said})"
        case StagesChecked():
            return "running stages compared with their estimates"
        case PlannerFailed(name, said):
            return f"the planner failed: {name}: {said}"
        case Retried(said, attempt):
            return f"attempt {attempt + 1}, after {said}"
        case NotPlanned(said) | Stopped(said) | Said(said):
            return said
    assert_never(cause)


def error(cause: WhyFailed) -> str:
    """Why a query has no answer, in the words of whoever said so."""
    return cause.error if isinstance(cause, FailedStage) else why(cause)


def verdict(decision: Decision) -> str:
    """What a decision came to, with the estimates that it rests on, and what made the new plan win."""
    won = f"; won by: {decision.won_by}" if decision.switched else ""
    return f"{comparison(decision)}{won}"


def comparison(decision: Decision) -> str:
    """The estimates that a decision rests on."""
    slots, before, plan, fastest = _slots(decision.slots), decision.before, decision.plan, decision.fastest
    ends = [f"{seconds:.1f} s" for seconds in decision.seconds]
    if before is None:
        return f"plan {plan} finishes first on {slots}: {ends[plan]}"
    if decision.switched:
        return f"on {slots} plan {plan} ends in {ends[plan]}, plan {before} in {ends[before]}"
    if fastest == before:
        return f"on {slots} plan {before} stays the fastest: {ends[before]}"
    ending = f"on {slots} plan {before} ends in {ends[before]}, plan {fastest} in {ends[fastest]}"
    saved = "" if decision.needed is None else f"less than {decision.needed:.1f} s saved, "
    return f"{ending}: {saved}not worth a switch"


def _stage(stage: StageId, joins: tuple[str, ...]) -> str:
    """A stage as people read it: the relations that it joins, or the block whose result it is."""
    return "+".join(joins) or stage.block.removeprefix("qoop_")


def _slots(slots: float) -> str:
    return f"{slots:g} {'slot' if slots == 1 else 'slots'}"


def _count(many: int, of: str) -> str:
    return f"{many} {of}{'' if many == 1 else 's'}"
