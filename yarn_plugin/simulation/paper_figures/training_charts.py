"""The charts and tables of the Themis thesis that no other figure has."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from yarn_plugin.model.auction import GpuOffer
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.report import Column, Distribution, Sample, Series, Table, TimeChart
from yarn_plugin.report.markup import Block
from yarn_plugin.simulation.leasing.application import Beliefs, JobProgress, installed_kind
from yarn_plugin.simulation.paper_figures.intervals import interval
from yarn_plugin.simulation.paper_figures.record import Record
from yarn_plugin.simulation.paper_figures.training_case import HOLDER, LIAR, Scenario, TrainingCase, TrainingSize
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob
from yarn_plugin.simulation.training.models import TABLE_3_4
from yarn_plugin.simulation.training.statistics import work_s

Runs = Callable[[TrainingCase], list[Record]]
"""The results of a case with every seed."""

Values = tuple[str | int | float, ...]

WORKLOADS: tuple[Scenario, ...] = ("1", "2")

HOUR, DAY = 3600.0, 86_400.0


def training_blocks(kind: str, base: TrainingCase, runs: Runs, full: TrainingSize, values: Values) -> list[Block]:
    """What a chart or table shows that is drawn for one figure alone, by its name in the file.

    `full`: the size of the thesis. `values`: of the field that the table varies, if it does.
    """
    match kind:
        case "lies":
            return [_lies(base, runs, values)]
        case "two applications":
            return [_two_applications(base, runs)]
        case "short and long":
            return [_short_and_long(base, runs)]
        case "example bids":
            return [_example_bids()]
        case "networks":
            return [_networks()]
        case "workloads":
            return _workloads(base, full)
        case "demand":
            return [_demand(_apps(base, full, "1"))]
        case "jobs of an application":
            jobs = [float(len(app.jobs)) for app in _apps(base, full, "1")]
            return [_generated("Jobs of an application", "jobs", jobs)]
        case "GPU time of an application":
            days = [work_s(app) / DAY for app in _apps(base, full, "1")]
            return [_generated("GPU time of an application", "GPU days", days)]
        case "GPU time of a task":
            hours = [job.work_s / job.max_gpus / HOUR for app in _apps(base, full, "1") for job in app.jobs]
            return [_generated("GPU time of a task", "GPU hours", hours)]
    raise AssertionError(f"no chart {kind}")


def _apps(base: TrainingCase, size: TrainingSize, workload: Scenario) -> tuple[TrainingApp, ...]:
    return replace(base, scenario=workload, size=size).workload().apps


def _generated(title: str, unit: str, values: Sequence[float]) -> Distribution:
    return Distribution(title, unit, (Sample("generated", tuple(values), 0),))


def _workloads(base: TrainingCase, full: TrainingSize) -> list[Block]:
    apps = [(f"workload {name}", _apps(base, full, name)) for name in WORKLOADS]

    def chart(title: str, unit: str, values: Callable[[TrainingApp], Iterable[float]]) -> Distribution:
        samples = (
            Sample(name, tuple(value for app in mine for value in values(app)), place)
            for place, (name, mine) in enumerate(apps)
        )
        return Distribution(title, unit, tuple(samples))

    return [
        chart("Tasks of a job", "GPUs", lambda app: (job.max_gpus for job in app.jobs)),
        chart("Jobs of an application", "jobs", lambda app: (len(app.jobs),)),
    ]


def _networks() -> Table:
    spreads = [Column(f"slowdown, {one}", True, 2) for one in ("slots", "machines", "racks")]
    rows = tuple((one.name, one.share, one.slowdown.slot, one.slowdown.machine, one.slowdown.rack) for one in TABLE_3_4)
    return Table((Column("network"), Column("share", True, 3), *spreads), rows)


def _lies(base: TrainingCase, runs: Runs, lies: Values) -> Block:
    rows = []
    for lie in map(float, lies):
        found = runs(replace(base, lie=lie))
        liar = interval([run.apps[LIAR]["time_s"] / 60 for run in found])
        others = interval(
            [fmean(app["time_s"] / 60 for name, app in run.apps.items() if name != LIAR) for run in found]
        )
        rows.append((f"{100 * lie:.0f}%", liar.mean, liar.low, liar.high, others.mean, others.low, others.high))
    sides = [f"{who}, min{side}" for who in ("liar", "others") for side in ("", ", low", ", high")]
    return Table((Column("X"), *(Column(side, True, 1) for side in sides)), tuple(rows))


def _two_applications(base: TrainingCase, runs: Runs) -> Block:
    rows = [
        (policy, name, app["rho"], app["time_s"] / 60)
        for policy in ("drf", "max_min", "themis")
        for name, app in runs(replace(base, policy=policy))[0].apps.items()
        if name != HOLDER
    ]
    note = (
        "Instance 2: a job of Inception-v3 (A1) and one of VGG16 (A2), 4 tasks each; machines of 4, 2 and 2 GPUs, for "
        "which both wait 4 minutes. On the machine of 4 each takes 60 minutes more."
    )
    return Table((Column("policy"), Column("application"), Column("rho", True, 2), Column("minutes", True, 1)),
                 tuple(rows), note=note)  # fmt: skip


def _short_and_long(base: TrainingCase, runs: Runs) -> Block:
    """The shorter and the longer half of the applications, by GPU time: their rho under both policies."""
    pairs = zip(runs(base), runs(replace(base, policy="tiresias")), strict=True)
    both = [(one.apps[name]["gpu_s"], one.apps[name]["rho"], other.apps[name]["rho"])
            for one, other in pairs for name in one.apps if name in other.apps]  # fmt: skip
    both.sort()
    halves = (("shorter half", both[: len(both) // 2]), ("longer half", both[len(both) // 2 :]))
    rows = [
        (label, fmean(one[0] / HOUR for one in part), fmean(one[1] for one in part), fmean(one[2] for one in part))
        for label, part in halves
    ]
    return Table((Column("applications"), Column("mean GPU hours", True, 1), Column("mean rho, themis", True, 2),
                  Column("mean rho, tiresias", True, 2)), tuple(rows))  # fmt: skip


def _demand(apps: Sequence[TrainingApp]) -> TimeChart:
    """GPUs in use if every job had what it can use from its arrival on."""
    changes: dict[float, float] = {}
    for app in apps:
        for job in app.jobs:
            for at, gpus in ((app.arrival_s, job.max_gpus), (app.arrival_s + job.work_s / job.max_gpus, -job.max_gpus)):
                changes[at] = changes.get(at, 0.0) + gpus
    level, points = 0.0, []
    for at in sorted(changes):
        level += changes[at]
        points.append((at, level))
    return TimeChart("GPUs demanded, if every job got all from its arrival on", "GPUs",
                     (Series("generated", tuple(points), 0),))  # fmt: skip


def _example_bids() -> Block:
    """Section 3.4.3.3: four jobs of 80, 100, 100 and 120 s; 10,000 s of work, four applications, 16 GPUs."""
    free = Slowdown(1.0, 1.0, 1.0)
    jobs = tuple(
        TrainingJob(name, 60.0, seconds, max_gpus=16, slowdown=free)
        for name, seconds in (("a", 80.0), ("b", 100.0), ("c", 100.0), ("d", 120.0))
    )
    app = TrainingApp("example", 0.0, jobs, "successive_halving", (8.0, 16.0, 36.0))
    machines = (Machine("m", "r", (Slot("m/s", 16),)),)
    made = installed_kind().application(app, machines, 0.0, Beliefs(), "0")
    idle = [JobProgress(goal.job, 0.0, 0.0, ()) for goal in made.goals()]
    bid = made.answer(0.0, GpuOffer(1, machines, 600.0, 4.0, cluster_gpus=16), idle)
    found = {sum(piece.gpus for piece in row.pieces): row.rho for row in getattr(bid, "rows", ())}
    return Table(
        (Column("GPUs", True), Column("rho", True, 3), Column("thesis")),
        tuple((gpus, found.get(gpus), "2 (section 3.4.3.3)" if gpus == 2 else "") for gpus in (1, 2, 4, 8, 16)),
        note="Whole GPUs for each job, so that 4, 8 and 16 GPUs are a little worse than 1, 0.5 and 0.34.",
    )
