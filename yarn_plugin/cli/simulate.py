"""`yarn-plugin simulate`."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from yarn_plugin import console
from yarn_plugin.cli import simulate_jobs, simulate_training
from yarn_plugin.cli.options import FILE, json_option
from yarn_plugin.cli.progress import progress_bar
from yarn_plugin.cli.simulate_jobs import JobOptions, is_of_jobs, job_options
from yarn_plugin.cli.simulate_training import Seeds, TrainingOptions, is_training, training_options
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.simulator import Simulation
from yarn_plugin.drive.virtual_time import UncompactedJournal
from yarn_plugin.errors import BadInputError
from yarn_plugin.files import PRIVATE_MODE, write
from yarn_plugin.report import write as write_report
from yarn_plugin.simulation import workload as workloads
from yarn_plugin.simulation.application import installed_kinds
from yarn_plugin.simulation.cluster import load
from yarn_plugin.simulation.figures import group_columns, group_rows, record, totals
from yarn_plugin.simulation.page import CONTAINERS, page
from yarn_plugin.simulation.result import Result
from yarn_plugin.simulation.scheduler_queues import QueueTree
from yarn_plugin.simulation.scheduler_queues import load as load_queues

OF_CONTAINERS = "for workloads of applications in containers only"

Options = TypeVar("Options", JobOptions, TrainingOptions)


@click.command(context_settings=console.CONTEXT)
@click.option(
    "--workload",
    "workload_file",
    type=FILE,
    required=True,
    help="Applications, or jobs, and when they arrive (see above).",
)
@click.option(
    "--cluster",
    "cluster_file",
    type=FILE,
    help="Nodes, pools, failures (TOML); or, for training, machines with GPUs. Required, except with --vcs or --load.",
)
@click.option(
    "--policy",
    metavar="NAME[,NAME]",
    help="Policy of every pool, such as max_min.  [default: as in the cluster file]  For training: policies to "
    "compare, such as themis,tiresias.  [default: themis]",
)
@click.option(
    "--queues",
    type=FILE,
    help="Stock YARN instead of the arbiter: the queues of a capacity-scheduler.xml, or of a queue file (TOML).",
)
@click.option(
    "--seed",
    type=Seeds(),
    default="0",
    show_default=True,
    help="Seed of all random draws; for training several, such as 0-4.",
)
@json_option
@click.option(
    "--journal", "journal_file", type=FILE, help="Also write the arbiter's journal to FILE, for `yarn-plugin replay`."
)
@click.option("--report", "report_file", type=FILE, help="Also write a page with charts to FILE (HTML).")
@training_options
@job_options
@click.pass_context
def simulate(
    context: click.Context,
    /,
    workload_file: Path,
    cluster_file: Path | None,
    policy: str | None,
    queues: Path | None,
    seed: tuple[int, ...],
    json_file: Path | None,
    journal_file: Path | None,
    report_file: Path | None,
    **of_kind: Any,
) -> None:
    """Simulate a workload on a cluster: what the arbiter would do in a day, within seconds.

    The decisions are made by the arbiter's own code; YARN, the nodes and the applications are simulated in virtual
    time. Needs neither a cluster nor the network. The same files and seed give the same result.

    \b
    CLUSTER                           WORKLOAD
    [[nodes]]                         [[applications]]
    count = 1000                      kind = "batch"
    memory_mb = 65536                 arrival_s = 60
    vcores = 16                       core_seconds = 36000
                                      max_cores = 100

    \b
    The kinds of applications are batch and qoop (SQL that replans). A workload can also be generated:
    applications over a day, sizes drawn from distributions. docs/simulator.md describes every field.
    Start from the files in docs/examples/ of the source tree:
      yarn-plugin simulate --cluster docs/examples/cluster.toml --workload docs/examples/day.toml --report day.html

    The table shows completion times (arrival to end) in seconds. slowdown: completion time relative to running alone
    on the whole cluster. fairness: Jain's index of the slowdowns, 1 if all applications are slowed down equally.

    Against stock YARN: --queues simulates your own queues, without the arbiter. Nobody registers; an application is
    in the queue that its field `queue` or queue-mappings name, the one with the name of its user, or default.

    \b
      yarn-plugin simulate --queues capacity-scheduler.xml --cluster cluster.toml --workload day.toml

    \b
    A workload of training applications leases GPUs, under several policies and seeds in parallel:
      yarn-plugin simulate --policy themis,drf --cluster docs/examples/gpus.toml --workload docs/examples/search.toml
    Known by name: the clusters themis-32, themis-64, themis-256, philly-2232, and the generated workloads themis-1,
    themis-2. docs/training-workloads.md describes the files.

    The table shows times in minutes. rho: completion time relative to a fair part of the cluster, 1 or less if fair.

    \b
    Jobs of a trace in virtual clusters, beside quotas of GPUs and private clusters:
      yarn-plugin simulate --policy cells,quota --vcs cells.toml --workload philly.csv
      yarn-plugin simulate --policy cells,quota --load 0.9 --days 30 --workload philly.csv

    later: jobs that wait more than a minute longer than in a private cluster, by how long in all, and at most.

    \b
    Jobs that run on a GPU or on cores, in the format of the AlloX authors' simulator:
      yarn-plugin simulate --policy allox,drff,srpt --cluster nodes.toml --workload jobs.txt
    Policies: allox, as the arbiter has it, and the baselines of its evaluation: allox_plus, srpt, sjf, sjf_plus,
    jsq_plus, bf, es, drff, drfs, drfa. JCT: time from arrival to end.
    """
    if queues is not None and policy is not None:
        raise BadInputError("--policy", policy, "must be left out beside --queues: stock YARN has no arbiter's policy")
    of_jobs, of_training = _chosen(JobOptions, of_kind), _chosen(TrainingOptions, of_kind)
    if is_of_jobs(workload_file, of_jobs):
        names = tuple(dict.fromkeys((policy or ("cells" if of_jobs.is_of_cells else "allox")).split(",")))
        _refuse(context, _names(TrainingOptions), "for training workloads only")
        _refuse(context, ("queues",), OF_CONTAINERS)
        simulate_jobs.simulate(workload_file, cluster_file, names, of_jobs, json_file, report_file)
        return
    _refuse(context, _names(JobOptions), "for jobs only, which --vcs or --load or a .txt workload is for")
    if cluster_file is None:
        raise BadInputError("--cluster", "", "must be a file of nodes, or the name of a cluster for training")
    if is_training(workload_file):
        _refuse(context, ("queues",), OF_CONTAINERS)
        if journal_file is not None:
            raise BadInputError("--journal", str(journal_file), "must be left out: simulations of training keep none")
        policies = tuple(dict.fromkeys((policy or "themis").split(",")))
        simulate_training.simulate(workload_file, cluster_file, policies, seed, of_training, json_file, report_file)
        return
    # A workload that is wrong is named as such, whatever else is given.
    submissions = workloads.load(workload_file, installed_kinds(), seed[0])
    _refuse(context, _names(TrainingOptions), "for training workloads only")
    if len(seed) > 1:
        raise BadInputError("--seed", ",".join(map(str, seed)), "must be one seed")
    if queues is not None and journal_file is not None:
        raise BadInputError("--journal", str(journal_file), "must be left out beside --queues: there is no arbiter")
    tree = None if queues is None else load_queues(queues)
    on = cluster_file.name if queues is None else f"{cluster_file.name} with the queues of {queues.name}"
    about = f"{workload_file.name} on {on}, seed {seed[0]}"
    simulate_arbiter(submissions, about, cluster_file, policy, seed[0], json_file, journal_file, report_file, tree)


def _refuse(context: click.Context, options: Iterable[str], why: str) -> None:
    """Raises:
    BadInputError: one of these options is given.
    """
    flags = {param.name: param.opts[0] for param in context.command.params}
    for name in options:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise BadInputError(flags[name], context.params[name], f"must be left out: {why}")


def _names(kind: type[JobOptions] | type[TrainingOptions]) -> list[str]:
    return [field.name for field in fields(kind)]


def _chosen(kind: type[Options], given: Mapping[str, Any]) -> Options:
    return kind(**{name: given[name] for name in _names(kind)})


def simulate_arbiter(
    submissions: tuple[workloads.Submission, ...],
    about: str,
    cluster_file: Path,
    policy: str | None,
    seed: int,
    json_file: Path | None,
    journal_file: Path | None,
    report_file: Path | None,
    queues: QueueTree | None = None,
) -> None:
    """Simulate the whole arbiter with applications in containers; or stock YARN with these queues. `about`: what is
    simulated, for the report.

    Raises:
        ReportedError: a file or an option is wrong.
    """
    registry = installed()
    cluster = load(cluster_file, registry)
    journal = UncompactedJournal() if journal_file is not None else None
    started = time.perf_counter()
    with progress_bar("applications") as bar:
        task = bar.add_task("", total=len(submissions))

        def on_finished(count: int) -> None:
            bar.update(task, completed=count)

        simulation = Simulation(
            cluster, submissions, policy, seed, registry, journal, on_finished=on_finished, queues=queues
        )
        outcome = simulation.run()
    result = Result(policy, seed, outcome, time.perf_counter() - started)
    columns, rows, lines = group_columns(outcome), group_rows(outcome), totals(outcome, result.wall_s)
    console.out.print(console.table(None, columns, rows))
    for line in lines:
        console.out.print(line)
    if json_file is not None:
        console.write_json(json_file, record(outcome, result.wall_s, policy, seed))
    if journal is not None and journal_file is not None:
        write(journal_file, journal.content(), PRIVATE_MODE)
    if report_file is not None:
        notes = [f"{line[0].upper()}{line[1:]}." for line in lines]
        write_report(page(CONTAINERS, [result], about, columns, rows, notes), report_file)
