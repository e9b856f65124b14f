"""The page of simulations of jobs: the figures of each policy, and the distributions of waits and completion times."""

from collections.abc import Sequence

from yarn_plugin.report import KeyFigure, KeyFigures, Page, Section, Text, table_of
from yarn_plugin.simulation.jobs.outcome import JobsOutcome
from yarn_plugin.simulation.result import Result, distribution


def page(
    runs: Sequence[Result[JobsOutcome]], about: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> Page:
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
                "progress of their running jobs, as its mean over time.",
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
        ),
    )
