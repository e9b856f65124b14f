"""Charts of a simulation over time: the use of the cluster, blocked nodes, rounds, who held which GPU."""

from collections.abc import Sequence
from itertools import accumulate

from yarn_plugin.quantities import number
from yarn_plugin.report import Bar, Gantt, Key, Row, Series, Text, TimeChart
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.report.figure import colour as css_colour
from yarn_plugin.simulation.outcome import Holding, Outcome, Usage
from yarn_plugin.simulation.result import Result, colour

MAX_POINTS = 400
"""Points in a chart over time."""

MIN_PEAK_USE = 0.02
"""A chart of the use is shown if at least this fraction of the cluster is in use at some time."""

MAX_ROWS = 64
"""GPUs in a chart of who held which GPU: the first ones."""

MAX_BARS = 4_000
"""Bars in such a chart; of more, those that end first."""


def usage_chart(outcome: Outcome) -> TimeChart | Text:
    """What each group of applications used."""
    if max((sum(usage.fractions) for usage in outcome.usage), default=0.0) < MIN_PEAK_USE:
        return Text(
            f"Cluster use stayed below {MIN_PEAK_USE:.0%}, so there is no chart of it. Applications whose share "
            "comes from a profile allocate no containers."
        )
    points = _mean_use(outcome.usage, outcome.ended_at)
    series = tuple(
        Series(group, tuple((at, fractions[place]) for at, fractions in points), colour(place))
        for place, group in enumerate(outcome.groups)
    )
    over = f" (means over {outcome.ended_at / MAX_POINTS:.0f} s)" if len(outcome.usage) > MAX_POINTS else ""
    return TimeChart(f"Cluster use by group{over}", "fraction of the dominant resource", series, kind="stacked",
                     percent=True, limit=(1.0, "capacity"))  # fmt: skip


def _mean_use(usage: Sequence[Usage], until: float) -> list[tuple[float, tuple[float, ...]]]:
    """The use over time, as means over at most `MAX_POINTS` intervals."""
    if len(usage) <= MAX_POINTS:
        return [(point.at, point.fractions) for point in usage]
    width, groups = until / MAX_POINTS, len(usage[0].fractions)
    sums = [[0.0] * groups for _ in range(MAX_POINTS)]
    for start, following in zip(usage, [*usage[1:], Usage(until, ())], strict=True):
        at = start.at
        while at < following.at:
            place = min(int(at / width), MAX_POINTS - 1)
            end = following.at if place == MAX_POINTS - 1 else min(following.at, max((place + 1) * width, at + 1e-6))
            for group, fraction in enumerate(start.fractions):
                sums[place][group] += fraction * (end - at)
            at = end
    return [(place * width, tuple(total / width for total in row)) for place, row in enumerate(sums)]


def _thinned(points: Sequence[tuple[float, float]], until: float) -> tuple[tuple[float, float], ...]:
    """Points of a chart over time; of more than `MAX_POINTS`, the largest value of an interval each."""
    width = until / MAX_POINTS if len(points) > MAX_POINTS else 0.0
    largest: dict[float, float] = {}
    for at, value in points:
        start = at // width * width if width else at
        largest[start] = max(largest.get(start, value), value)
    return tuple(largest.items())


def fragmentation_chart(runs: Sequence[Result]) -> list[TimeChart]:
    """How many nodes were blocked, over time; nothing unless it was recorded who held which GPU."""
    if not any(run.outcome.blocked and run.outcome.holdings for run in runs):
        return []
    series = []
    for place, run in enumerate(runs):
        counts = accumulate(change for _, change in run.outcome.blocked)
        points = [(at, float(count)) for (at, _), count in zip(run.outcome.blocked, counts, strict=True)]
        series.append(Series(str(run.policy), _thinned(points, run.outcome.ended_at), colour(place)))
    return [TimeChart("Nodes that could not take a guaranteed job of all their GPUs", "nodes", tuple(series))]


def rounds_chart(name: str, outcome: Outcome) -> list[TimeChart | Text]:
    """How many applications were offered GPUs in each auction, and bid."""
    auctions = [one for one in outcome.rounds if one.offered]
    if not auctions:
        return [Text(f"{name}: {len(outcome.rounds)} rounds without auctions.", "muted")] if outcome.rounds else []
    offered = _thinned([(one.at, one.offered) for one in auctions], outcome.ended_at)
    bid = _thinned([(one.at, one.bidders) for one in auctions], outcome.ended_at)
    return [TimeChart(f"{name}: applications that were offered GPUs, and that bid", "applications",
                      (Series("offered", offered, 1), Series("bid", bid, 0)))]  # fmt: skip


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
