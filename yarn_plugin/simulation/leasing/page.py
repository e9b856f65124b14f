"""The page of simulations of a training workload: figures, finish-time fairness, who held which GPU, auctions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.quantities import number
from yarn_plugin.report import (
    BarChart,
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
from yarn_plugin.simulation.gpu_chart import gpu_chart, place_colour
from yarn_plugin.simulation.leasing.outcome import Figures, TrainingOutcome

MAX_POINTS = 400
"""Points in a chart over time: of more rounds, the largest values of an interval each."""

SLOWEST = 15
"""Jobs listed: those with the largest rho."""


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A simulation on the page."""

    policy: str
    seed: int
    outcome: TrainingOutcome
    figures: Figures
    wall_s: float


def write_page(path: Path, runs: Sequence[ShownRun], about: str) -> None:
    """Write the page of simulations of one workload.

    Raises:
        ReportError: the file cannot be written.
    """
    write(page(runs, about), path)


def page(runs: Sequence[ShownRun], about: str) -> Page:
    """The page. `about`: the files and the settings. Charts of one run show the first seed of each policy."""
    first = list({run.policy: run for run in reversed(runs)}.values())[::-1]
    return Page(
        title="Training workload",
        subtitle=about,
        top=(_key_figures(runs), _table(runs)),
        sections=(
            Section("Finish-time fairness", tuple(_fairness(runs))),
            Section(
                "GPUs",
                tuple(
                    block
                    for run in first
                    for block in gpu_chart(f"{run.policy}, seed {run.seed}", run.outcome.holdings)
                ),
            ),
            Section("Rounds", tuple(block for run in first for block in _rounds(run))),
            Section("Largest rho", tuple(_slowest(run) for run in first)),
        ),
    )


def _key_figures(runs: Sequence[ShownRun]) -> KeyFigures:
    """The best policy by each figure."""
    shown = []
    for label, unit, figure in (
        ("lowest max rho", "", lambda one: one.max_rho),
        ("lowest mean completion time", " min", lambda one: one.avg_jct_job),
        ("lowest GPU time", " GPU min", lambda one: one.gpu_time),
    ):
        means = _means(runs, figure)
        if means:
            policy, value = min(means, key=lambda pair: pair[1])
            shown.append(KeyFigure(label, f"{number(value)}{unit}", policy))
    return KeyFigures(tuple(shown))


def _means(runs: Sequence[ShownRun], figure: Callable[[Figures], float | None]) -> list[tuple[str, float]]:
    """The mean of a figure over the seeds of each policy."""
    found: dict[str, list[float]] = {}
    for run in runs:
        value = figure(run.figures)
        if value is not None:
            found.setdefault(run.policy, []).append(value)
    return [(policy, sum(values) / len(values)) for policy, values in found.items()]


def _table(runs: Sequence[ShownRun]) -> Table:
    columns = (Column("policy"), Column("seed", True), Column("max rho", True, 2), Column("median rho", True, 2),
               Column("max rho of an application", True, 2), Column("Jain", True, 3), 
               Column("mean job time, min", True, 0),
               Column("mean application time, min", True, 0), Column("makespan, min", True, 0),
               Column("GPU time, GPU min", True, 0), Column("placement score", True, 3), Column("rounds", True),
               Column("bidders", True, 1))  # fmt: skip
    return Table(
        columns,
        tuple(
            (run.policy, run.seed, one.max_rho, one.median_rho, one.max_rho_app, one.jain, one.avg_jct_job,
             one.avg_jct_app, one.makespan, one.gpu_time, one.placement_score, one.rounds, one.mean_bidders)
            for run in runs
            for one in (run.figures,)
        ),
        note="rho of a job: its completion time, divided by its time alone and by the average contention during its "
        "life. rho of an application: by equation 3.2 of Themis. Placement score: the mean of 1 / slowdown.",
    )  # fmt: skip


def _fairness(runs: Sequence[ShownRun]) -> list[BarChart | Distribution]:
    policies = list(dict.fromkeys(run.policy for run in runs))
    jobs = {
        policy: [rho for run in runs if run.policy == policy for rho in run.outcome.job_rhos] for policy in policies
    }
    apps = {
        policy: [rho for run in runs if run.policy == policy for _, rho in run.outcome.app_rhos] for policy in policies
    }
    highest = _means(runs, lambda one: one.max_rho)
    return [
        _distribution("Jobs", jobs),
        _distribution("Applications (equation 3.2)", apps),
        BarChart("Max rho of a job, mean over seeds", "rho", tuple(highest), digits=2),
    ]


def _distribution(title: str, values: dict[str, list[float]]) -> Distribution:
    samples = tuple(
        Sample(policy, tuple(rhos), place_colour(place)) for place, (policy, rhos) in enumerate(values.items()) if rhos
    )
    return Distribution(title, "rho", samples, (1.0, "fair"))


def _rounds(run: ShownRun) -> list[TimeChart | Text]:
    auctions = [one for one in run.outcome.rounds if one.offered]
    if not auctions:
        return [Text(f"{run.policy}: {len(run.outcome.rounds)} rounds without auctions.", "muted")]
    width = max(run.outcome.ended_at / MAX_POINTS, 1e-9)
    offered: dict[float, float] = {}
    bidders: dict[float, float] = {}
    for one in auctions:
        at = one.at if len(auctions) <= MAX_POINTS else one.at // width * width
        offered[at] = max(offered.get(at, 0.0), one.offered)
        bidders[at] = max(bidders.get(at, 0.0), one.bidders)
    return [
        TimeChart(
            f"{run.policy}, seed {run.seed}: applications that were offered GPUs, and that bid",
            "applications",
            (Series("offered", tuple(offered.items()), 1), Series("bid", tuple(bidders.items()), 0)),
        )
    ]


def _slowest(run: ShownRun) -> Table:
    rhos = sorted(
        zip(run.outcome.job_rhos, run.outcome.ended, strict=True), key=lambda pair: (-pair[0], pair[1][0].job)
    )
    return Table(
        (Column("application"), Column("job"), Column("rho", True, 2), Column("arrived, min", True, 0),
         Column("ended, min", True, 0), Column("alone, min", True, 1), Column("GPUs", True), Column("moves", True)),
        tuple(
            (job.group, job.job, rho, job.arrived_at / 60, end / 60, job.ideal_s / 60, job.max_gpus, job.moves)
            for rho, (job, end) in rhos[:SLOWEST]
        ),
        caption=f"{run.policy}, seed {run.seed}",
    )  # fmt: skip
