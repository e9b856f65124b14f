"""`yarn-plugin simulate`."""

import time
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from yarn_plugin import console
from yarn_plugin.cli.options import json_option
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.simulator import Simulation
from yarn_plugin.drive.virtual_time import UncompactedJournal
from yarn_plugin.files import PRIVATE_MODE, write
from yarn_plugin.simulation import workload as workloads
from yarn_plugin.simulation.application import installed_kinds
from yarn_plugin.simulation.cluster import load
from yarn_plugin.simulation.outcome import columns, figures, rows, totals
from yarn_plugin.simulation.page import write_page

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings=console.CONTEXT)
@click.option(
    "--workload", "workload_file", type=FILE, required=True, help="Applications and when they arrive (TOML or CSV)."
)
@click.option("--cluster", "cluster_file", type=FILE, required=True, help="Nodes, pools, failures (TOML).")
@click.option(
    "--policy", metavar="NAME", help="Policy of every pool, such as max_min.  [default: as in the cluster file]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random draws.")
@json_option
@click.option(
    "--journal", "journal_file", type=FILE, help="Also write the arbiter's journal to FILE, for `yarn-plugin replay`."
)
@click.option("--report", "report_file", type=FILE, help="Also write a page with charts to FILE (HTML).")
def simulate(
    workload_file: Path,
    cluster_file: Path,
    policy: str | None,
    seed: int,
    json_file: Path | None,
    journal_file: Path | None,
    report_file: Path | None,
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
    """
    registry = installed()
    cluster = load(cluster_file, registry)
    submissions = workloads.load(workload_file, installed_kinds(), seed)
    journal = UncompactedJournal() if journal_file is not None else None
    started = time.perf_counter()
    with _progress() as bar:
        task = bar.add_task("", total=len(submissions))

        def on_finished(count: int) -> None:
            bar.update(task, completed=count)

        outcome = Simulation(cluster, submissions, policy, seed, registry, journal, on_finished=on_finished).run()
    wall_s = time.perf_counter() - started
    console.out.print(console.table(None, columns(outcome), rows(outcome)))
    for line in totals(outcome, wall_s):
        console.out.print(line)
    if json_file is not None:
        console.write_json(json_file, figures(outcome, wall_s, policy, seed))
    if journal is not None and journal_file is not None:
        write(journal_file, journal.content(), PRIVATE_MODE)
    if report_file is not None:
        about = f"{workload_file.name} on {cluster_file.name}, seed {seed}"
        write_page(report_file, outcome, about, wall_s)


def _progress() -> Progress:
    """A progress bar of finished applications on stderr, if it is a terminal."""
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TextColumn("applications"))
    shown = console.err.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console.err, transient=True, disable=not shown)
