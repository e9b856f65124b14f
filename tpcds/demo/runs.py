"""The demo's runs: queries submitted as a user would, timed and compared with DuckDB."""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

from qoop.run import journal
from tpcds.answers import Answer, compare
from tpcds.data import DataSet
from tpcds.demo.cluster import EXECUTOR_MEMORY, DemoCluster, DemoError, command
from tpcds.demo.record import Run
from tpcds.queries import duckdb_text, spark_text
from tpcds.reference import CachingEngine, DuckDbEngine

CONFS = {"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"}
TIMEOUT_S = 600.0


Way = Literal["switching", "once", "written"]
"""How a query runs: it may switch plans, keeps its first plan, or runs as written."""

FLAGS: dict[Way, tuple[str, ...]] = {
    "switching": (),
    # No plan saves all of the remaining time.
    "once": ("--hysteresis", "1"),
    "written": ("--no-replanning",),
}
"""The flags of `qoop submit` for each of them."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run to submit: its name, its TPC-DS query, and how it runs."""

    name: str
    query: int
    way: Way = "switching"


class SubmittedQuery:
    """A submitted query: a `qoop submit` process, with its files in a folder of its own."""

    def __init__(self, cluster: DemoCluster, data: DataSet, spec: RunSpec, folder: Path) -> None:
        self.spec, self.folder = spec, folder
        folder.mkdir(parents=True)
        self.journal = folder / "journal"
        (folder / "query.sql").write_text(spark_text(spec.query))
        self.submitted_at = time.time()
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                self._command(cluster, data), env={**os.environ, **cluster.environment}, stdout=log, stderr=log
            )
        cluster.guard.watch(self._process.pid)
        self._ended_at = 0.0
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        self._process.wait()
        self._ended_at = time.time()

    def _command(self, cluster: DemoCluster, data: DataSet) -> list[str]:
        confs = [part for name, value in CONFS.items() for part in ("--conf", f"{name}={value}")]
        return [
            command("qoop"), "submit", "--plan", "always", "--master", "yarn", "--executor-memory", EXECUTOR_MEMORY,
            *confs, "--name", self.spec.name,
            "--arbiter", cluster.arbiter_url, "--token-file", str(cluster.user_token_file), "--pool", "sql",
            "--tables", str(data.path), "--output", "parquet", str(self.folder / "rows"),
            "--journal", str(self.journal), *FLAGS[self.spec.way],
            str(self.folder / "query.sql"),
        ]  # fmt: skip

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def records(self) -> list[dict[str, Any]]:
        """The records of its journal so far."""
        return journal.follow(self.journal) if self.journal.exists() else []

    def wait_for(self, condition: Callable[[list[dict[str, Any]]], bool]) -> bool:
        """Wait until the journal meets a condition; False if the query ends without meeting it."""
        while self.is_running:
            if condition(self.records()):
                return True
            time.sleep(0.2)
        return condition(self.records())

    def finish(self, duckdb: DuckDbEngine, data: DataSet, base: Path) -> Run:
        """Wait for the end of the query and compare its rows with DuckDB's.

        Raises:
            DemoError: it failed or timed out; quotes its last log line.
        """
        self._waiter.join(timeout=TIMEOUT_S)
        if self.is_running:
            raise DemoError(f"query {self.spec.query} ({self.spec.name}) did not end within {TIMEOUT_S:g} s")
        if self._process.returncode:
            raise DemoError(f"query {self.spec.query} ({self.spec.name}) failed: {self._last_log_line()}")
        answer, seconds = _answer(self.folder / "rows"), self._seconds()
        reference = CachingEngine(duckdb, data.answers, f"duckdb {duckdb.version} {data.fingerprint()}").run(
            duckdb_text(self.spec.query)
        )
        differences = compare(answer, reference)
        return Run(
            name=self.spec.name,
            query=self.spec.query,
            switching=self.spec.way == "switching",
            submitted_at=self.submitted_at,
            ended_at=self._ended_at,
            seconds=seconds,
            rows=len(answer.rows),
            equal_to_duckdb=not differences,
            differences=tuple(str(difference) for difference in differences[:5]),
            journal=self.journal.relative_to(base),
        )

    def stop(self) -> None:
        """Stop the query if it is still running."""
        if self.is_running:
            self._process.terminate()
            self._waiter.join(timeout=60)

    def _seconds(self) -> float:
        records = self.records()
        if not records:
            raise DemoError(
                f"query {self.spec.query} ({self.spec.name}) recorded no events; its journal {str(self.journal)!r}"
                " is missing or empty"
            )
        return float(records[-1]["at"] - records[0]["at"])

    def _last_log_line(self) -> str:
        lines = [line for line in (self.folder / "log").read_text().splitlines() if line.startswith("qoop:")]
        last = f"{lines[-1].removeprefix('qoop: ')}; " if lines else ""
        return f"{last}see {self.folder / 'log'}"


def query_started(records: list[dict[str, Any]]) -> bool:
    """Whether the query has started: Spark is up and the plans are made."""
    return bool(records)


def stage_finished(records: list[dict[str, Any]]) -> bool:
    """Whether a stage of the query has finished."""
    return any(record["kind"] == "input" and record["event"]["type"] == "StageFinished" for record in records)


def _answer(rows: Path) -> Answer:
    """The rows written, in order: part files are numbered by partition."""
    files = sorted(rows.glob("part-*.parquet"))
    tables = [pq.read_table(file) for file in files]
    columns = tuple(tables[0].column_names)
    read = [tuple(row[name] for name in columns) for table in tables for row in table.to_pylist()]
    return Answer(columns, read, 0.0)
