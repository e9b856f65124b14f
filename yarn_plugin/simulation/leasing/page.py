"""The page of simulations of a training workload: figures, finish-time fairness, who held which GPU, auctions."""

from collections.abc import Callable, Sequence

from yarn_plugin.quantities import number
from yarn_plugin.report import (
    BarChart,
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
from yarn_plugin.simulation.figures import TrainingFigures, training_figures
from yarn_plugin.simulation.gpu_chart import gpu_chart
from yarn_plugin.simulation.result import Result, distribution, thinned

SLOWEST = 15
"""Jobs listed: those with the largest rho."""

COLUMNS = (
    "policy", "#seed", "#max rho", "#median rho", "#max rho app", "#Jain", "#mean job min", "#mean app min",
    "#makespan min", "#GPU min", "#placement", "#rounds", "#bidders", "#wall s",
)  # fmt: skip
"""Of the terminal and of the page; times and GPU time in minutes."""

FAIR = 1.0, "fair"


def page(runs: Sequence[Result], about: str) -> Page:
    """The page. `about`: the files and the settings. Charts of one run show the first seed of each policy."""
    first = list({run.policy: run for run in reversed(runs)}.values())[::-1]
    return Page(
        title="Training workload",
        subtitle=about,
        top=(_key_figures(runs), _table(runs)),
        sections=(
            Section("Finish-time fairness", tuple(_fairness(runs))),
            Section("GPUs", tuple(block for run in first for block in gpu_chart(run.name, run.outcome.holdings))),
            Section("Rounds", tuple(block for run in first for block in _rounds(run))),
            Section("Largest rho", tuple(_slowest(run) for run in first)),
        ),
    )


def _key_figures(runs: Sequence[Result]) -> KeyFigures:
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


def _means(runs: Sequence[Result], figure: Callable[[TrainingFigures], float | None]) -> list[tuple[str, float]]:
    """The mean of a figure over the seeds of each policy."""
    found: dict[str, list[float]] = {}
    for run in runs:
        value = figure(training_figures(run.outcome))
        if value is not None:
            found.setdefault(str(run.policy), []).append(value)
    return [(policy, sum(values) / len(values)) for policy, values in found.items()]


def row(run: Result) -> tuple[str, ...]:
    """The figures of a simulation, under `COLUMNS`."""

    def shown(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    its = training_figures(run.outcome)
    return (
        str(run.policy), str(run.seed), shown(its.max_rho, 2), shown(its.median_rho, 2),
        shown(its.max_rho_app, 2), shown(its.jain, 3), shown(its.avg_jct_job, 0), shown(its.avg_jct_app, 0),
        shown(its.makespan, 0), shown(its.gpu_time, 0), shown(its.placement_score, 3), str(its.rounds),
        shown(its.mean_bidders, 1), shown(run.wall_s, 1),
    )  # fmt: skip


def _table(runs: Sequence[Result]) -> Table:
    return table_of(
        COLUMNS,
        map(row, runs),
        "rho of a job: its completion time, divided by its time alone and by the average contention during its life. "
        "rho of an application: by equation 3.2 of Themis. Placement: the mean of 1 / slowdown.",
    )


def _fairness(runs: Sequence[Result]) -> list[BarChart | Distribution]:
    policies = list(dict.fromkeys(str(run.policy) for run in runs))
    jobs = {
        policy: [rho for run in runs if run.policy == policy for rho in run.outcome.job_rhos] for policy in policies
    }
    apps = {
        policy: [rho for run in runs if run.policy == policy for _, rho in run.outcome.app_rhos] for policy in policies
    }
    highest = _means(runs, lambda one: one.max_rho)
    return [
        distribution("Jobs", "rho", jobs, FAIR),
        distribution("Applications (equation 3.2)", "rho", apps, FAIR),
        BarChart("Max rho of a job, mean over seeds", "rho", tuple(highest), digits=2),
    ]


def _rounds(run: Result) -> list[TimeChart | Text]:
    auctions = [one for one in run.outcome.rounds if one.offered]
    if not auctions:
        return [Text(f"{run.policy}: {len(run.outcome.rounds)} rounds without auctions.", "muted")]
    offered = thinned(((one.at, one.offered) for one in auctions), run.outcome.ended_at)
    bid = thinned(((one.at, one.bidders) for one in auctions), run.outcome.ended_at)
    return [
        TimeChart(
            f"{run.name}: applications that were offered GPUs, and that bid",
            "applications",
            (Series("offered", offered, 1), Series("bid", bid, 0)),
        )
    ]


def _slowest(run: Result) -> Table:
    rhos = sorted(zip(run.outcome.job_rhos, run.outcome.ended, strict=True), key=lambda pair: (-pair[0], pair[1].name))
    return Table(
        (Column("application"), Column("job"), Column("rho", True, 2), Column("arrived, min", True, 0),
         Column("ended, min", True, 0), Column("alone, min", True, 1), Column("GPUs", True), Column("moves", True)),
        tuple(
            (job.group, job.name, rho, job.arrived_at / 60, (job.ended_at or 0.0) / 60, job.alone_s / 60, job.gpus,
             job.moves)
            for rho, job in rhos[:SLOWEST]
        ),
        caption=f"{run.name}",
    )  # fmt: skip
