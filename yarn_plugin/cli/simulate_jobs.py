"""`yarn-plugin simulate` with jobs: virtual clusters of cells, and jobs that may run on GPUs or on cores."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

import click

from yarn_plugin import console
from yarn_plugin.cells.file import read_cells
from yarn_plugin.cli.options import FILE, option_group
from yarn_plugin.cli.progress import progress_bar
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.decide.policies.sides import SIDE_POLICIES
from yarn_plugin.drive.job_runs import CELL_POLICIES, PRIVATE, simulate_cells, simulate_private, simulate_sides
from yarn_plugin.drive.job_simulator import Order
from yarn_plugin.drive.registry import installed
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.topology import NODE
from yarn_plugin.quantities import count
from yarn_plugin.report import write
from yarn_plugin.simulation.cluster import load as load_cluster
from yarn_plugin.simulation.figures import ALL, JobFigures, job_figures
from yarn_plugin.simulation.jobs import allox_file, trace
from yarn_plugin.simulation.jobs.exchange import Exchanged, exchange_nodes
from yarn_plugin.simulation.jobs.job import Job, JobWorkload
from yarn_plugin.simulation.jobs.virtual_clusters import (
    GPUS_PER_NODE,
    by_gpu_time,
    gpus_of,
    node_size,
    private_clusters,
    topology_of,
)
from yarn_plugin.simulation.outcome import JobOutcome, Outcome
from yarn_plugin.simulation.page import JOBS, page
from yarn_plugin.simulation.result import Result
from yarn_plugin.validation import one_of

COLUMNS_OF_CELLS = (
    "policy", "virtual cluster", "#ended", "#mean wait min", "#later", "#later min", "#worst min", "#preempted",
    "#lost GPU h", "#in use", "#fragmentation",
)  # fmt: skip
COLUMNS_OF_EXCHANGE = (
    "virtual cluster", "#own GPU h", "#given GPU h", "#taken GPU h", "#lost GPU h", "#gain", "#later",
)  # fmt: skip
COLUMNS_OF_SIDES = (
    "policy", "user", "#ended", "#mean JCT s", "#worst 1% s", "#makespan s", "#on GPUs", "#in use", "#spread",
)  # fmt: skip


job_options = option_group(
    click.option(
        "--vcs", type=FILE, help="Jobs of a trace: file of the cells and the virtual clusters that submit them."
    ),
    click.option(
        "--load",
        type=console.Number(0, 100, min_open=True),
        help="Jobs, instead of --vcs: give each virtual cluster so many nodes of 8 GPUs that its jobs keep this "
        "fraction of them busy.",
    ),
    click.option(
        "--from-day", type=click.IntRange(0), default=0, show_default=True, help="Jobs: leave out earlier days."
    ),
    click.option("--days", type=click.IntRange(1), help="Jobs: leave out later days.  [default: none]"),
    click.option("--largest", type=click.IntRange(1), help="Jobs: only the virtual clusters with the most GPU time."),
    click.option("--low-priority", is_flag=True, help="Jobs: those that wait run as opportunistic work meanwhile."),
    click.option(
        "--exchange",
        is_flag=True,
        help="Jobs: also count what virtual clusters of whole nodes gain by exchanging unused ones every hour.",
    ),
    click.option(
        "--alpha",
        type=console.Number(0, 1),
        default=0.3,
        show_default=True,
        help="Jobs on GPUs or cores: the fraction of the users, those with the least progress, whose jobs may start.",
    ),
    click.option(
        "--sample-share",
        type=console.Number(0, 1),
        default=0.0,
        show_default=True,
        help="Jobs on GPUs or cores: how long they take is not known, but measured first by short runs "
        "(samples) on at most this fraction of the machines; 0: it is known.",
    ),
    click.option(
        "--barrier",
        is_flag=True,
        help="Jobs on GPUs or cores: none starts before the samples of all that arrived with it have ended.",
    ),
)
"""Of workloads of jobs alone; a parameter is called as its field of `JobOptions`."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a simulation of jobs. `vcs`: the file of cells; or `load`: quotas follow from GPU time. `days`,
    `from_day`, `largest`: which jobs of a trace (see `trace.read`). `low_priority`: jobs that wait run beside others'
    cells meanwhile. `exchange`: also count what virtual clusters gain by exchanging nodes. `alpha`: of AlloX.
    `sample_share`, `barrier`: see `simulate_sides`."""

    vcs: Path | None
    load: float | None
    days: int | None
    from_day: int
    largest: int | None
    low_priority: bool
    exchange: bool
    alpha: float
    sample_share: float
    barrier: bool

    @property
    def is_of_cells(self) -> bool:
        """Whether virtual clusters are given."""
        return self.vcs is not None or self.load is not None


def is_of_jobs(workload_file: Path, options: JobOptions) -> bool:
    """Whether a simulation is one of jobs: by its virtual clusters, or by the format of its workload."""
    return options.is_of_cells or allox_file.is_allox(workload_file)


def simulate(
    workload_file: Path,
    cluster_file: Path | None,
    policies: Sequence[str],
    options: JobOptions,
    json_file: Path | None,
    report_file: Path | None,
) -> None:
    """Simulate jobs under every policy; print, and write, the figures of each.

    Raises:
        ReportedError: a file, a policy or an option is wrong, or a simulation cannot go on.
    """
    where = f"--workload {str(workload_file)!r}"
    known = CELL_POLICIES if options.is_of_cells else tuple(SIDE_POLICIES)
    for policy in policies:
        if policy not in known:
            raise BadInputError("--policy", policy, one_of(known, policy))
    if options.barrier and not options.sample_share:
        raise BadInputError("--barrier", True, "must be left out without --sample-share: no job is sampled")
    registry = installed()
    private: dict[str, Outcome] = {}
    size = 0
    if options.is_of_cells:
        spec, workload = _cells(where, workload_file, options)
        # Private clusters are what others are compared with.
        policies = tuple(dict.fromkeys((*policies, PRIVATE)))
        order: Order = "low_priority" if options.low_priority else "fifo"
        if options.exchange:
            size = _exchanged_size(spec, options)

        def run(policy: str, on_ended: Callable[[int], None]) -> Outcome:
            keeps_holdings = report_file is not None
            if policy == PRIVATE:
                private.update(simulate_private(registry, spec, workload.jobs, order, on_ended, keeps_holdings))
                return Outcome.together(list(private.values()))
            return simulate_cells(policy, registry, spec, workload.jobs, order, on_ended, keeps_holdings)

    else:
        if cluster_file is None:
            raise BadInputError("--cluster", "", "must be a file of nodes: GPUs, and cores for jobs without one")
        workload = allox_file.read(where, workload_file)
        nodes = load_cluster(cluster_file, registry).machines()

        def run(policy: str, on_ended: Callable[[int], None]) -> Outcome:
            return simulate_sides(policy, registry, nodes, workload.jobs, options.alpha, on_ended,
                                  options.sample_share, options.barrier)  # fmt: skip

    for note in workload.notes:
        console.err.print(f"note: {note}")
    runs = _run_all(policies, workload.jobs, run)
    exchanged = exchange_nodes(private, size) if options.exchange else []
    _report(workload_file, runs, exchanged, options, json_file, report_file)


def _exchanged_size(spec: ClusterSpec, options: JobOptions) -> int:
    """The GPUs of the nodes that are exchanged: all nodes must be alike, and quotas whole nodes."""
    if options.low_priority:
        raise BadInputError("--exchange", "", "must be without --low-priority, which uses the same nodes")
    sizes = {
        cell.capacity[GPU]
        for cells in (spec, *dict(private_clusters(spec)).values())
        for cell in topology_of(cells).at(NODE)
    }
    if len(sizes) > 1:
        shown = ", ".join(map(str, sorted(sizes)))
        raise BadInputError("--exchange", "", f"must be with quotas of whole nodes of one size, not of {shown} GPUs")
    return sizes.pop()


def _cells(where: str, workload_file: Path, options: JobOptions) -> tuple[ClusterSpec, JobWorkload]:
    """The virtual clusters, and the jobs that can run in them."""
    given = None if options.vcs is None else read_cells(f"--vcs {str(options.vcs)!r}", options.vcs)
    size = GPUS_PER_NODE if given is None else node_size(given)
    workload = trace.read(where, workload_file, size, options.from_day, options.days, options.largest)
    if not workload.jobs:
        raise BadInputError("--days", options.days, f"must be days with jobs, counted from day {options.from_day}")
    if given is None:
        assert options.load is not None
        return by_gpu_time(workload.jobs, options.load), workload
    room = {name: gpus_of(given, name) for name in given.clusters}
    jobs = tuple(job for job in workload.jobs if job.gpus <= room.get(job.tenant, 0))
    left = len(workload.jobs) - len(jobs)
    if not jobs:
        raise BadInputError("--vcs", str(options.vcs), f"must have virtual clusters of the workload's jobs, such as "
                            f"{workload.jobs[0].tenant}")  # fmt: skip
    note = f"left out {count(left, 'job')} without a virtual cluster that has room for them"
    return given, JobWorkload(jobs, (*workload.notes, *((note,) if left else ())))


def _run_all(
    policies: Sequence[str], jobs: Sequence[Job], run: Callable[[str, Callable[[int], None]], Outcome]
) -> list[Result]:
    runs = []
    with progress_bar("jobs") as bar:
        task = bar.add_task("", total=len(policies) * len(jobs))
        for place, policy in enumerate(policies):
            started, before = time.perf_counter(), place * len(jobs)
            outcome = run(policy, lambda ended, before=before: bar.update(task, completed=before + ended))  # type: ignore[misc]
            runs.append(Result(policy, 0, outcome, time.perf_counter() - started))
    return runs


def _report(
    workload_file: Path,
    runs: Sequence[Result],
    exchanged: Sequence[Exchanged],
    options: JobOptions,
    json_file: Path | None,
    report_file: Path | None,
) -> None:
    private = next(({job.number: job for job in run.outcome.jobs} for run in runs if run.policy == PRIVATE), None)
    made = [(run, tenant, job_figures(jobs, private)) for run in runs for tenant, jobs in _by_tenant(run.outcome)]
    columns, row = (COLUMNS_OF_CELLS, _row_of_cells) if options.is_of_cells else (COLUMNS_OF_SIDES, _row_of_sides)
    rows = [row(*one) for one in made]
    console.out.print(console.table(None, columns, rows))
    if exchanged:
        console.out.print(console.table(None, COLUMNS_OF_EXCHANGE, [_row_of_exchange(one) for one in exchanged]))
    for run in runs:
        if run.outcome.unfinished:
            console.err.print(f"note: {run.policy}: {count(run.outcome.unfinished, 'job')} never ended")
    if json_file is not None:
        gains = [{"policy": "exchange", "workload": workload_file.stem, **asdict(one), "gain": one.gain}
                 for one in exchanged]  # fmt: skip
        console.write_json(json_file, [*(_record(workload_file, *one) for one in made), *gains])
    if report_file is not None:
        write(page(JOBS, runs, workload_file.name, columns, rows), report_file)


def _by_tenant(outcome: Outcome) -> list[tuple[str, list[JobOutcome]]]:
    """The jobs of each tenant, and of all together."""
    tenants: dict[str, list[JobOutcome]] = {}
    for job in outcome.jobs:
        tenants.setdefault(job.group, []).append(job)
    return [*sorted(tenants.items()), (ALL, list(outcome.jobs))]


def _record(workload_file: Path, run: Result, tenant: str, its: JobFigures) -> dict[str, Any]:
    """A row of `--json`."""
    of_all = {"utilisation": run.outcome.utilisation, "progress_spread": run.outcome.progress_spread,
              "fragmentation": run.outcome.fragmentation, "makespan_s": run.outcome.ended_at,
              "wall_s": run.wall_s} if tenant == ALL else {}  # fmt: skip
    return {"policy": run.policy, "workload": workload_file.stem, "tenant": tenant, **asdict(its), **of_all}


def _row_of_cells(run: Result, tenant: str, its: JobFigures) -> tuple[str, ...]:
    return (
        str(run.policy), tenant, f"{its.jobs:,}", _shown(its.mean_wait_s, 60), f"{its.later or 0:,}",
        _shown(its.later_s, 60), _shown(its.worst_later_s, 60), f"{its.preempted:,}", _shown(its.lost_gpu_s, 3600),
        f"{run.outcome.utilisation:.0%}" if tenant == ALL else "",
        f"{run.outcome.fragmentation:.0%}" if tenant == ALL else "",
    )  # fmt: skip


def _row_of_exchange(one: Exchanged) -> tuple[str, ...]:
    hours = (f"{amount:,.0f}" for amount in (one.own, one.given, one.taken, one.lost))
    return one.tenant, *hours, f"{one.gain:.1%}", f"{one.later:,}"


def _row_of_sides(run: Result, tenant: str, its: JobFigures) -> tuple[str, ...]:
    jobs = [job for job in run.outcome.ended if tenant in (ALL, job.group)]
    on_gpus = sum(job.alternative == 0 for job in jobs) / max(len(jobs), 1)
    return (
        str(run.policy), tenant, f"{its.jobs:,}", _shown(its.mean_completion_s, 1), _shown(its.worst_percent_s, 1),
        _shown(max((job.ended_at for job in jobs if job.ended_at is not None), default=None), 1),
        f"{on_gpus:.0%}", f"{run.outcome.utilisation:.0%}" if tenant == ALL else "",
        f"{run.outcome.progress_spread:.4f}" if tenant == ALL else "",
    )  # fmt: skip


def _shown(seconds: float | None, unit_s: float) -> str:
    return "-" if seconds is None or seconds == inf else f"{seconds / unit_s:,.1f}"
