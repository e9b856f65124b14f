"""`make demo`: a query that changes its plan in mid-flight when its share of the cluster changes."""

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
from tpcds.demo.cluster import CPU_PER_NODE, NODE_MEMORY_MB, NODE_VCORES, NODES, DemoError, Stage, sampling, stage
from tpcds.demo.record import Environment, Run, Scene, Story
from tpcds.demo.report import write_report
from tpcds.demo.runs import Submitted, Wanted, began, stage_finished
from tpcds.reference import DuckDbEngine
from yarn_plugin import console
from yarn_plugin.console import out
from yarn_plugin.errors import BadInputError

PACKAGES = ("pyspark", "duckdb", "sqlglot")
MARK = ".demo"
"""Marks a folder as a demo's, which the next one may replace."""


class Player:
    """Plays the scenes on a stage, one after the other."""

    def __init__(self, on: Stage, data: DataSet, duckdb: DuckDbEngine, queries: tuple[int, int]) -> None:
        self._stage, self._data, self._duckdb = on, data, duckdb
        self._a, self._b = queries
        self._delay = 0.0

    def switching(self) -> Scene:
        """A begins alone; when its first stage has finished, B arrives."""
        with self._scene("switching") as (folder, samples):
            a = self._submit("A", self._a, True, folder)
            if not a.await_moment(began):
                raise DemoError(f"query {self._a} (A) ended before it began: see {folder / 'A' / 'log'}")
            query_began = time.time()
            a.await_moment(stage_finished)
            self._delay = time.time() - query_began
            out.print(f"  A has finished its first stage after {self._delay:.0f} s; B arrives")
            return self._both(a, folder, samples)

    def fixed(self) -> Scene:
        """The same, A as written: B arrives as long after A's beginning as before."""
        with self._scene("fixed") as (folder, samples):
            a = self._submit("A", self._a, False, folder)
            if a.await_moment(began):
                time.sleep(self._delay)
            return self._both(a, folder, samples)

    def alone(self) -> Scene:
        """A without B."""
        with self._scene("alone") as (folder, samples):
            run = self._end(self._submit("A", self._a, True, folder))
            return Scene(runs=(run,), samples=samples)

    def _both(self, a: Submitted, folder: Path, samples: Path) -> Scene:
        b = self._submit("B", self._b, True, folder)
        try:
            # B's end gives A its share back, so whoever ends first is waited for first by nobody: both run on.
            return Scene(runs=(self._end(a), self._end(b)), samples=samples)
        finally:
            a.stop()
            b.stop()

    def _submit(self, name: str, query: int, switching: bool, folder: Path) -> Submitted:
        return Submitted(self._stage, self._data, Wanted(name, query, switching), folder / name)

    def _end(self, submitted: Submitted) -> Run:
        try:
            run = submitted.finish(self._duckdb, self._data, self._stage.folder)
        finally:
            submitted.stop()
        equal = "equal to DuckDB" if run.equal_to_duckdb else "NOT equal to DuckDB"
        out.print(f"  {run.name} (query {run.query}): {run.seconds:.1f} s, {run.rows} rows, {equal}")
        return run

    @contextmanager
    def _scene(self, name: str) -> Iterator[tuple[Path, Path]]:
        folder = self._stage.folder / name
        folder.mkdir()
        samples = folder / "samples.jsonl"
        with sampling(self._stage, samples):
            yield folder, samples.relative_to(self._stage.folder)


@click.command(context_settings=console.CONTEXT)
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), default=Path("out/demo"), show_default=True, help="Where to."
)
@click.option("--scale", default="6", show_default=True, help="The scale of TPC-DS's data.")
@click.option("--query-a", type=click.IntRange(1, 99), default=72, show_default=True, help="The query that switches.")
@click.option("--query-b", type=click.IntRange(1, 99), default=12, show_default=True, help="The query that arrives.")
def demo(folder: Path, scale: str, query_a: int, query_b: int) -> int:
    """Play the story on a real YARN cluster of four nodes with half a core each, and write a report of it.

    Query A runs alone; query B arrives and halves its share; A is told at once and takes the plan that now ends first,
    reusing what it has. The same is run with A's switching off, and A without B. Takes a few minutes; ends with 1 when
    an answer was wrong or A kept its plan all the way.
    """
    folder = _fresh(folder.resolve())
    out.print(f"data: TPC-DS at scale {scale}")
    data = datasets.open_data(datasets.ensure(datasets.parse_scale(scale)))
    duckdb = DuckDbEngine(data)
    try:
        story = _play(folder, data, duckdb, datasets.parse_scale(scale), (query_a, query_b))
    finally:
        duckdb.close()
    (folder / "story.json").write_text(story.model_dump_json(indent=2) + "\n")
    write_report(folder / "story.json", folder / "report.html")
    return _verdict(story, folder)


def _fresh(folder: Path) -> Path:
    """An empty folder; one that an earlier demo left is made anew, any other is refused.

    Raises:
        BadInputError: it holds something else.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise BadInputError("--out", str(folder), "holds something that is no demo's; name another folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return folder


def _play(folder: Path, data: DataSet, duckdb: DuckDbEngine, scale: float, queries: tuple[int, int]) -> Story:
    out.print(f"cluster: {NODES} nodes, {CPU_PER_NODE:g} cores each, and an arbiter")
    with stage(folder) as on:
        player = Player(on, data, duckdb, queries)
        out.print("scene 1: A, and B arrives in its middle")
        switching = player.switching()
        out.print("scene 2: the same, A's switching off")
        fixed = player.fixed()
        out.print("scene 3: A alone")
        alone = player.alone()
        return Story(
            scale=scale, switching=switching, fixed=fixed, alone=alone, environment=_environment(on), notes=_notes()
        )


def _environment(on: Stage) -> Environment:
    return Environment(
        versions={"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        machine_cores=os.cpu_count() or 1,
        machine_memory_mb=psutil.virtual_memory().total // 2**20,
        nodes=NODES,
        node_vcores=NODE_VCORES,
        node_memory_mb=NODE_MEMORY_MB,
        cpu_per_node=CPU_PER_NODE,
        quotas=on.quotas,
        executor="1 core, 1408 MB with overhead, one a node",
    )


def _notes() -> tuple[str, ...]:
    return (
        "Every run is a Spark application of its own, with cold executors: first stages are slow for that reason too.",
        "B arrives when A's first stage has finished; with A's switching off, as long after A's beginning as then.",
    )


def _verdict(story: Story, folder: Path) -> int:
    runs = [run for _, scene in story.scenes() for run in scene.runs]
    from qoop.report import read

    record = read(folder / str(story.switching.runs[0].journal))
    switches = len(record.switches)
    rows = [
        (name, f"{scene.runs[0].seconds:.1f}", "yes" if all(run.equal_to_duckdb for run in scene.runs) else "NO")
        for name, scene in story.scenes()
    ]
    out.print(console.table(None, ("query A", "#seconds", "answers equal to DuckDB"), rows))
    out.print(f"switches of A: {switches}; report: {folder / 'report.html'}", soft_wrap=True)
    if not all(run.equal_to_duckdb for run in runs):
        raise DemoError("an answer differs from DuckDB's: see the report")
    if not switches:
        raise DemoError("A kept its plan in this run: nothing was worth a switch; run it again on a quieter machine")
    return 0


def main() -> None:
    """The entry point."""
    sys.exit(console.run(demo, "tpcds.demo"))


if __name__ == "__main__":
    main()
