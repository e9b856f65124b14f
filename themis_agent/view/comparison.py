"""Two searches side by side: the best metric over GPU time, and what each has found."""

from collections.abc import Iterator

from themis_agent.view.changes import metric_text
from themis_agent.view.parameters import values
from themis_agent.view.snapshot import Snapshot, duration
from yarn_plugin.report import Column, Curve, CurveChart, Key, Table, Text
from yarn_plugin.report.figure import colour
from yarn_plugin.report.markup import Block
from yarn_plugin.report.table import Cell


def comparison(shown: Snapshot, other: Snapshot, names: tuple[str, str]) -> Iterator[Block]:
    """The section. `names`: of the two, such as their folders."""
    same = (shown.app.metric, shown.app.direction) == (other.app.metric, other.app.direction)
    if not same:
        yield Text(
            f"They cannot be compared: one {shown.app.direction}s {shown.app.metric}, the other {other.app.direction}s "
            f"{other.app.metric}.",
            "warning",
        )
    else:
        curves = tuple(
            Curve(name, tuple(best_over_time(one)), number, bold=True)
            for number, (name, one) in enumerate(zip(names, (shown, other), strict=True))
        )
        legend = tuple(Key(name, "line", colour(number)) for number, name in enumerate(names))
        title = f"The best {shown.app.metric} so far"
        yield CurveChart(title, "seconds since the beginning", shown.app.metric, curves, legend)
    both = zip(_facts(shown), _facts(other), strict=True)
    rows: list[tuple[Cell, ...]] = [(label, one, another) for (label, one), (_, another) in both]
    yield Table((Column(""), Column(names[0]), Column(names[1])), tuple(rows))


def best_over_time(shown: Snapshot) -> list[tuple[float, float]]:
    """(seconds, best metric so far), where it improves, and at the end."""
    sign = -1.0 if shown.state.settings.maximize else 1.0
    points: list[tuple[float, float]] = []
    for at, metric in shown.history.metrics:
        if not points or sign * metric < sign * points[-1][1]:
            points += [(at - shown.began, points[-1][1])] if points else []
            points.append((at - shown.began, metric))
    if points:
        points.append((max(shown.at - shown.began, points[-1][0]), points[-1][1]))
    return points


def _facts(shown: Snapshot) -> list[tuple[str, str]]:
    best, state = shown.state.best, shown.state
    known = values(best) if best is not None else {}
    return [
        (f"best {shown.app.metric}", metric_text(state.metric(best)) if best is not None else "–"),
        ("parameters", ", ".join(f"{name} = {_text(value)}" for name, value in known.items()) or "–"),
        ("trials", str(len(state.trials))),
        ("algorithm, sampler", f"{shown.app.algorithm}, {shown.app.sampler}"),
        ("time", duration(shown.at - shown.began)),
        ("GPU seconds", f"{shown.gpu_s():.0f}"),
        ("failed trials", str(sum(one.fate == "failed" for one in state.trials.values()))),
    ]


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
