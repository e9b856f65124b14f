"""The command of `make demo`."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import click
import psutil

from tpcds import data as datasets
from tpcds.data import DataSet
from tpcds.demo.cluster import (
    CPU_PER_NODE,
    NODE_MEMORY_MB,
    NODE_VCORES,
    NODES,
    DemoCluster,
    DemoError,
    demo_cluster,
    sampling,
)
from tpcds.demo.record import DemoRecord, Environment, Run, Scenario
from tpcds.demo.report import write_report
from tpcds.demo.runs import RunSpec, SubmittedQuery, query_started, stage_finished
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

    def switching(self) -> Scenario:
        """A starts alone; B arrives when A's first stage has finished."""
        with self._scenario("switching") as (folder, samples):
            a = self._submit("A", self._a, True, folder)
            if not a.wait_for(query_started):
                raise DemoError(
                    f"query {self._a} (A) exited before its first plan was made; see {folder / 'A' / 'log'}"
                )
            started_at = time.time()
            a.wait_for(stage_finished)
            self._arrival_delay_s = time.time() - started_at
            out.print(f"  first stage of A finished after {self._arrival_delay_s:.0f} s; submitting B")
            return self._both(a, folder, samples)

    def fixed(self) -> Scenario:
        """The same with switching off for A; B arrives as long after A's start as in `switching`."""
        with self._scenario("fixed") as (folder, samples):
            a = self._submit("A", self._a, False, folder)
            if a.wait_for(query_started):
                time.sleep(self._arrival_delay_s)
            return self._both(a, folder, samples)

    def alone(self) -> Scenario:
        """A without B."""
        with self._scenario("alone") as (folder, samples):
            run = self._result(self._submit("A", self._a, True, folder))
            return Scenario(runs=(run,), samples=samples)

    def _both(self, a: SubmittedQuery, folder: Path, samples: Path) -> Scenario:
        b = self._submit("B", self._b, True, folder)
        try:
            return Scenario(runs=(self._result(a), self._result(b)), samples=samples)
        finally:
            a.stop()
            b.stop()

    def _submit(self, name: str, query: int, switching: bool, folder: Path) -> SubmittedQuery:
        return SubmittedQuery(self._cluster, self._data, RunSpec(name, query, switching), folder / name)

    def _result(self, submitted: SubmittedQuery) -> Run:
        try:
            run = submitted.finish(self._duckdb, self._data, self._cluster.folder)
        finally:
            submitted.stop()
        equal = "equal to DuckDB" if run.equal_to_duckdb else "NOT equal to DuckDB"
        rows = count(run.rows, "row")
        out.print(f"  {run.name} (query {run.query}): {run.seconds:.1f} s, {rows}, {equal}")
        return run

    @contextmanager
    def _scenario(self, name: str) -> Iterator[tuple[Path, Path]]:
        folder = self._cluster.folder / name
        folder.mkdir()
        samples = folder / "samples.jsonl"
        with sampling(self._cluster, samples):
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
def demo(folder: Path, scale: str, query_a: int, query_b: int) -> int:
    """Run the demo on a real YARN cluster of four nodes with half a core each, and write a report.

    Start it with `python -m tpcds.demo`, or with `make demo` in a clone.

    Query A runs alone until query B arrives and halves its share. The arbiter notifies A at once; A switches to the
    plan with the earliest estimated completion and reuses finished stages. For comparison, A also runs with switching
    off, and without B. The exit code is 1 if an answer is wrong or A never switched its plan.

    Needs Linux, Java 17 or newer, and about 10 GB of memory. Scale 6 takes 3 GB of disk below ~/.cache/yarn-plugin and
    about 10 minutes the first time, when data is generated and Hadoop downloaded. Without permission to create cgroups,
    the nodes are not limited to half a core.
    """
    size = datasets.parse_scale(scale)
    folder = _empty_folder(folder.resolve())
    out.print(f"data: TPC-DS at scale {scale}")
    data = datasets.open_data(datasets.ensure(size))
    duckdb = DuckDbEngine(data)
    try:
        record = _run(folder, data, duckdb, size, (query_a, query_b))
    finally:
        duckdb.close()
    (folder / "demo.json").write_text(record.model_dump_json(indent=2) + "\n")
    write_report(folder / "demo.json", folder / "report.html")
    return _verdict(record, folder)


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
    out.print(f"cluster: {NODES} nodes with {CPU_PER_NODE:g} cores each, and the arbiter")
    with demo_cluster(folder) as cluster:
        runner = ScenarioRunner(cluster, data, duckdb, queries)
        out.print("scenario 1 of 3: B arrives while A runs; A may switch its plan")
        switching = runner.switching()
        out.print("scenario 2 of 3: the same with switching off for A")
        fixed = runner.fixed()
        out.print("scenario 3 of 3: A alone")
        alone = runner.alone()
        return DemoRecord(
            scale=scale,
            switching=switching,
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
        nodes=NODES,
        node_vcores=NODE_VCORES,
        node_memory_mb=NODE_MEMORY_MB,
        cpu_per_node=CPU_PER_NODE,
        quotas=cluster.quotas,
        executor="1 core, 1408 MiB including overhead; one per node",
    )


def _notes() -> tuple[str, ...]:
    return (
        "Each run is a separate Spark application with cold executors, which slows down its first stages.",
        "B arrives when A's first stage has finished; with switching off, after the same delay from A's start.",
    )


def _verdict(demo: DemoRecord, folder: Path) -> int:
    runs = [run for _, scenario in demo.scenarios() for run in scenario.runs]
    from qoop.report import read_journal

    record = read_journal(folder / str(demo.switching.runs[0].journal))
    switches = len(record.switches)
    rows = [
        (name, f"{scenario.runs[0].seconds:.1f}", "yes" if all(run.equal_to_duckdb for run in scenario.runs) else "NO")
        for name, scenario in demo.scenarios()
    ]
    out.print(console.table(None, ("query A", "#seconds", "answers equal to DuckDB"), rows))
    out.print(f"switches of A: {switches}; report: {folder / 'report.html'}", soft_wrap=True)
    if not all(run.equal_to_duckdb for run in runs):
        raise DemoError(f"an answer differs from DuckDB's; see {folder / 'report.html'}")
    if not switches:
        raise DemoError(
            "A never switched its plan; no other plan would have finished sooner; try again on a less busy machine"
        )
    return 0


def main() -> None:
    """Run the command."""
    sys.exit(console.run(demo, "tpcds.demo"))


if __name__ == "__main__":
    main()
