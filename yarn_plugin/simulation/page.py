"""The page of a simulation: figures, cluster use over time, distributions."""

from collections.abc import Callable, Sequence
from pathlib import Path

from yarn_plugin.quantities import number
from yarn_plugin.report import (
    Column,
    Distribution,
    KeyFigure,
    KeyFigures,
    Page,
    Sample,
    Section,
    Series,
    Table,
    Text,
    TimeChart,
    write,
)
from yarn_plugin.report.figure import COLOURS
from yarn_plugin.simulation.outcome import AppOutcome, Outcome, Usage, columns, quantile, rows, summary, totals

MAX_POINTS = 240
"""Maximum number of points of a chart over time; each is a mean over an interval."""

MAX_LISTED = 20
"""Applications listed: those with the largest slowdowns."""

MIN_PEAK_USE = 0.02
"""A chart of the use is shown if at least this fraction of the cluster is in use at some time."""

SHOWN_QUANTILE = 0.99
"""Larger values are shown as this quantile in a distribution, as outliers would squeeze the rest of it."""


def write_page(path: Path, outcome: Outcome, about: str, wall_s: float) -> None:
    """Write the page of a simulation.

    Raises:
        ReportError: the file cannot be written.
    """
    write(page(outcome, about, wall_s), path)


def page(outcome: Outcome, about: str, wall_s: float) -> Page:
    """The page of a simulation. `about`: the files and the seed."""
    return Page(
        title="Cluster simulation",
        subtitle=about,
        top=(_key_figures(outcome, wall_s), *(Text(line, "muted") for line in totals(outcome, wall_s))),
        sections=(
            Section("Applications", (_table(outcome),)),
            Section("Cluster use over time", (_usage(outcome),)),
            Section("Distributions", tuple(_distributions(outcome))),
            Section("Largest slowdowns", (_slowest(outcome),)),
        ),
    )


def _key_figures(outcome: Outcome, wall_s: float) -> KeyFigures:
    found = summary(outcome.finished)
    if found is None:
        return KeyFigures((KeyFigure("applications ended", "0"),))
    return KeyFigures(
        (
            KeyFigure("applications ended", f"{found.apps}", f"of {len(outcome.apps)}"),
            KeyFigure("mean completion time", f"{found.mean_s:.0f} s", f"95 % within {found.p95_s:.0f} s"),
            KeyFigure("mean slowdown", f"{found.mean_slowdown:.2f}", "relative to running alone"),
            KeyFigure("fairness", f"{found.jain_slowdown:.2f}", "Jain's index of slowdowns"),
            KeyFigure("cluster utilisation", f"{outcome.utilisation():.0%}", "mean of the scarcest resource"),
        )
    )


def _table(outcome: Outcome) -> Table:
    names = columns(outcome)
    return Table(
        tuple(Column(name.removeprefix("#"), numeric=name.startswith("#")) for name in names),
        tuple(tuple(str(cell) for cell in row) for row in rows(outcome)),
        note="Completion times in seconds, from arrival to end. Slowdown: completion time relative to running alone on "
        "the whole cluster. Fairness: Jain's index of the slowdowns.",
    )


def _usage(outcome: Outcome) -> TimeChart | Text:
    if max((sum(one.parts) for one in outcome.usage), default=0.0) < MIN_PEAK_USE:
        return Text("Hardly any of the cluster was used: shares came from profiles, which allocate no containers.")
    return _usage_chart(outcome)


def _usage_chart(outcome: Outcome) -> TimeChart:
    points = _means(outcome.usage, outcome.ended_at)
    series = tuple(
        Series(group, tuple((at, parts[place]) for at, parts in points), place if place < COLOURS else None)
        for place, group in enumerate(outcome.groups)
    )
    note = f" (means over {outcome.ended_at / MAX_POINTS:.0f} s)" if len(outcome.usage) > MAX_POINTS else ""
    title = f"Cluster use by group{note}"
    return TimeChart(title, "fraction of the scarcest resource", series, kind="stacked", percent=True,
                     limit=(1.0, "capacity"))  # fmt: skip


def _means(usage: Sequence[Usage], until: float) -> list[tuple[float, tuple[float, ...]]]:
    """The use over time, as means over at most `MAX_POINTS` intervals."""
    if len(usage) <= MAX_POINTS:
        return [(one.at, one.parts) for one in usage]
    width, groups = until / MAX_POINTS, len(usage[0].parts)
    sums = [[0.0] * groups for _ in range(MAX_POINTS)]
    for one, after in zip(usage, [*usage[1:], Usage(until, ())], strict=True):
        at = one.at
        while at < after.at:
            place = min(int(at / width), MAX_POINTS - 1)
            end = after.at if place == MAX_POINTS - 1 else min(after.at, max((place + 1) * width, at + 1e-6))
            for group, part in enumerate(one.parts):
                sums[place][group] += part * (end - at)
            at = end
    return [(place * width, tuple(total / width for total in row)) for place, row in enumerate(sums)]


def _distributions(outcome: Outcome) -> list[Distribution]:
    return [
        _distribution("Completion times", "seconds", outcome, lambda one: one.completion_s or 0.0),
        _distribution("Slowdowns", "completion time relative to running alone", outcome, lambda one: one.slowdown or 0),
    ]


def _distribution(title: str, unit: str, outcome: Outcome, figure: Callable[[AppOutcome], float]) -> Distribution:
    values = {group: [figure(one) for one in outcome.finished_in(group)] for group in outcome.groups}
    every = [value for one in values.values() for value in one]
    highest = quantile(every, SHOWN_QUANTILE) if every else 0.0
    samples = tuple(
        Sample(group, tuple(min(value, highest) for value in found), place if place < COLOURS else None)
        for place, (group, found) in enumerate(values.items())
    )
    is_clipped = len(every) > 1 / (1 - SHOWN_QUANTILE)
    return Distribution(f"{title} (the largest 1 % shown as {number(highest)})" if is_clipped else title, unit, samples)


def _slowest(outcome: Outcome) -> Table:
    ordered = sorted(outcome.finished, key=lambda one: -(one.slowdown or 0.0))[:MAX_LISTED]
    return Table(
        (Column("application"), Column("group"), Column("user"), Column("arrived, s", True, 0),
         Column("wait for master, s", True, 1), Column("completion, s", True, 1), Column("alone, s", True, 1),
         Column("slowdown", True, 2)),
        tuple(
            (one.name, one.group, one.user, one.arrived_at, (one.started_at or one.arrived_at) - one.arrived_at,
             one.completion_s, one.alone_s, one.slowdown)
            for one in ordered
        ),
    )  # fmt: skip
