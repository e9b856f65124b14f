"""Every decision of a query: its cause, the estimate of each candidate, and what became of the stages."""

from collections.abc import Sequence
from typing import Literal

from qoop.replan.decision import Decision, Winner
from qoop.replan.events import StageFinished
from qoop.report.names import Names
from qoop.report.record import QueryRecord, TimedDecision
from qoop.report.timeline import Axis, axis_of
from qoop.run import wording
from yarn_plugin.quantities import count, seconds
from yarn_plugin.report import Badge, Column, Entries, Entry, Meter, Table, Text
from yarn_plugin.report.markup import Block

MAX_EXPANDED = 4
"""Up to this many switches their entries are expanded."""

MAX_OTHERS = 4
"""How many candidates are shown besides the previous and the chosen plan."""

Explained = Winner | Literal["progress"]
"""Why a plan was chosen, judged from the whole journal. "progress": neither the share nor the row counts decided."""

WON_BY: dict[Explained, str] = {
    "first": "This was the first choice: nothing had been measured yet.",
    "earlier runs": "Cause: earlier runs, in which the query took the least time with this plan.",
    "trial": "The query was measured as written, to compare it with its planned runs.",
    "late trial": "Cause: the query was measured as written, and took longer than its fastest plan had taken.",
    "kept": "The plan was kept.",
    "forced": "Cause: a test option forced the switch; the new plan was not chosen for being faster.",
    "share": "Cause: the share. With the new share alone the new plan wins; with the measured row counts alone it does "
    "not.",
    "row counts": "Cause: the row counts. With the measured row counts alone the new plan wins; with the new share "
    "alone it does not.",
    "share and row counts": "Cause: the share and the row counts together. With only one of them the new plan does not "
    "win.",
    "share or row counts": "Cause: the share or the row counts. With either of them alone the new plan wins.",
    "late stage": "Cause: a slow stage. A running stage took longer than estimated, and that alone makes the new plan "
    "win.",
    "late stage and share or row counts": "Cause: a slow stage together with the share or the row counts. A running "
    "stage took longer than estimated; that alone does not make the new plan win.",
    "progress": "Cause: the progress. Neither the share nor the row counts changed which plan is the fastest; the work "
    "already done did.",
}
"""Why a plan was chosen, as a sentence."""


def decision_list(record: QueryRecord, axis: Axis | None = None) -> Entries:
    """An entry for each decision; switches are expanded if there are few."""
    names, axis = Names(record), axis or axis_of(record)
    entries = tuple(_entry(timed, record, names, axis) for timed in record.decisions)
    return Entries(entries, empty="No decisions: the query ran as written, in one stage.")


def switch_explanations(record: QueryRecord, axis: Axis | None = None) -> list[str]:
    """A sentence or two for each switch: when, why, and what decided."""
    return [_explanation(timed, record, axis or axis_of(record)) for timed in record.switches]


def _explanation(timed: TimedDecision, record: QueryRecord, axis: Axis) -> str:
    decision = timed.decision
    before, after = decision.seconds[decision.before or 0], decision.expected
    names = Names(record)
    why = WON_BY[_winner(timed, record)]
    return (
        f"At {axis(timed.at):.1f} s ({_cause(timed, names)}) the query switched from plan {decision.before} "
        f"(estimated {seconds(before)} left) to plan {decision.plan} ({seconds(after)} left). {why}"
    )


def _entry(timed: TimedDecision, record: QueryRecord, names: Names, axis: Axis) -> Entry:
    decision = timed.decision
    chosen = seconds(decision.expected)
    blocks: list[Block] = []
    if isinstance(timed.event, StageFinished):
        blocks.append(Text(_sentence(wording.why(decision.cause))))
    blocks.append(Text(_sentence(wording.comparison(decision))))
    if decision.switched or decision.won_by in ("trial", "earlier runs"):
        blocks.append(Text(WON_BY[_winner(timed, record)]))
    blocks += [_estimates(decision), *_stages(decision, names)]
    return Entry(
        when=f"{axis(timed.at):.1f} s",
        what=f"{_sentence(_cause(timed, names))[:-1]}: {_outcome(decision)}",
        badge=_badge(decision, _winner(timed, record)),
        aside=f"{wording.in_slots(decision.slots)}, {chosen} left",
        blocks=tuple(blocks),
        open=decision.switched and len(record.switches) <= MAX_EXPANDED,
    )


def _cause(timed: TimedDecision, names: Names) -> str:
    """The cause of a decision, with stages named as in the chart."""
    if isinstance(timed.event, StageFinished):
        return f"{names.short(timed.event.stage)} finished"
    return wording.why(timed.decision.cause)


def _outcome(decision: Decision) -> str:
    if decision.before is None:
        return f"start with plan {decision.plan}"
    if decision.switched:
        return f"plan {decision.before} → plan {decision.plan}"
    return f"keep plan {decision.plan}"


def _badge(decision: Decision, winner: Explained) -> Badge:
    if decision.before is None:
        return Badge("first choice")
    if not decision.switched:
        return Badge("kept")
    if winner == "forced":
        return Badge("switched: forced", "warn")
    return Badge(f"switched: {'progress' if winner == 'progress' else wording.DECIDED_BY[winner]}", "accent")


def _winner(timed: TimedDecision, record: QueryRecord) -> Explained:
    """What decided. A share that has not changed since the plan was chosen cannot have."""
    chosen = [
        earlier.decision
        for earlier in record.decisions
        if earlier.at < timed.at and (earlier.decision.switched or earlier.first)
    ]
    same_share = bool(chosen) and chosen[-1].slots == timed.decision.slots
    winner = timed.decision.won_by
    return "progress" if same_share and winner == "share or row counts" else winner


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    # A name such as app_17 is not capitalized.
    return f"{text[:1].upper()}{text[1:]}." if text.partition(" ")[0].isalpha() else f"{text}."


def _estimates(decision: Decision) -> Table:
    shown = _shown(decision)
    longest = max(decision.seconds[plan] for plan in shown)
    rows = tuple(_estimate(plan, decision, longest) for plan in shown)
    rest = [estimate for plan, estimate in enumerate(decision.seconds) if plan not in shown]
    note = f"{count(len(rest), 'more candidate')}: {seconds(min(rest))} to {seconds(max(rest))}." if rest else None
    columns = (Column("candidate"), Column("estimated remaining time", numeric=True), Column(""))
    return Table(columns, rows, caption="Estimates at the time", note=note)


def _shown(decision: Decision) -> Sequence[int]:
    """The chosen and the previous plan and the best of the others, ordered by their estimates."""
    ranked = sorted(range(len(decision.seconds)), key=lambda plan: (decision.seconds[plan], plan))
    named = {decision.plan} | ({decision.before} if decision.before is not None else set())
    others = [plan for plan in ranked if plan not in named][:MAX_OTHERS]
    return [plan for plan in ranked if plan in named or plan in others]


def _estimate(plan: int, decision: Decision, longest: float) -> tuple[str, Meter, str]:
    estimate = decision.seconds[plan]
    role = ""
    if plan == decision.before:
        role = "previous plan" if decision.switched else "current plan"
    elif plan == decision.plan:
        role = "chosen"
    return f"plan {plan}", Meter(estimate, longest, f"{estimate:.2f} s"), role


def _stages(decision: Decision, names: Names) -> list[Block]:
    fates = (
        ("reused", decision.reused),
        ("unused", decision.left_behind),
        ("cancelled", decision.cancel),
        ("not needed but allowed to finish", decision.let_finish),
    )
    parts = [f"{what}: {names.all_short(stages)}" for what, stages in fates if stages]
    return [Text(f"Stages {'; '.join(parts)}.")] if parts else []
