"""The page of simulations of jobs: the figures of each policy, and the distributions of waits and completion times."""

from collections.abc import Sequence
from itertools import accumulate

from yarn_plugin.report import KeyFigure, KeyFigures, Page, Section, Series, Text, TimeChart, table_of
from yarn_plugin.simulation.gpu_chart import gpu_chart
from yarn_plugin.simulation.outcome import Outcome
from yarn_plugin.simulation.result import Result, colour, distribution, thinned


def page(runs: Sequence[Result], about: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Page:
    """The page of simulations of one workload. `columns`, `rows`: the table of the terminal."""
    use = tuple(
        KeyFigure(str(run.policy), f"{run.outcome.utilisation:.0%}", f"in use; simulated in {run.wall_s:.0f} s")
        for run in runs
    )
    waits = {str(run.policy): run.outcome.waits for run in runs}
    times = {str(run.policy): run.outcome.times for run in runs}
    return Page(
        title="Jobs",
        subtitle=about,
        top=(
            KeyFigures(use),
            table_of(columns, rows),
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
                    distribution("Waits", "seconds", waits, is_clipped=True),
                    distribution("Completion times", "seconds", times, is_clipped=True),
                ),
            ),
            *_cell_map(runs),
        ),
    )


def _cell_map(runs: Sequence[Result]) -> list[Section]:
    """How fragmented the cluster was, and who held which GPU; nothing unless that was recorded."""
    if not any(run.outcome.holdings for run in runs):
        return []
    series = tuple(Series(str(run.policy), _blocked(run.outcome), colour(place)) for place, run in enumerate(runs))
    fragmentation = TimeChart("Nodes that could not take a guaranteed job of all their GPUs", "nodes", series)
    charts = [block for run in runs for block in gpu_chart(str(run.policy), run.outcome.holdings)]
    return [Section("Fragmentation", (fragmentation,)), Section("Cells", tuple(charts))]


def _blocked(outcome: Outcome) -> tuple[tuple[float, float], ...]:
    """How many nodes were blocked, over time."""
    counts = accumulate(change for _, change in outcome.blocked)
    return thinned(((at, count) for (at, _), count in zip(outcome.blocked, counts, strict=True)), outcome.ended_at)
