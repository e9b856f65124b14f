"""The charts and tables of each figure, from the results of its simulations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from yarn_plugin.model.auction import GpuOffer
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.quantities import number
from yarn_plugin.report import (
    BarChart,
    Column,
    ColumnChart,
    ColumnSeries,
    Distribution,
    Sample,
    Series,
    Table,
    TimeChart,
)
from yarn_plugin.report.markup import Block
from yarn_plugin.simulation.leasing.application import Beliefs, JobProgress, installed_kind
from yarn_plugin.simulation.themis_figures import plan
from yarn_plugin.simulation.themis_figures.case import HOLDER, LIAR, Case
from yarn_plugin.simulation.themis_figures.claims import Results
from yarn_plugin.simulation.themis_figures.intervals import interval
from yarn_plugin.simulation.themis_figures.record import Record
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload
from yarn_plugin.simulation.training.models import TABLE_3_4
from yarn_plugin.simulation.training.statistics import work_s

Runs = Callable[[Case], list[Record]]
"""The results of a case with every seed."""

HOUR, DAY = 3600.0, 86_400.0

SHOWN_RHO = 3.0
"""Larger ones are rare, and would leave no room for the others."""


def blocks(figure: str, results: Results, seeds: Sequence[int], size: str) -> list[Block]:
    """What a figure shows."""
    base = plan.base(figure, seeds[0], size)

    def runs(case: Case) -> list[Record]:
        return [results[replace(case, seed=seed)] for seed in seeds]

    match figure:
        case "3.1" | "3.2" | "3.3" | "3.4":
            return [_of_workload(figure, replace(base, scenario="1", size="paper").workload())]
        case "3.5":
            return [_instance(base, runs)]
        case "3.8":
            first, second = (replace(base, scenario=name, size="paper").workload().apps for name in ("1", "2"))
            shown = (("workload 1", first), ("workload 2", second))
            tasks = [(name, [job.max_gpus for app in apps for job in app.jobs]) for name, apps in shown]
            jobs = [(name, [len(app.jobs) for app in apps]) for name, apps in shown]
            return [
                _distribution("Tasks of a job", "GPUs", tasks),
                _distribution("Jobs of an application", "jobs", jobs),
            ]
        case "3.9" | "3.10":
            rhos = [
                (one, [min(app.rho, SHOWN_RHO) for run in runs(replace(base, policy=one)) for app in run.apps.values()])
                for one in plan.POLICIES
            ]
            curves = _distribution("Applications", f"rho; larger ones as {SHOWN_RHO:g}", rhos)
            return [curves, _bars("max rho", base, runs, _max_rho)]
        case "3.11" | "3.12":
            return [_bars("GPU time, GPU hours", base, runs, _gpu_hours)]
        case "3.13":
            scores = [(one, [score for run in runs(replace(base, policy=one)) for score in run.scores])
                      for one in plan.POLICIES]  # fmt: skip
            return [_distribution("Jobs", "placement score", scores)]
        case "3.14":
            return [_grid("max rho", base, runs, [(f"{part}x", {"part": part}) for part in plan.PARTS], _max_rho)]
        case "3.15" | "3.16":
            shares = [(f"{100 * share:.0f}%", {"network_share": share}) for share in plan.SHARES]
            field, name = (_max_rho, "max rho") if figure == "3.15" else (_gpu_hours, "GPU time, GPU hours")
            return [_grid(name, base, runs, shares, field)]
        case "3.17":
            errors = [(f"{100 * error:.0f}%", {"error": error}) for error in plan.ERRORS]
            return [_grid("max rho", base, runs, errors, _max_rho, ("themis",))]
        case "3.18":
            return [_lies(base, runs)]
        case "3.19":
            return [*_sensitivity("max rho", base, runs, _max_rho),
                    *_sensitivity("GPU time, GPU hours", base, runs, _gpu_hours)]  # fmt: skip
        case "table 3.3":
            return [_example_bids()]
        case "table 3.4":
            return [Table((Column("network"), Column("share", True, 3), *(Column(f"slowdown, {one}", True, 2)
                                                                        for one in ("slots", "machines", "racks"))),
                          tuple((one.name, one.share, one.slowdown.slot, one.slowdown.machine, one.slowdown.rack)
                                for one in TABLE_3_4))]  # fmt: skip
        case "table 3.5":
            return [_short_and_long(base, runs)]
    return []


def _max_rho(record: Record) -> float:
    return record.max_rho


def _gpu_hours(record: Record) -> float:
    return record.figures.gpu_time / 60


def _distribution(title: str, unit: str, samples: Iterable[tuple[str, Sequence[float]]]) -> Distribution:
    return Distribution(
        title, unit, tuple(Sample(name, tuple(values), place) for place, (name, values) in enumerate(samples))
    )


def _bars(name: str, base: Case, runs: Runs, field: Callable[[Record], float]) -> BarChart:
    """A field under each policy, with its interval beside it."""
    found = [(one, interval([field(run) for run in runs(replace(base, policy=one))])) for one in plan.POLICIES]
    notes = tuple("" if one.low is None else f"({number(one.low, 2)} to {number(one.high, 2)})" for _, one in found)
    return BarChart(
        f"{name}, mean over seeds", name, tuple((policy, one.mean) for policy, one in found), notes, digits=2
    )


def _grid(
    name: str,
    base: Case,
    runs: Runs,
    points: Sequence[tuple[str, Mapping[str, object]]],
    field: Callable[[Record], float],
    policies: Sequence[str] = plan.POLICIES,
) -> ColumnChart:
    """A field at these points (what differs from the base), a series for each policy; means over seeds."""
    series = tuple(
        ColumnSeries(
            policy,
            tuple(fmean(map(field, runs(replace(base, policy=policy, **fields)))) for _, fields in points),  # type: ignore[arg-type]
            place,
        )
        for place, policy in enumerate(policies)
    )
    return ColumnChart(f"{name}, mean over seeds", name, tuple(label for label, _ in points), series, digits=2)


def _sensitivity(name: str, base: Case, runs: Runs, field: Callable[[Record], float]) -> list[Block]:
    series = tuple(
        ColumnSeries(
            f"lease {lease / 60:g} min",
            tuple(fmean(map(field, runs(replace(base, lease_s=lease, f=f)))) for f in plan.FS),
            place,
        )
        for place, lease in enumerate(plan.LEASES_S)
    )
    names = tuple(f"{f:g}" for f in plan.FS)
    return [ColumnChart(f"{name} by f, mean over seeds", name, names, series, x_label="f", digits=2)]


def _lies(base: Case, runs: Runs) -> Block:
    rows = []
    for lie in plan.LIES:
        found = runs(replace(base, lie=lie))
        liar = interval([run.apps[LIAR].time_s / 60 for run in found])
        others = interval([fmean(app.time_s / 60 for name, app in run.apps.items() if name != LIAR) for run in found])
        rows.append((f"{100 * lie:.0f}%", liar.mean, liar.low, liar.high, others.mean, others.low, others.high))
    sides = [f"{who}, min{side}" for who in ("liar", "others") for side in ("", ", low", ", high")]
    return Table((Column("X"), *(Column(side, True, 1) for side in sides)), tuple(rows))


def _instance(base: Case, runs: Runs) -> Block:
    rows = [
        (policy, name, app.rho, app.time_s / 60)
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


def _short_and_long(base: Case, runs: Runs) -> Block:
    """The shorter and the longer half of the applications, by GPU time: their rho under both policies."""
    pairs = zip(runs(base), runs(replace(base, policy="tiresias")), strict=True)
    both = [(one.apps[name].gpu_s, one.apps[name].rho, other.apps[name].rho)
            for one, other in pairs for name in one.apps if name in other.apps]  # fmt: skip
    both.sort()
    halves = (("shorter half", both[: len(both) // 2]), ("longer half", both[len(both) // 2 :]))
    rows = [
        (label, fmean(one[0] / HOUR for one in part), fmean(one[1] for one in part), fmean(one[2] for one in part))
        for label, part in halves
    ]
    return Table((Column("applications"), Column("mean GPU hours", True, 1), Column("mean rho, themis", True, 2),
                  Column("mean rho, tiresias", True, 2)), tuple(rows))  # fmt: skip


def _of_workload(figure: str, workload: TrainingWorkload) -> Block:
    apps = workload.apps
    if figure == "3.1":
        return _demand(apps)
    if figure == "3.2":
        return _distribution("Jobs of an application", "jobs", [("generated", [len(app.jobs) for app in apps])])
    if figure == "3.3":
        days = [work_s(app) / DAY for app in apps]
        return _distribution("GPU time of an application", "GPU days", [("generated", days)])
    hours = [job.work_s / job.max_gpus / HOUR for app in apps for job in app.jobs]
    return _distribution("GPU time of a task", "GPU hours", [("generated", hours)])


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
