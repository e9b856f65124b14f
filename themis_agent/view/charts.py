"""The charts of a search: curves of its trials, and its GPUs over time."""

from collections import defaultdict
from typing import Literal

from themis_agent.local.progress import parameters_of, status
from themis_agent.view.history import Run
from themis_agent.view.snapshot import Snapshot
from yarn_plugin.quantities import NOTHING, count
from yarn_plugin.report import Bar, Curve, CurveChart, Gantt, Key, Moment, Row, Series, Span, Text, TimeChart
from yarn_plugin.report.figure import COLOURS, Shape, colour
from yarn_plugin.report.markup import Block

MAX_CURVES = 300
"""Curves that are drawn: of the best trials."""

MAX_ROWS = 64
"""GPUs in the chart of who ran where: the first ones."""

MAX_BARS = 3000
"""Runs in that chart: the latest."""

MAX_POINTS = 600
"""Points of a chart over time."""

GUTTER = 170.0

_Tone = Literal["ink", "good", "bad"]
_ENDS: dict[str, tuple[Shape | None, _Tone]] = {
    "complete": ("dot", "good"),
    "failed": ("cross", "bad"),
}
_NO_END: tuple[Shape | None, _Tone] = (None, "ink")


def curves(shown: Snapshot) -> CurveChart:
    """The metric of each trial over its steps; the colour is that of its bracket."""
    best = shown.state.best
    drawn = []
    for trial in shown.ranked()[:MAX_CURVES]:
        points = tuple(shown.history.curves.get(trial.id, ()))
        end, tone = _ENDS.get(trial.fate, _NO_END)
        detail = f"{status(trial)}\n{parameters_of(trial)}"
        is_best = best is not None and trial.id == best.id
        drawn.append(Curve(trial.id, points, _bracket(trial.bracket), is_best, end, tone, detail))
    brackets = sorted({one.bracket for one in shown.state.trials.values()})
    legend = [Key(f"bracket {one}", "line", colour(_bracket(one))) for one in brackets if len(brackets) > 1]
    legend += [Key("complete", "dot", "good"), Key("failed", "cross", "bad")]
    ends = sorted({one.until for one in shown.state.trials.values() if one.until < shown.app.max_steps})
    title = f"{shown.app.metric} over steps; the best trial is bold"
    return CurveChart(title, "step", shown.app.metric, tuple(drawn), tuple(legend), tuple(ends))


def gpus(shown: Snapshot) -> tuple[Block, ...]:
    """Which trial ran on which GPU, and how many GPUs were held and in use."""
    history = shown.history
    span = Span(0.0, max(shown.at - shown.began, 1.0))
    runs = [one for one in history.runs if one.places][-MAX_BARS:]
    bars: dict[str, list[Bar]] = defaultdict(list)
    for holding in history.holdings:
        end = shown.at if holding.end is None else holding.end
        detail = f"{holding.cell} held in lease {holding.lease}"
        bars[holding.cell].append(Bar(holding.start - shown.began, end - shown.began, style="thread", detail=detail))
    for run in runs:
        for cell in run.cells:
            bars[cell].append(_bar(shown, run))
    cells = sorted(bars, key=_in_order)
    rows = tuple(Row(cell, tuple(bars[cell])) for cell in cells[:MAX_ROWS])
    brackets = sorted({one.bracket for one in shown.state.trials.values()})
    legend = [Key(f"bracket {one}", "block", colour(_bracket(one))) for one in brackets if len(brackets) > 1]
    legend.append(Key("held, not in use", "thread", colour(None)))
    chart = Gantt(
        "Trials on GPUs, by number", rows, tuple(legend), time="seconds since the beginning", span=span, gutter=GUTTER
    )
    more = []
    if len(cells) > MAX_ROWS:
        more.append(f"the first {MAX_ROWS} of {count(len(cells), 'GPU')}")
    if len(history.runs) > len(runs):
        more.append(f"the latest {len(runs)} of {count(len(history.runs), 'run')}")
    notes = (Text(f"Shown: {'; '.join(more)}.", "muted"),) if more else ()
    return (chart, *notes, _counts(shown, span))


def _bar(shown: Snapshot, run: Run) -> Bar:
    trial = shown.state.trials[run.trial]
    end = shown.at if run.ended is None else run.ended
    stepped = NOTHING if run.first_step is None else f"{run.first_step:g} to {run.last_step:g}"
    why = f"\nstopped: {run.reason}" if run.reason else "" if run.ended is not None else "\nruns"
    detail = (
        f"{run.trial}, start {run.epoch}, {count(len(run.cells), 'GPU')}\nsteps {stepped}{why}\n{parameters_of(trial)}"
    )
    return Bar(run.started - shown.began, end - shown.began, str(trial.number), _bracket(trial.bracket), detail=detail)


def _counts(shown: Snapshot, span: Span) -> TimeChart:
    held = [(one.start, one.end) for one in shown.history.holdings]
    used = [(run.started, run.ended) for run in shown.history.runs for _ in run.cells]
    series = (
        Series("held", _level(shown, held), None),
        Series("in use", _level(shown, used), 0),
    )
    leases = {one.lease: one.start for one in reversed(shown.history.holdings)}
    moments = [Moment(at - shown.began, name) for name, at in leases.items()] if 1 < len(leases) <= 40 else []
    return TimeChart(
        "GPUs held and in use", "GPUs", series, time="seconds since the beginning", span=span, gutter=GUTTER,
        height=110.0, moments=tuple(moments),
    )  # fmt: skip


def _level(shown: Snapshot, intervals: list[tuple[float, float | None]]) -> tuple[tuple[float, float], ...]:
    """How many intervals there are at each time; of very many times, the largest number around each."""
    steps: dict[float, int] = defaultdict(int)
    for start, end in intervals:
        steps[start] += 1
        if end is not None:
            steps[end] -= 1
    width = (shown.at - shown.began) / MAX_POINTS
    points: dict[float, float] = {0.0: 0.0}
    level = 0
    for at in sorted(steps):
        level += steps[at]
        place = at - shown.began
        if len(steps) > MAX_POINTS:
            place = place // width * width
            points[place] = max(points.get(place, 0.0), level)
        else:
            points[place] = level
    points[max(shown.at - shown.began, 0.0)] = level
    return tuple(points.items())


def _bracket(number: int) -> int | None:
    return number if number < COLOURS else None


def _in_order(cell: str) -> tuple[str, int, str]:
    """By machine, then by the number at the end."""
    machine, _, ordinal = cell.rpartition("/")
    return machine, int(ordinal) if ordinal.isdecimal() else 0, cell
