"""The stages of a query as a Gantt chart, with the fate of their outputs."""

from collections.abc import Iterator
from typing import Literal

from qoop.plans.plan import StageId
from qoop.report.names import Names
from qoop.report.record import Attempt, QueryRecord
from qoop.report.timeline import Axis, axis_of, moments
from yarn_plugin.quantities import count, seconds, size
from yarn_plugin.report import Bar, Column, Gantt, Key, Mark, Row, Table
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.report.gantt import Tone

SIGNS: dict[str, Key] = {
    "reused": Key("output reused after a switch", "dot", "good"),
    "unused": Key("output unused after a switch", "ring", "ink"),
    "allowed to finish": Key("not needed after a switch, allowed to finish", "triangle", "ink"),
    "finished anyway": Key("cancelled, but finished before that took effect", "triangle", "good"),
    "cancelled": Key("cancelled", "cross", "ink"),
    "failed": Key("failed", "cross", "bad"),
    "lost": Key("output lost", "diamond", "bad"),
    "again": Key("run again", "again", "ink"),
    "stored": Key("output stored", "thread", "c0"),
}
"""The signs of the chart and their legend, in its order."""


def stages_chart(record: QueryRecord, title: str = "Stages over time", axis: Axis | None = None) -> Gantt:
    """A row for each stage, coloured by plan; `axis`: by default that of the query."""
    names, axis = Names(record), axis or axis_of(record)
    rows = tuple(_row(stage, record, names, axis) for stage in names.ran)
    return Gantt(
        title,
        rows,
        legend=tuple(_legend(record, names, rows)),
        moments=moments(record, axis),
        time=axis.label,
        span=axis.span,
        data=_table(record, names, axis),
    )


def _row(stage: StageId, record: QueryRecord, names: Names, axis: Axis) -> Row:
    attempts = [attempt for attempt in record.attempts if attempt.stage == stage]
    signs = tuple(sorted(_signs(stage, attempts, record, axis), key=lambda sign: sign.at))
    bars = [_bar(attempt, record, names, axis) for attempt in attempts]
    return Row(names.label(stage), (*_threads(stage, record, names, axis), *bars), signs, names.relations(stage))


def _bar(attempt: Attempt, record: QueryRecord, names: Names, axis: Axis) -> Bar:
    ended = _end(attempt, record)
    plan = "as written" if attempt.plan is None else f"plan {attempt.plan}"
    lines = [f"{names.short(attempt.stage)}: {names.relations(attempt.stage)}", f"{plan}, run {attempt.number}"]
    lines.append(f"{attempt.outcome} after {seconds(ended - attempt.started)}")
    if attempt.result is not None:
        lines.append(f"{count(attempt.result.rows, 'row')}, {size(attempt.result.bytes)}")
    if attempt.error:
        lines.append(attempt.error[:200])
    return Bar(
        axis(attempt.started),
        axis(ended),
        plan,
        None if attempt.plan is None else names.colours.get(attempt.plan),
        "solid" if attempt.outcome == "finished" else "faint",
        "\n".join(lines),
    )


def _end(attempt: Attempt, record: QueryRecord) -> float:
    return record.ended if attempt.ended is None else attempt.ended


def _threads(stage: StageId, record: QueryRecord, names: Names, axis: Axis) -> Iterator[Bar]:
    """Bars from the end of a stage to the last use of its output."""
    runs = [attempt for attempt in record.attempts if attempt.stage == stage]
    for place, attempt in enumerate(runs):
        if attempt.outcome != "finished" or attempt.ended is None:
            continue
        until = runs[place + 1].started if place + 1 < len(runs) else record.ended
        uses = [use for use in _uses(stage, record) if attempt.ended <= use <= until]
        if uses and max(uses) > attempt.ended:
            plan = None if attempt.plan is None else names.colours.get(attempt.plan)
            yield Bar(axis(attempt.ended), axis(max(uses)), "", plan, "thread", "output stored")


def _uses(stage: StageId, record: QueryRecord) -> Iterator[float]:
    for attempt in record.attempts:
        if stage in attempt.inputs:
            yield attempt.started
    for timed in record.switches:
        if stage in (*timed.decision.reused, *timed.decision.left_behind):
            yield timed.at
    for at, lost in record.losses:
        if lost.stage == stage:
            yield at


def _signs(stage: StageId, attempts: list[Attempt], record: QueryRecord, axis: Axis) -> Iterator[Mark]:
    for timed in record.switches:
        detail = f"at the switch from plan {timed.decision.before} to plan {timed.decision.plan}"
        if stage in timed.decision.reused:
            yield _sign("reused", axis(timed.at), detail)
        if stage in timed.decision.left_behind:
            yield _sign("unused", axis(timed.at), detail)
        if stage in timed.decision.let_finish:
            yield _sign("allowed to finish", axis(timed.at), detail)
        if stage in timed.decision.cancel and _finished_later(attempts, timed.at):
            yield _sign("finished anyway", axis(timed.at), detail)
    for attempt in attempts:
        if attempt.outcome in ("cancelled", "failed"):
            yield _sign(attempt.outcome, axis(_end(attempt, record)), attempt.error[:200])
        if attempt.number > 1:
            yield _sign("again", axis(attempt.started), f"run {attempt.number}")
    for at, lost in record.losses:
        if lost.stage == stage:
            yield _sign("lost", axis(at), lost.reason)


def _finished_later(attempts: list[Attempt], at: float) -> bool:
    """Whether the attempt that was cancelled at a time finished nevertheless."""
    cancelled = [attempt for attempt in attempts if attempt.started <= at <= (attempt.ended or at)]
    return any(attempt.outcome == "finished" for attempt in cancelled)


def _sign(kind: str, at: float, detail: str) -> Mark:
    key = SIGNS[kind]
    tone: Tone = "good" if key.style == "good" else "bad" if key.style == "bad" else "ink"
    side: Literal["before", "at", "after"] = "before" if key.shape == "cross" else "after" if kind == "again" else "at"
    return Mark(at, key.shape, f"{key.label}\n{detail}".strip(), tone, side)


def _legend(record: QueryRecord, names: Names, rows: tuple[Row, ...]) -> Iterator[Key]:
    ran = {attempt.plan for attempt in record.attempts}
    known = [plan for plan, colour in names.colours.items() if plan in ran and colour < COLOURS]
    for plan in known:
        yield Key(f"plan {plan}", "block", f"c{names.colours[plan]}")
    if others := len(ran - {*known, None}):
        yield Key(count(others, "other plan"), "block", "cx")
    if None in ran:
        yield Key("query as written", "block", "cx")
    bars = [bar for row in rows for bar in row.bars]
    if any(bar.style == "faint" for bar in bars):
        yield Key("did not finish", "faint", "cx")
    shown = {(mark.shape, mark.tone) for row in rows for mark in row.marks}
    for kind, key in SIGNS.items():
        if (key.shape, key.style) in shown or (kind == "stored" and any(bar.style == "thread" for bar in bars)):
            yield key


def _table(record: QueryRecord, names: Names, axis: Axis) -> Table:
    columns = (
        Column("stage"),
        Column("computes"),
        Column("plan"),
        Column("run", numeric=True),
        Column("start, s", numeric=True, digits=2),
        Column("seconds", numeric=True, digits=2),
        Column("outcome"),
        Column("rows", numeric=True, digits=0),
        Column("output, MB", numeric=True, digits=2),
        Column("core seconds", numeric=True, digits=2),
        Column("use of the output"),
    )
    return Table(columns, tuple(_line(attempt, record, names, axis) for attempt in record.attempts), "Stages")


def _line(attempt: Attempt, record: QueryRecord, names: Names, axis: Axis) -> tuple[str | int | float | None, ...]:
    result = attempt.result
    return (
        names.short(attempt.stage),
        names.relations(attempt.stage),
        "as written" if attempt.plan is None else f"plan {attempt.plan}",
        attempt.number,
        axis(attempt.started),
        _end(attempt, record) - attempt.started,
        attempt.outcome,
        result.rows if result else None,
        result.bytes / 1e6 if result else None,
        result.core_seconds if result else None,
        _fate(attempt, record),
    )


def _fate(attempt: Attempt, record: QueryRecord) -> str:
    """How often later switches reused an output or left it unused."""
    if attempt.ended is None or attempt.outcome != "finished":
        return ""
    after = [timed.decision for timed in record.switches if timed.at >= attempt.ended]
    reused = sum(attempt.stage in decision.reused for decision in after)
    unused = sum(attempt.stage in decision.left_behind for decision in after)
    uses = (("reused", reused), ("unused", unused))
    return ", ".join(f"{use} after {count(times, 'switch', 'switches')}" for use, times in uses if times)
