"""Runs cases on Spark: by qoop with a switch after every stage, and by Spark alone in the same settings."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Row, SparkSession

import qoop
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import Command, RunAsWritten
from qoop.replan.decision import Rules
from tests.fuzz import settings
from tests.fuzz.case import Case, make
from tests.fuzz.schema import Table

MAX_ATTEMPTS = 12
MAX_EMPTY = 3
"""How many queries without rows of a seed are left for another; none of every tenth seed, for those are cases too."""

MAX_ROWS = 20_000
"""Queries with more rows are not run by qoop: they cost time and show no more."""

MAX_SECONDS = 20.0
"""Queries for which Spark alone takes longer are left for others: most take less than one second."""

MAX_QOOP_SECONDS = 600.0
"""After these a query that qoop runs is stopped, which is a failure."""

FIRST_ROWS = 5
"""How many rows of an ordered frame are read apart."""

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.default.parallelism": "2",
    # Queries are small, and each would be compiled for its own.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Most time goes into code that runs a few times only: analysis, optimisation, and loading classes.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn768m -XX:ReservedCodeCacheSize=240m",
    # Spark starts a thread for each shuffle, broadcast and result until there are as many, by default 1,024.
    "spark.sql.shuffleExchange.maxThreadThreshold": "16",
    "spark.sql.broadcastExchange.maxThreadThreshold": "32",
    "spark.sql.resultQueryStage.maxThreadThreshold": "16",
    # Spark prints each plan for its UI, and again whenever it changes.
    "spark.sql.ui.explainMode": "simple",
    # Each sort and each broadcast takes a page, of 64 MB unless this is set.
    "spark.buffer.pageSize": "256k",
}


@dataclass(frozen=True)
class Result:
    """The columns and rows of a query, or its error."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[Any, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Run:
    """How a case was run. `difference`: what is wrong; None if nothing is. `seconds`: of Spark, and of qoop."""

    seed: int
    attempt: int
    settings: tuple[str, ...]
    constructs: tuple[str, ...]
    difference: str | None
    rows: int
    failed: bool = False
    stages: int = 0
    switches: int = 0
    as_written: bool = False
    reason: str | None = None
    seconds: tuple[float, float] = (0.0, 0.0)


class TookTooLongError(Exception):
    """A query was stopped."""


class Lab:
    """A session in which cases are run. `database`: its own, for the tables, if others use the same Spark."""

    def __init__(self, spark: SparkSession, database: str = "default") -> None:
        self.spark = spark
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
        spark.sql(f"USE {database}")
        self._outputs = f"{spark.conf.get('spark.sql.warehouse.dir')}/outputs"
        self._made: dict[str, Table] = {}
        self.rejected: Counter[str] = Counter()

    def case(self, seed: int) -> tuple[Case, Result, float]:
        """The first case of a seed that Spark accepts and that has rows, these by Spark alone, and the seconds it took.

        After some without rows such a case is returned too.
        """
        empty = MAX_EMPTY if seed % 10 == 0 else 0
        for attempt in range(MAX_ATTEMPTS):
            case = make(seed, attempt)
            started = time.perf_counter()
            found = self.expected(case)
            if found is None or len(found.rows) > MAX_ROWS:
                continue
            if found.rows or empty >= MAX_EMPTY:
                return case, found, time.perf_counter() - started
            empty += 1
        raise AssertionError(f"seed {seed}: Spark rejects every query; the last one is\n{case.golden()}")

    def expected(self, case: Case) -> Result | None:
        """The rows by Spark alone; None if it rejects the query."""
        self.prepare(case.tables)
        with self.under(case.settings):
            try:
                frame = self.spark.sql(case.text)
            except PySparkException as problem:
                self.rejected[_condition(problem)] += 1
                return None
            try:
                with self._stopping_after(MAX_SECONDS):
                    return Result(_columns(frame), tuple(frame.limit(MAX_ROWS + 1).collect()))
            except TookTooLongError:
                self.rejected["took too long"] += 1
                return None
            except (PySparkException, Py4JJavaError) as problem:
                return Result(error=_condition(problem))

    @contextmanager
    def _stopping_after(self, seconds: float) -> Iterator[None]:
        """Stop the jobs that this thread has started if they take too long.

        Raises:
            TookTooLongError: they were stopped.
        """
        context, tag, stopped = self.spark.sparkContext, f"fuzz-{uuid4().hex}", threading.Event()

        def stop() -> None:
            stopped.set()
            context.cancelJobsWithTag(tag)

        timer = threading.Timer(seconds, stop)
        context.addJobTag(tag)
        timer.start()
        try:
            yield
        except Exception as problem:
            if stopped.is_set():
                raise TookTooLongError(f"took more than {seconds:g} s") from problem
            raise
        finally:
            timer.cancel()
            context.removeJobTag(tag)

    def run(self, seed: int) -> Run:
        """Run the case of a seed."""
        case, expected, seconds = self.case(seed)
        return self.compare(case, expected, seconds)

    def compare(self, case: Case, expected: Result, seconds: float = 0.0) -> Run:
        """Run a case by qoop and compare it; some are run again after their tables have changed."""
        first = self._compare(case, expected, seconds)
        if first.difference is not None or not case.is_repeated:
            return first
        later = case.later()
        known = self.expected(later)
        if known is None or len(known.rows) > MAX_ROWS:
            return first
        again = self._compare(later, known).difference
        return replace(first, difference=again and f"{again}, when run again after its tables have changed")

    def _compare(self, case: Case, expected: Result, seconds: float = 0.0) -> Run:
        commands: list[Command] = []
        reasons: list[str] = []
        options = qoop.Options(
            rules=Rules(force=True),
            cut_policy=CutPolicy(everywhere=True),
            watch=commands.append,
            warn=reasons.append,
            checkpoint=self._outputs if settings.FILES in case.settings else None,
        )
        self.prepare(case.tables)
        started = time.perf_counter()
        outcome = None
        with self.under(case.settings):
            try:
                with self._stopping_after(MAX_QOOP_SECONDS):
                    answer = qoop.collect(self.spark, case.text, options)
                found = Result(tuple(answer.columns), tuple(answer.rows))
                outcome = answer.outcome
                if case.is_read_in_part and expected.error is None:
                    first = qoop.sql(self.spark, case.text, options).limit(FIRST_ROWS).collect()
                    part = _order_of(case, Result(rows=tuple(first))) == _order_of(case, expected)[:FIRST_ROWS]
                    found = found if part else Result(error=f"other first rows: {first}")
            except Exception as problem:  # noqa: BLE001 - whatever it raises is the result
                found = Result(error=f"{type(problem).__name__}: {str(problem)[:300]}")
        as_written = any(isinstance(command, RunAsWritten) for command in commands)
        return Run(
            case.seed,
            case.attempt,
            case.settings,
            tuple(sorted(case.constructs)),
            difference(case, expected, found),
            len(expected.rows),
            expected.error is not None,
            outcome.counts.stages if outcome else 0,
            outcome.counts.switches if outcome else 0,
            as_written,
            (outcome.one_stage_reason if outcome else None) or "; ".join(reasons) or None,
            (round(seconds, 3), round(time.perf_counter() - started, 3)),
        )

    def prepare(self, tables: tuple[Table, ...]) -> None:
        """Make tables that are not there yet."""
        for table in tables:
            if self._made.get(table.name) == table:
                continue
            with self.under(("case-sensitive",) if table.cased else ()):
                if table.analysed:
                    self.spark.sql(table.query()).createOrReplaceTempView(table.name)
                else:
                    for statement in table.statements():
                        self.spark.sql(statement)
            self._made[table.name] = table

    @contextmanager
    def under(self, names: tuple[str, ...]) -> Iterator[None]:
        """The session under settings."""
        values = settings.values(names)
        before = {name: self.spark.conf.get(name, None) for name in values}
        for name, value in values.items():
            self.spark.conf.set(name, value)
        self._forget_tables(values)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    self.spark.conf.unset(name)
                else:
                    self.spark.conf.set(name, value)
            self._forget_tables(values)

    def _forget_tables(self, changed: Iterable[str]) -> None:
        """Have Spark resolve tables of files again if settings have changed by which it does.

        It keeps what it resolved, and would read CHAR columns partly by the one setting, partly by the other.
        """
        if not settings.OF_TABLES.isdisjoint(changed):
            for table in self._made.values():
                if table.stored:
                    self.spark.catalog.refreshTable(table.name)


def difference(case: Case, expected: Result, found: Result) -> str | None:
    """What is different; None if nothing is."""
    if expected.error is not None:
        # Which rows are computed before a condition drops them is Spark's choice, so qoop may find none in error.
        return None
    if found.error is not None:
        return f"raises {found.error}"
    if found.columns != expected.columns:
        return f"has columns {found.columns} instead of {expected.columns}"
    rows, wanted = ([plain(row) for row in result.rows] for result in (found, expected))
    if Counter(rows) != Counter(wanted):
        missing, more = Counter(wanted) - Counter(rows), Counter(rows) - Counter(wanted)
        return (
            f"has {len(rows)} rows instead of {len(wanted)}; missing {[*missing.elements()][:3]}, "
            f"too many {[*more.elements()][:3]}"
        )
    in_order = _order_of(case, found) == _order_of(case, expected)
    return None if in_order else "has its rows in another order"


def _order_of(case: Case, result: Result) -> list[tuple[str, ...]]:
    """What the rows of a case are ordered by."""
    return [tuple(plain(row[key.place]) for key in case.query.order) for row in result.rows]


def plain(value: Any) -> str:
    """A value as text; equal for equal values."""
    if isinstance(value, Row):
        return "Row(" + ", ".join(f"{name}={plain(value[place])}" for place, name in enumerate(value.__fields__)) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{plain(key)}: {plain(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(plain, value)) + "]"
    # Which of two zeros a group or an aggregate keeps depends on the order of rows.
    return repr(value + 0.0 if isinstance(value, float) else value)


def _condition(problem: PySparkException | Py4JJavaError) -> str:
    """What Spark calls an error; PySpark converts some of Java's exceptions only."""
    known = problem.getCondition() if isinstance(problem, PySparkException) else None
    return known or str(problem)[:60]


def _columns(frame: DataFrame) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)


@contextmanager
def session(folder: str) -> Iterator[SparkSession]:
    """A session for a lab, with its tables in a folder."""
    # PySpark logs every rejected query with its Java stack trace, besides raising the exception.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("fuzz").master("local[2]").config("spark.sql.warehouse.dir", folder)
    for name, value in CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
