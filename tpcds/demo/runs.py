"""The runs of the story: queries submitted as a user submits them, timed and compared with DuckDB."""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from qoop.run import journal
from tpcds.answers import Answer, compare
from tpcds.data import DataSet
from tpcds.demo.cluster import EXECUTOR_MEMORY, DemoError, Stage, command
from tpcds.demo.record import Run
from tpcds.queries import duckdb_text, spark_text
from tpcds.reference import CachingEngine, DuckDbEngine

CONFS = {"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"}
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to come: its name, the number of its TPC-DS query, whether it may switch."""

    name: str
    query: int
    switching: bool


class Submitted:
    """A query on its way: `qoop submit` as a process, its files in a folder of its own."""

    def __init__(self, stage: Stage, data: DataSet, wanted: Wanted, folder: Path) -> None:
        self.wanted, self.folder = wanted, folder
        folder.mkdir(parents=True)
        self.journal = folder / "journal"
        (folder / "query.sql").write_text(spark_text(wanted.query))
        self.submitted_at = time.time()
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                self._command(stage, data), env={**os.environ, **stage.environment}, stdout=log, stderr=log
            )
        self._ended_at = 0.0
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        self._process.wait()
        self._ended_at = time.time()

    def _command(self, stage: Stage, data: DataSet) -> list[str]:
        confs = [part for name, value in CONFS.items() for part in ("--conf", f"{name}={value}")]
        return [
            command("qoop"), "submit", "--master", "yarn", "--executor-memory", EXECUTOR_MEMORY, *confs,
            "--name", self.wanted.name, "--arbiter", stage.arbiter_url, "--token-file", str(stage.user_token_file),
            "--tables", str(data.path), "--output", "parquet", str(self.folder / "rows"),
            "--journal", str(self.journal), *([] if self.wanted.switching else ["--no-replanning"]),
            str(self.folder / "query.sql"),
        ]  # fmt: skip

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def records(self) -> list[dict[str, Any]]:
        """What its journal says so far."""
        return journal.follow(self.journal) if self.journal.exists() else []

    def await_moment(self, is_there: Callable[[list[dict[str, Any]]], bool]) -> bool:
        """Wait until the journal shows a moment; False when the query ends without it."""
        while self.running:
            if is_there(self.records()):
                return True
            time.sleep(0.2)
        return is_there(self.records())

    def finish(self, duckdb: DuckDbEngine, data: DataSet, base: Path) -> Run:
        """Wait for its end and compare its rows.

        Raises:
            DemoError: it failed, or takes too long; with its last words.
        """
        self._waiter.join(timeout=LONGEST_S)
        if self.running:
            raise DemoError(f"query {self.wanted.query} ({self.wanted.name}) took more than {LONGEST_S:g} s")
        if self._process.returncode:
            raise DemoError(f"query {self.wanted.query} ({self.wanted.name}) failed: {self._last_words()}")
        answer, seconds = _answer(self.folder / "rows"), _seconds(self.records())
        truth = CachingEngine(duckdb, data.answers, f"duckdb {duckdb.version} {data.fingerprint()}").run(
            duckdb_text(self.wanted.query)
        )
        differences = compare(answer, truth)
        return Run(
            name=self.wanted.name,
            query=self.wanted.query,
            switching=self.wanted.switching,
            submitted_at=self.submitted_at,
            ended_at=self._ended_at,
            seconds=seconds,
            rows=len(answer.rows),
            equal_to_duckdb=not differences,
            differences=tuple(str(difference) for difference in differences[:5]),
            journal=self.journal.relative_to(base),
        )

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self.running:
            self._process.terminate()
            self._waiter.join(timeout=60)

    def _last_words(self) -> str:
        lines = [line for line in (self.folder / "log").read_text().splitlines() if line.startswith("qoop:")]
        return lines[-1] if lines else f"see {self.folder / 'log'}"


def began(records: list[dict[str, Any]]) -> bool:
    """Whether the query itself has begun: Spark is there, the plans are made."""
    return bool(records)


def stage_finished(records: list[dict[str, Any]]) -> bool:
    """Whether a first stage has finished: the query is in its middle."""
    return any(record["kind"] == "input" and record["event"]["type"] == "StageFinished" for record in records)


def _seconds(records: list[dict[str, Any]]) -> float:
    if not records:
        raise DemoError("a query left no journal")
    return float(records[-1]["at"] - records[0]["at"])


def _answer(rows: Path) -> Answer:
    """The rows that were written, in their order: part files are numbered by partition."""
    files = sorted(rows.glob("part-*.parquet"))
    tables = [pq.read_table(file) for file in files]
    columns = tuple(tables[0].column_names)
    read = [tuple(row[name] for name in columns) for table in tables for row in table.to_pylist()]
    return Answer(columns, read, 0.0)
