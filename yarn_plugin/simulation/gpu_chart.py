"""A chart of the GPUs of a simulation: who held which, over time."""

from collections.abc import Sequence

from yarn_plugin.quantities import number
from yarn_plugin.report import Bar, Gantt, Key, Row, Text
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.report.figure import colour as css_colour
from yarn_plugin.simulation.outcome import Holding
from yarn_plugin.simulation.result import colour

MAX_ROWS = 64
"""GPUs in a chart of who held which GPU: the first ones."""

MAX_BARS = 4_000
"""Bars in such a chart; of more, those that end first."""


def gpu_chart(title: str, holdings: Sequence[Holding]) -> list[Gantt | Text]:
    """Who held which GPU over time, and what is left out of the chart."""
    by_gpu: dict[str, list[Holding]] = {}
    for one in holdings:
        by_gpu.setdefault(one.gpu, []).append(one)
    groups = list(dict.fromkeys(one.group for one in sorted(holdings, key=lambda one: one.start)))
    shown = sorted(by_gpu)[:MAX_ROWS]
    ends = sorted(one.end for gpu in shown for one in by_gpu[gpu])
    until = ends[MAX_BARS - 1] if len(ends) > MAX_BARS else float("inf")
    rows = tuple(
        Row(gpu, tuple(_bar(one, groups) for one in sorted(by_gpu[gpu], key=lambda one: one.start) if one.end <= until))
        for gpu in shown
    )
    left_out = []
    if len(by_gpu) > len(shown):
        left_out.append(f"the first {len(shown)} of {len(by_gpu)} GPUs")
    if until < float("inf"):
        left_out.append(f"the first {number(until / 60)} minutes")
    legend = tuple(Key(name, "block", css_colour(colour(place))) for place, name in enumerate(groups[:COLOURS]))
    if len(groups) > COLOURS:
        legend = (*legend, Key(f"{len(groups) - COLOURS} others", "block", css_colour(None)))
    chart = Gantt(f"{title}: who held which GPU", rows, legend, gutter=150.0)
    return [chart, Text(f"Shown: {'; '.join(left_out)}.", "muted")] if left_out else [chart]


def _bar(one: Holding, groups: Sequence[str]) -> Bar:
    detail = f"{one.app}, {number(one.start / 60, 1)} to {number(one.end / 60, 1)} min"
    return Bar(one.start, one.end, one.app, colour(groups.index(one.group)), detail=detail)
