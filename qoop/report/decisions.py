"""Each decision of a query: why it was made, what each candidate was estimated at, what followed."""

from collections.abc import Sequence
from typing import Literal

from qoop.replan.decision import Decision, Winner
from qoop.replan.events import StageFinished
from qoop.report.names import Names
from qoop.report.record import Decided, QueryRecord
from qoop.report.timeline import Axis, axis_of
from qoop.run import wording
from yarn_plugin.quantities import seconds
from yarn_plugin.report import Badge, Column, Entries, Entry, Meter, Table, Text
from yarn_plugin.report.markup import Block

NEXT_BEST = 4
"""How many candidates are shown beside the plan of before and the chosen one."""

Explained = Winner | Literal["progress"]
"""What made a plan win, as far as the whole record shows: "progress" is neither share nor row counts."""

WON_BY: dict[Explained, str] = {
    "first": "It was the first choice: nothing had been measured yet.",
    "kept": "The plan was kept.",
    "forced": "A test option forced the switch; it was not chosen because it is faster.",
    "share": "The share made the difference: the new plan wins under the new share even with the estimates of the "
    "start, and does not win under the old one, whatever rows were counted.",
    "row counts": "True row counts made the difference: with what the finished stages really gave, the new plan wins "
    "even under the old share, and without them it does not win under the new one.",
    "share and row counts": "Both were needed, the new share and the true row counts; neither makes the new plan win "
    "alone.",
    "share or row counts": "Each would have sufficed: the new share with the estimates of the start, and the true row "
    "counts under the old share.",
    "late stage": "A running stage that took longer than estimated made the difference.",
    "late stage and share or row counts": "A running stage took longer than estimated; that alone would not have "
    "sufficed without the new share or the true row counts.",
    "progress": "Neither share nor row counts were needed: the share was the same, and with the estimates of the start "
    "the new plan wins, too, once the work done by then is counted.",
}
"""What made a plan win, in words."""


def decision_list(record: QueryRecord, axis: Axis | None = None) -> Entries:
    """An entry for each decision; switches are open."""
    names, axis = Names(record), axis or axis_of(record)
    entries = tuple(_entry(made, record, names, axis) for made in record.decisions)
    return Entries(entries, empty="No decisions were made: the query ran in one piece.")


def what_won(record: QueryRecord, axis: Axis | None = None) -> list[str]:
    """A sentence or two for each switch: what made the new plan win."""
    return [_won(made, record, axis or axis_of(record)) for made in record.switches]


def _won(made: Decided, record: QueryRecord, axis: Axis) -> str:
    decision = made.decision
    before, after = decision.seconds[decision.before or 0], decision.seconds[decision.plan]
    names = Names(record)
    why = WON_BY[_winner(made, record)]
    return (
        f"At {axis(made.at):.1f} s ({_cause(made, names)}) it left plan {decision.before}, estimated to need "
        f"{seconds(before)} more, for plan {decision.plan}, {seconds(after)}. {why}"
    )


def _entry(made: Decided, record: QueryRecord, names: Names, axis: Axis) -> Entry:
    decision = made.decision
    chosen = seconds(decision.seconds[decision.plan])
    blocks: list[Block] = []
    if isinstance(made.event, StageFinished):
        blocks.append(Text(_sentence(wording.why(decision.cause))))
    blocks.append(Text(_sentence(wording.comparison(decision))))
    if decision.switched:
        blocks.append(Text(WON_BY[_winner(made, record)]))
    blocks += [_estimates(decision), *_stages(decision, names)]
    return Entry(
        when=f"{axis(made.at):.1f} s",
        what=f"{_sentence(_cause(made, names))[:-1]}: {_outcome(decision)}",
        badge=_badge(decision, _winner(made, record)),
        aside=f"{decision.slots:g} slots, {chosen} to go",
        blocks=tuple(blocks),
        open=decision.switched and len(record.switches) <= 4,
    )


def _cause(made: Decided, names: Names) -> str:
    """Why it was decided anew, with stages named as in the chart."""
    if isinstance(made.event, StageFinished):
        return f"{names.short(made.event.stage)} finished"
    return wording.why(made.decision.cause)


def _outcome(decision: Decision) -> str:
    if decision.before is None:
        return f"begin with plan {decision.plan}"
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
    return Badge(f"switched: {winner}", "accent")


def _winner(made: Decided, record: QueryRecord) -> Explained:
    """What won, as far as it can have: a share that did not change since the plan was chosen did not help."""
    chosen = [one.decision for one in record.decisions if one.at < made.at and (one.decision.switched or one.first)]
    same = bool(chosen) and chosen[-1].slots == made.decision.slots
    winner = made.decision.won_by
    return "progress" if same and winner == "share or row counts" else winner


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    # A name such as app_17 stays as it is.
    return f"{text[:1].upper()}{text[1:]}." if text.partition(" ")[0].isalpha() else f"{text}."


def _estimates(decision: Decision) -> Table:
    shown = _shown(decision)
    longest = max(decision.seconds[plan] for plan in shown)
    rows = tuple(_estimate(plan, decision, longest) for plan in shown)
    rest = [estimate for plan, estimate in enumerate(decision.seconds) if plan not in shown]
    note = f"{len(rest)} more candidates: {seconds(min(rest))} to {seconds(max(rest))}." if rest else None
    columns = (Column("candidate"), Column("estimated time to the result", figures=True), Column(""))
    return Table(columns, rows, caption="Estimates at this moment", note=note)


def _shown(decision: Decision) -> Sequence[int]:
    """The chosen plan and that of before, then the best of the others, all by their estimates."""
    ranked = sorted(range(len(decision.seconds)), key=lambda plan: (decision.seconds[plan], plan))
    named = {decision.plan} | ({decision.before} if decision.before is not None else set())
    others = [plan for plan in ranked if plan not in named][:NEXT_BEST]
    return [plan for plan in ranked if plan in named or plan in others]


def _estimate(plan: int, decision: Decision, longest: float) -> tuple[str, Meter, str]:
    estimate = decision.seconds[plan]
    said = []
    if plan == decision.before:
        said.append("in force until now" if decision.switched else "in force")
    if plan == decision.plan and plan != decision.before:
        said.append("chosen")
    return f"plan {plan}", Meter(estimate, longest, f"{estimate:.2f} s"), ", ".join(said)


def _stages(decision: Decision, names: Names) -> list[Block]:
    fates = (
        ("reused", decision.reused),
        ("left behind", decision.left_behind),
        ("cancelled", decision.cancel),
        ("let finish, though not needed", decision.let_finish),
    )
    said = [f"{what}: {names.all_short(stages)}" for what, stages in fates if stages]
    return [Text(f"Stages {'; '.join(said)}.")] if said else []
