"""The page of a simulation: key figures, cluster use over time, distributions."""

from collections.abc import Callable, Sequence

from yarn_plugin.report import (
    Column,
    Distribution,
    KeyFigure,
    KeyFigures,
    Page,
    Section,
    Series,
    Table,
    Text,
    TimeChart,
    table_of,
)
from yarn_plugin.simulation.figures import group_columns, group_rows, summary, totals
from yarn_plugin.simulation.outcome import JobOutcome, Outcome, Usage
from yarn_plugin.simulation.result import Result, colour, distribution

MAX_POINTS = 240
"""Maximum number of points of a chart over time; each is a mean over an interval."""

MAX_LISTED = 20
"""Applications listed: those with the largest slowdowns."""

MIN_PEAK_USE = 0.02
"""A chart of the use is shown if at least this fraction of the cluster is in use at some time."""


def page(result: Result, about: str) -> Page:
    """The page of a simulation. `about`: the files and the seed."""
    outcome = result.outcome
    return Page(
        title="Cluster simulation",
        subtitle=about,
        top=(
            _key_figures(outcome),
            *(Text(_sentence(line), "muted") for line in totals(outcome, result.wall_s)),
        ),
        sections=(
            Section("Applications", (_table(outcome),)),
            Section("Cluster use over time", (_usage(outcome),)),
            Section("Distributions", tuple(_distributions(outcome))),
            Section("Largest slowdowns", (_slowest(outcome),)),
        ),
    )


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def _key_figures(outcome: Outcome) -> KeyFigures:
    stats = summary(outcome.ended)
    if stats is None:
        return KeyFigures((KeyFigure("applications ended", "0"),))
    return KeyFigures(
        (
            KeyFigure("applications ended", f"{stats.apps}", f"of {len(outcome.jobs)}"),
            KeyFigure("mean completion time", f"{stats.mean_s:.0f} s", f"95th percentile {stats.p95_s:.0f} s"),
            KeyFigure("mean slowdown", f"{stats.mean_slowdown:.2f}", "relative to running alone"),
            KeyFigure("fairness", f"{stats.jain_slowdown:.2f}", "Jain's index of slowdowns"),
            KeyFigure("cluster utilisation", f"{outcome.utilisation:.0%}", "mean of the dominant resource"),
        )
    )


def _table(outcome: Outcome) -> Table:
    return table_of(
        group_columns(outcome),
        group_rows(outcome),
        "Completion times in seconds, from arrival to end. Slowdown: completion time relative to running alone on "
        "the whole cluster. Fairness: Jain's index of the slowdowns.",
    )


def _usage(outcome: Outcome) -> TimeChart | Text:
    if max((sum(usage.fractions) for usage in outcome.usage), default=0.0) < MIN_PEAK_USE:
        return Text(
            f"Cluster use stayed below {MIN_PEAK_USE:.0%}, so there is no chart of it. Applications whose share "
            "comes from a profile allocate no containers."
        )
    return _usage_chart(outcome)


def _usage_chart(outcome: Outcome) -> TimeChart:
    points = _means(outcome.usage, outcome.ended_at)
    series = tuple(
        Series(group, tuple((at, fractions[place]) for at, fractions in points), colour(place))
        for place, group in enumerate(outcome.groups)
    )
    note = f" (means over {outcome.ended_at / MAX_POINTS:.0f} s)" if len(outcome.usage) > MAX_POINTS else ""
    title = f"Cluster use by group{note}"
    return TimeChart(title, "fraction of the dominant resource", series, kind="stacked", percent=True,
                     limit=(1.0, "capacity"))  # fmt: skip


def _means(usage: Sequence[Usage], until: float) -> list[tuple[float, tuple[float, ...]]]:
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


def _distributions(outcome: Outcome) -> list[Distribution]:
    return [
        _distribution("Completion times", "seconds", outcome, lambda app: app.completion_s or 0.0),
        _distribution("Slowdowns", "completion time relative to running alone", outcome, lambda app: app.slowdown or 0),
    ]


def _distribution(title: str, unit: str, outcome: Outcome, figure: Callable[[JobOutcome], float]) -> Distribution:
    values = {group: [figure(app) for app in outcome.ended_in(group)] for group in outcome.groups}
    return distribution(title, unit, values, is_clipped=True)


def _slowest(outcome: Outcome) -> Table:
    ordered = sorted(outcome.ended, key=lambda app: -(app.slowdown or 0.0))[:MAX_LISTED]
    return Table(
        (Column("application"), Column("group"), Column("user"), Column("arrived, s", True, 0),
         Column("wait for application master, s", True, 1), Column("completion, s", True, 1),
         Column("alone, s", True, 1), Column("slowdown", True, 2)),
        tuple(
            (app.name, app.group, app.user, app.arrived_at, (app.started_at or app.arrived_at) - app.arrived_at,
             app.completion_s, app.alone_s, app.slowdown)
            for app in ordered
        ),
    )  # fmt: skip
