"""The page of simulations of jobs: the figures of each policy, and the distributions of waits and completion times."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
from yarn_plugin.simulation.gpu_chart import gpu_chart
from yarn_plugin.simulation.jobs.outcome import JobsOutcome
from yarn_plugin.simulation.outcome import quantile

SHOWN_QUANTILE = 0.99
"""Larger values are shown as this quantile, as outliers would squeeze the rest."""

MAX_POINTS = 400
"""Points in a chart over time."""


@dataclass(frozen=True, slots=True)
class ShownJobs:
    """A simulation on the page."""

    policy: str
    outcome: JobsOutcome
    wall_s: float


def write_page(
    path: Path, runs: Sequence[ShownJobs], about: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Write the page of simulations of one workload. `columns`, `rows`: the table of the terminal.

    Raises:
        ReportError: the file cannot be written.
    """
    write(page(runs, about, columns, rows), path)


def page(runs: Sequence[ShownJobs], about: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Page:
    """The page; see `write_page`."""
    use = tuple(
        KeyFigure(run.policy, f"{run.outcome.utilisation:.0%}", f"in use; simulated in {run.wall_s:.0f} s")
        for run in runs
    )
    return Page(
        title="Jobs",
        subtitle=about,
        top=(
            KeyFigures(use),
            Table(
                tuple(Column(name.removeprefix("#"), numeric=name.startswith("#")) for name in columns),
                tuple(tuple(row) for row in rows),
            ),
            Text(
                "Later: jobs that wait more than a minute longer than in a private cluster, by how long in all, and at "
                "most. Lost: what preempted jobs held, in vain. Spread: the standard deviation over users of the "
                "progress of their running jobs, as its mean over time. Fragmentation: the mean fraction of nodes that "
                "could not take a guaranteed job of all their GPUs.",
                "muted",
            ),
        ),
        sections=(
            Section(
                "Distributions",
                (
                    _distribution("Waits", runs, [[job.wait_s for job in run.outcome.ended] for run in runs]),
                    _distribution(
                        "Completion times", runs, [[job.completion_s for job in run.outcome.ended] for run in runs]
                    ),
                ),
            ),
            *_cell_map(runs),
        ),
    )


def _cell_map(runs: Sequence[ShownJobs]) -> list[Section]:
    """How fragmented the cluster was, and who held which GPU; nothing unless that was recorded."""
    if not any(run.outcome.holdings for run in runs):
        return []
    series = tuple(
        Series(run.policy, _blocked(run.outcome), place if place < COLOURS else None) for place, run in enumerate(runs)
    )
    fragmentation = TimeChart("Nodes that could not take a guaranteed job of all their GPUs", "nodes", series)
    charts = [block for run in runs for block in gpu_chart(run.policy, run.outcome.holdings)]
    return [Section("Fragmentation", (fragmentation,)), Section("Cells", tuple(charts))]


def _blocked(outcome: JobsOutcome) -> tuple[tuple[float, float], ...]:
    """How many nodes were blocked; of many changes, the largest number of an interval each."""
    width = max(outcome.ended_at / MAX_POINTS, 1e-9)
    points: dict[float, float] = {}
    now = 0
    for at, change in outcome.blocked:
        now += change
        start = at // width * width
        points[start] = max(points.get(start, 0.0), float(now))
    return tuple(points.items())


def _distribution(title: str, runs: Sequence[ShownJobs], given: Sequence[Sequence[float | None]]) -> Distribution:
    values = [[value for value in of_run if value is not None] for of_run in given]
    every = [value for of_run in values for value in of_run]
    highest = quantile(every, SHOWN_QUANTILE) if every else 0.0
    samples = tuple(
        Sample(run.policy, tuple(min(value, highest) for value in of_run), place if place < COLOURS else None)
        for place, (run, of_run) in enumerate(zip(runs, values, strict=True))
    )
    return Distribution(title, "seconds; the top 1 % is clipped", samples)
