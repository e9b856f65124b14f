"""Queries in a Spark session: the library call `qoop.sql`, and what the driver and the harness build on."""

import os
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession

from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.checkpoints import Checkpoints, ExecutorCheckpoints, FileCheckpoints, persist
from qoop.engine.folders import QueryFolder
from qoop.engine.session import QueryAsWritten, check_statement, in_session_of, query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.errors import CannotSplitError, QoopError
from qoop.estimate.cost import CostModel
from qoop.feedback.profile import fixed
from qoop.parsing.statement import ParsedText, Statement, parse_leniently
from qoop.planner import Planned, plan
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import Command
from qoop.replan.decision import Rules
from qoop.replan.state import QueryCounts
from qoop.run.journal import QueryJournal
from qoop.run.query_run import Feed, Outcome, QueryRun
from yarn_plugin.errors import describe


@dataclass(frozen=True)
class Options:
    """How queries are run.

    `feed`: where the share comes from; left out, the cores that the session has now, for good. `confirm`: tells the
    arbiter that a share is kept to. `checkpoint`: a URL that all nodes reach, to keep stage outputs as files; left out,
    they are kept on the executors. `journal`: a file for the record. `warn`, `watch`: are shown lines and commands;
    `warn` is called from several threads.
    """

    feed: Callable[[], Feed] | None = None
    confirm: Callable[[int], None] = lambda seq: None
    rules: Rules = field(default_factory=Rules)
    cutting: CutPolicy = field(default_factory=CutPolicy)
    model: CostModel = field(default_factory=CostModel)
    checkpoint: str | None = None
    journal: Path | None = None
    warn: Callable[[str], None] = lambda line: None
    watch: Callable[[Command], None] = lambda command: None
    replanning: bool = True


@dataclass(frozen=True)
class Answer:
    """A query's rows, its columns (name, type), and how it came about."""

    columns: list[tuple[str, str]]
    rows: list[Row]
    outcome: Outcome


def sql(spark: SparkSession, text: str, options: Options | None = None) -> DataFrame:
    """The result of a query, with replanning: its stages are run now, its last stage when the frame is used.

    The frame is one of the user's session like that of `spark.sql`; what its stages keep on executors is let go when
    neither it nor a frame made from it is left, what they keep as files when the application ends. A statement that
    stores rows is executed, and the frame is empty.

    Raises:
        QoopError: the query cannot be run.
        pyspark.errors.PySparkException: Spark refuses the query, with its own words.
    """
    parsed = parse_leniently(text)
    if parsed.stores_rows:
        execute(spark, parsed, options)
        return spark.range(0).select()
    query = _Query(spark, parsed, options or Options())
    found: list[DataFrame] = []

    def take(frame: DataFrame) -> int:
        found.append(in_session_of(spark, frame))
        return 0

    try:
        query.run(take)
    except BaseException:
        query.close()
        raise
    query.hand_over(found[-1])
    return found[-1]


def collect(
    spark: SparkSession, text: str | ParsedText, options: Options | None = None, most: int | None = None
) -> Answer:
    """Run a query to its end and fetch its rows, or so many of them; a statement that stores rows has none."""
    parsed = _parsed(text)
    if parsed.stores_rows:
        return Answer([], [], execute(spark, parsed, options))
    query = _Query(spark, parsed, options or Options())
    rows: list[list[Row]] = []

    def take(frame: DataFrame) -> int:
        rows.append((frame if most is None else frame.limit(most)).collect())
        return len(rows[-1])

    try:
        outcome = query.run(take)
    finally:
        query.close()
    return Answer(query.written.columns, rows[-1], outcome)


def write(
    spark: SparkSession, text: str | ParsedText, options: Options | None, put: Callable[[DataFrame], None]
) -> Outcome:
    """Run a query and hand its whole result, computed and kept, to `put`; switching never leaves half of it written."""
    query = _Query(spark, _parsed(text), options or Options())
    kept: list[DataFrame] = []
    whole: list[DataFrame] = []

    def take(frame: DataFrame) -> int:
        frame = in_session_of(spark, frame)
        if persist(frame):
            kept.append(frame)
        rows = int(frame.count())
        whole.append(frame)
        return rows

    try:
        outcome = query.run(take)
        put(whole[-1])
    finally:
        query.close()
        for frame in kept:
            frame.unpersist()
    return outcome


def execute(spark: SparkSession, text: str | ParsedText, options: Options | None = None) -> Outcome:
    """Run a statement that stores rows (CREATE TABLE AS, INSERT): its query with replanning, then the statement.

    One that holds no query to plan is left to Spark.
    """
    parsed = _parsed(text)
    statement = parsed.statement
    if statement is None or not statement.stores_rows or _would_not_run(spark, statement):
        return _execute_as_written(spark, parsed.text)
    check_statement(spark, parsed.text)

    def put(frame: DataFrame) -> None:
        view = f"qoop_rows_{uuid.uuid4().hex[:8]}"
        frame.createOrReplaceTempView(view)
        try:
            spark.sql(statement.reading_from(view))
        finally:
            spark.catalog.dropTempView(view)

    query = statement.source_query()
    return write(spark, ParsedText(query.text, query), options, put)


def _parsed(text: str | ParsedText) -> ParsedText:
    return parse_leniently(text) if isinstance(text, str) else text


def _would_not_run(spark: SparkSession, statement: Statement) -> bool:
    """Whether the table to be made is there already: Spark then does nothing or refuses, and need not wait for rows."""
    return statement.creates is not None and spark.catalog.tableExists(statement.creates)


def _execute_as_written(spark: SparkSession, text: str) -> Outcome:
    began = time.monotonic()
    spark.sql(text).collect()
    reason = "it holds no query to plan"
    return Outcome(QueryCounts(stages=1), 1, time.monotonic() - began, reason, ())


def _undisturbed(warn: Callable[[str], None]) -> Callable[[str], None]:
    """To warn is never what a query, or a thread of it, ends by: where nobody can be told, it goes on."""

    def told(line: str) -> None:
        with suppress(Exception):
            warn(line)

    return told


class _Query:
    """One query in a session: analysed as written, planned, run."""

    def __init__(self, spark: SparkSession, parsed: ParsedText, options: Options) -> None:
        self._options, self._parsed = replace(options, warn=_undisturbed(options.warn)), parsed
        self._number = f"{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._name = f"qoop-{self._number}"
        self._spark = spark
        self.written = QueryAsWritten(spark, parsed.text)
        self._session = query_session(spark)
        self._checkpoints = self._place()
        self._engine: SparkEngine | None = None

    def run(self, take: Callable[[DataFrame], int]) -> Outcome:
        """Run it to its end; `take` is part of its last stage."""
        options = self._options
        planned, reason = self._plan()
        with closing(QueryJournal(options.journal, options.warn)) as journal:
            run = QueryRun(
                self._name,
                self._parsed.text,
                planned,
                reason,
                options.rules,
                journal,
                options.confirm,
                options.warn,
                options.watch,
            )
            feed = options.feed() if options.feed else fixed(self._spark.sparkContext.defaultParallelism)
            self._engine = SparkEngine(
                self._session, self._name, self.written, self._checkpoints, take, run.tell, options.warn
            )
            return run.run(self._engine, feed)

    def hand_over(self, result: DataFrame) -> None:
        """Let go of what the stages keep when the result, and all that is made from it, is gone."""
        self._stop()
        self._checkpoints.release_with(result.sparkSession)

    def close(self) -> None:
        """Stop what runs, let go of what the stages keep."""
        self._stop()
        try:
            self._checkpoints.release()
        except (Py4JError, AttributeError, OSError) as problem:
            # Spark has stopped, or its disks are out of reach: neither makes an answer wrong.
            self._options.warn(f"what the query kept could not be deleted: {problem}")

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _place(self) -> Checkpoints:
        url = self._options.checkpoint
        if url is None:
            return ExecutorCheckpoints(self._session, self._options.warn)
        try:
            folder = QueryFolder(self._spark, f"{url.rstrip('/')}/qoop-", self._number, self._options.warn)
            return FileCheckpoints(self._session, folder)
        except Py4JJavaError as problem:
            raise QoopError(f"checkpoint {url!r}: {problem.java_exception.getMessage()}") from None

    def _plan(self) -> tuple[Planned | None, str | None]:
        if self.written.is_command:
            return None, "it is no query"
        if not self._options.replanning:
            return None, "replanning is switched off"
        statement = self._parsed.statement
        if statement is None:
            return None, self._parsed.reason
        if statement.writes:
            return None, "it is no query"
        try:
            catalogue = SparkCatalogue(self._spark)
            planned = plan(statement, catalogue, catalogue.statistics, self._options.cutting, self._options.model)
        except CannotSplitError as reason:
            return None, str(reason)
        except QoopError as reason:
            # Spark has read the query, so it is the planner that does not understand it.
            return None, f"the planner does not read it: {reason}"
        except Exception as problem:  # noqa: BLE001 - whatever the planner stumbles over, Spark has read the query
            return None, f"the planner failed: {describe(problem)}"
        return planned, None


__all__ = ["Answer", "Options", "collect", "execute", "sql", "write"]
