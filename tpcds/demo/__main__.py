"""The command of `make demo`."""

import io
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
import psutil

from tpcds import data as datasets
from tpcds.data import DataSet
from tpcds.demo.cluster import FOR_QUERIES, DemoCluster, DemoError, demo_cluster, sampling
from tpcds.demo.effects import effects
from tpcds.demo.record import DemoRecord, Environment, Run, Scenario
from tpcds.demo.report import write_report
from tpcds.demo.runs import RunSpec, SubmittedQuery, Way, query_started, stage_finished
from tpcds.demo.searches import verdict as searches_verdict
from tpcds.demo.searches.page import write_page
from tpcds.demo.searches.run import run_searches
from tpcds.reference import DuckDbEngine
from yarn_plugin import console
from yarn_plugin.console import out
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count

PACKAGES = ("pyspark", "duckdb", "sqlglot")
MARKER = ".demo"
"""A file that marks a directory as a demo's output, which the next demo may replace."""


class ScenarioRunner:
    """Runs the scenarios on a cluster, one after the other."""

    def __init__(self, cluster: DemoCluster, data: DataSet, duckdb: DuckDbEngine, queries: tuple[int, int]) -> None:
        self._cluster, self._data, self._duckdb = cluster, data, duckdb
        self._a, self._b = queries
        self._arrival_delay_s = 0.0
        self._stack = ExitStack()

    def switching(self) -> Scenario:
        """A starts alone; B arrives when A's first stage has finished."""
        with self._scenario("switching") as (folder, samples):
            a = self._submit("A", self._a, "switching", folder)
            if not a.wait_for(query_started):
                raise DemoError(
                    f"query {self._a} (A) exited before its first plan was made; see {folder / 'A' / 'log'}"
                )
            started_at = time.time()
            a.wait_for(stage_finished)
            self._arrival_delay_s = time.time() - started_at
            out.print(f"  first stage of A finished after {self._arrival_delay_s:.0f} s; submitting B")
            return self._both(a, folder, samples)

    def once(self) -> Scenario:
        """The same, but A keeps its first plan; B arrives as long after A's start as in `switching`."""
        return self._beside("once", "once")

    def fixed(self) -> Scenario:
        """The same, but A runs as written; B arrives as long after A's start as in `switching`."""
        return self._beside("fixed", "written")

    def _beside(self, name: str, way: Way) -> Scenario:
        with self._scenario(name) as (folder, samples):
            a = self._submit("A", self._a, way, folder)
            if a.wait_for(query_started):
                time.sleep(self._arrival_delay_s)
            return self._both(a, folder, samples)

    def alone(self) -> Scenario:
        """A without B."""
        with self._scenario("alone") as (folder, samples):
            run = self._result(self._submit("A", self._a, "switching", folder))
            return Scenario(runs=(run,), samples=samples)

    def _both(self, a: SubmittedQuery, folder: Path, samples: Path) -> Scenario:
        b = self._submit("B", self._b, "switching", folder)
        return Scenario(runs=(self._result(a), self._result(b)), samples=samples)

    def _submit(self, name: str, query: int, way: Way, folder: Path) -> SubmittedQuery:
        submitted = SubmittedQuery(self._cluster, self._data, RunSpec(name, query, way), folder / name)
        # At the end of the scenario, also if the demo is interrupted.
        self._stack.callback(submitted.stop)
        return submitted

    def _result(self, submitted: SubmittedQuery) -> Run:
        run = submitted.finish(self._duckdb, self._data, self._cluster.folder)
        equal = "equal to DuckDB" if run.equal_to_duckdb else "NOT equal to DuckDB"
        rows = count(run.rows, "row")
        out.print(f"  {run.name} (query {run.query}): {run.seconds:.1f} s, {rows}, {equal}")
        return run

    @contextmanager
    def _scenario(self, name: str) -> Iterator[tuple[Path, Path]]:
        folder = self._cluster.folder / name
        folder.mkdir()
        samples = folder / "samples.jsonl"
        with sampling(self._cluster, samples), self._stack:
            yield folder, samples.relative_to(self._cluster.folder)


@click.command(context_settings=console.CONTEXT)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    metavar="DIR",
    help="Output directory; the output of an earlier demo in it is replaced.",
)
@click.option("--scale", default="6", show_default=True, metavar="SCALE", help="TPC-DS scale factor.")
@click.option("--query-a", type=click.IntRange(1, 99), default=72, show_default=True, help="Number of query A.")
@click.option("--query-b", type=click.IntRange(1, 99), default=12, show_default=True, help="Number of query B.")
@click.option(
    "--only",
    type=click.Choice(("queries", "searches")),
    help="Run one part: the queries, or the searches with query B beside them.  [default: both]",
)
def demo(folder: Path, scale: str, query_a: int, query_b: int, only: str | None) -> None:
    """Run the demo on real YARN clusters on this machine, and write two reports.

    Start it with `python -m tpcds.demo`, or with `make demo` in a clone.

    Queries, on four nodes with half a core each: query A runs alone until query B arrives and halves its share. The
    arbiter notifies A at once; if another plan would finish sooner, although estimates may be wrong, A switches to it
    and reuses finished stages. For comparison, A also runs with its first plan to the end, as written, and without B.

    Searches: three Hyperband searches with real training in JAX bid for the GPUs of two nodes, which YARN only counts,
    in auctions (Themis). The same arbiter divides two other nodes among queries, where query B runs meanwhile.

    The exit code is 1 if an answer is wrong, a search failed, or A never switched and took as long as it does as
    written.

    Ctrl-C or SIGTERM ends it and all that it has started. `make` passes a SIGTERM on to it, but no SIGINT that is sent
    to `make` alone.

    Needs Linux, Java 17 or newer, and about 10 GB of memory. Scale 6 takes 3 GB of disk below ~/.cache/yarn-plugin and
    10 to 20 minutes the first time, when data is generated and Hadoop downloaded. Without permission to create cgroups,
    the nodes are not limited to half a core.
    """
    size = datasets.parse_scale(scale)
    if only != "queries" and (find_spec("jax") is None or find_spec("sklearn") is None):
        raise DemoError("the searches train with jax and scikit-learn; install the extra [jax], or give --only queries")
    folder = _empty_folder(folder.resolve())
    out.print(f"data: TPC-DS at scale {scale}")
    data = datasets.open_data(datasets.ensure(size))
    _read_once(data)
    duckdb = DuckDbEngine(data)
    problems: list[str] = []
    try:
        if only != "searches":
            problems += _queries(folder, data, duckdb, size, (query_a, query_b))
        if only != "queries":
            problems += _searches(folder, data, duckdb, query_b)
    finally:
        duckdb.close()
    if problems:
        raise DemoError("; ".join(problems))


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """End at once what was started, on the first SIGINT or SIGTERM; further ones do not interrupt that.

    Also where a shell has started the demo in the background, and SIGINT would be ignored.
    """
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


def _queries(folder: Path, data: DataSet, duckdb: DuckDbEngine, scale: float, queries: tuple[int, int]) -> list[str]:
    """Run the queries and write their report; returns what is wrong."""
    record = _run(folder, data, duckdb, scale, queries)
    record.write(folder / "demo.json")
    write_report(folder / "demo.json", folder / "report.html")
    return list(_verdict(record, folder))


def _read_once(data: DataSet) -> None:
    """Read all files, so that the first run does not wait for the disk where the others find them in memory."""
    for file in sorted(data.path.rglob("*.parquet")):
        with file.open("rb") as content:
            while content.read(2**24):
                pass


def _searches(folder: Path, data: DataSet, duckdb: DuckDbEngine, query: int) -> list[str]:
    """Run the searches and write their page; returns what is wrong."""
    record = run_searches(folder / "searches", data, duckdb, query)
    record.write(folder / "searches.json")
    write_page(folder / "searches.json", folder / "searches.html")
    return list(searches_verdict.print_verdict(record, folder / "searches.html"))


def _empty_folder(folder: Path) -> Path:
    """The folder, created or emptied; only the output of an earlier demo is removed.

    Raises:
        BadInputError: it contains other files.
        DemoError: it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise DemoError(f"--out {str(folder)!r}: must be a directory, not a file")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARKER).exists():
            raise BadInputError(
                "--out", str(folder), "must be a new directory or one of an earlier demo; this one contains other files"
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    return folder


def _run(folder: Path, data: DataSet, duckdb: DuckDbEngine, scale: float, queries: tuple[int, int]) -> DemoRecord:
    nodes, cores = FOR_QUERIES.nodes, FOR_QUERIES.cpu_per_node
    out.print(f"cluster: {nodes} nodes with {cores:g} cores each, and the arbiter")
    with demo_cluster(folder, FOR_QUERIES) as cluster:
        runner = ScenarioRunner(cluster, data, duckdb, queries)
        out.print("scenario 1 of 4: B arrives while A runs; A may switch its plan")
        switching = runner.switching()
        out.print("scenario 2 of 4: the same, but A is planned once and never switches")
        once = runner.once()
        out.print("scenario 3 of 4: the same, but A runs as written")
        fixed = runner.fixed()
        out.print("scenario 4 of 4: A alone")
        alone = runner.alone()
        return DemoRecord(
            scale=scale,
            switching=switching,
            once=once,
            fixed=fixed,
            alone=alone,
            environment=_environment(cluster),
            notes=_notes(),
        )


def _environment(cluster: DemoCluster) -> Environment:
    return Environment(
        versions={"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        machine_cores=os.cpu_count() or 1,
        machine_memory_mb=psutil.virtual_memory().total // 2**20,
        nodes=FOR_QUERIES.nodes,
        node_vcores=FOR_QUERIES.vcores,
        node_memory_mb=FOR_QUERIES.memory_mb,
        cpu_per_node=FOR_QUERIES.cpu_per_node,
        quotas=cluster.quotas,
        executor="1 core, 1408 MiB including overhead; one per node",
    )


def _notes() -> tuple[str, ...]:
    return (
        "Each run is a separate Spark application with cold executors, which slows down its first stages.",
        "B arrives when A's first stage has finished; where A does not switch, after the same delay from A's start.",
    )


def _verdict(demo: DemoRecord, folder: Path) -> Iterator[str]:
    """Print what came out; yields what is wrong."""
    runs = [run for _, scenario in demo.scenarios() for run in scenario.runs]
    from qoop.report import read_journal

    record = read_journal(folder / str(demo.switching.runs[0].journal))
    switches = len(record.switches)
    rows = [
        (name, f"{scenario.runs[0].seconds:.1f}", "yes" if all(run.equal_to_duckdb for run in scenario.runs) else "NO")
        for name, scenario in demo.scenarios()
    ]
    out.print(console.table(None, ("query A", "#seconds", "answers equal to DuckDB"), rows))
    out.print(effects(demo.times, switches), soft_wrap=True)
    out.print(f"switches of A: {switches}; report: {folder / 'report.html'}", soft_wrap=True)
    if not all(run.equal_to_duckdb for run in runs):
        yield f"an answer differs from DuckDB's; see {folder / 'report.html'}"
    if not switches and demo.times.switching >= demo.times.written:
        yield "A never switched, and was not faster than as written; try again on a less busy machine"


def main() -> None:
    """Run the command."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Progress also appears at once in a file or a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    sys.exit(console.run(demo, "tpcds.demo"))


if __name__ == "__main__":
    main()
