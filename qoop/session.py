"""Queries in a Spark session: the library call `qoop.sql`, and what the driver and the harness build on."""

import os
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.checkpoints import AsFiles, Checkpoints, OnExecutors
from qoop.engine.session import columns_of, query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.errors import CannotSplitError, QoopError, QuerySyntaxError
from qoop.estimate.cost import CostModel
from qoop.feedback.profile import fixed
from qoop.journal import QueryJournal
from qoop.planning import Planned, plan
from qoop.plans.candidates import Cutting
from qoop.replan.commands import Command
from qoop.replan.decision import Rules
from qoop.run import Feed, Outcome, QueryRun
from qoop.sql.statement import Statement, read


@dataclass(frozen=True)
class Options:
    """How queries are run.

    `feed`: where the share comes from; left out, the cores that the session has now, for good. `confirm`: tells the
    arbiter that a share is kept to. `checkpoint`: a URL that all nodes reach, to keep stage outputs as files; left out,
    they are kept on the executors. `journal`: a file for the record. `warn`, `watch`: shown lines and commands.
    """

    feed: Callable[[], Feed] | None = None
    confirm: Callable[[int], None] = lambda seq: None
    rules: Rules = field(default_factory=Rules)
    cutting: Cutting = field(default_factory=Cutting)
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

    The frame lives in a session of its own beside the user's; what its stages keep is let go with the frame.

    Raises:
        QoopError: the query cannot be run.
        pyspark.errors.PySparkException: Spark refuses the query, with its own words.
    """
    query = _Query(spark, text, options or Options())
    found: list[DataFrame] = []

    def take(frame: DataFrame) -> int:
        found.append(frame)
        return 0

    query.run(take)
    weakref.finalize(found[-1], query.close)
    return found[-1]


def collect(spark: SparkSession, text: str, options: Options | None = None) -> Answer:
    """Run a query to its end and fetch its rows."""
    query = _Query(spark, text, options or Options())
    rows: list[list[Row]] = []

    def take(frame: DataFrame) -> int:
        rows.append(frame.collect())
        return len(rows[-1])

    try:
        outcome = query.run(take)
    finally:
        query.close()
    return Answer(query.expected, rows[-1], outcome)


def write(spark: SparkSession, text: str, options: Options | None, put: Callable[[DataFrame], None]) -> Outcome:
    """Run a query and hand its whole result, computed and kept, to `put`; switching never leaves half of it written."""
    query = _Query(spark, text, options or Options())
    frames: list[DataFrame] = []

    def take(frame: DataFrame) -> int:
        frames.append(frame.persist())
        return int(frames[-1].count())

    try:
        outcome = query.run(take)
        put(frames[-1])
    finally:
        for frame in frames:
            frame.unpersist()
        query.close()
    return outcome


def execute(spark: SparkSession, text: str, options: Options | None = None) -> Outcome:
    """Run a statement that stores rows (CREATE TABLE AS, INSERT): its query with replanning, then the statement."""
    statement = read(text)
    if statement.query is None or not statement.writes:
        raise QoopError("the statement has no query whose rows it stores")

    def put(frame: DataFrame) -> None:
        view = f"qoop_rows_{uuid.uuid4().hex[:8]}"
        frame.createOrReplaceTempView(view)
        try:
            frame.sparkSession.sql(statement.around(view))
        finally:
            frame.sparkSession.catalog.dropTempView(view)

    return write(spark, str(statement.query.sql("spark")), options, put)


class _Query:
    """One query in a session: analysed as written, planned, run."""

    def __init__(self, spark: SparkSession, text: str, options: Options) -> None:
        self._options, self._text = options, text
        self._name = f"qoop-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        # Spark reads the text first: what it refuses, it refuses in its own words.
        self.expected = columns_of(spark.sql(text))
        self._spark = spark
        self._session = query_session(spark)
        self._checkpoints: Checkpoints = (
            AsFiles(self._session, f"{options.checkpoint.rstrip('/')}/{self._name}")
            if options.checkpoint
            else OnExecutors(self._session)
        )
        self._engine: SparkEngine | None = None

    def run(self, take: Callable[[DataFrame], int]) -> Outcome:
        options = self._options
        planned, reason = self._plan()
        journal = QueryJournal(options.journal)
        run = QueryRun(
            self._name,
            self._text,
            planned,
            reason,
            options.rules,
            journal,
            options.confirm,
            options.warn,
            options.watch,
        )
        self._engine = SparkEngine(self._session, self._name, self._checkpoints, take, self.expected, run.tell)
        feed = options.feed() if options.feed else fixed(self._spark.sparkContext.defaultParallelism)
        try:
            return run.run(self._engine, feed)
        finally:
            journal.close()

    def close(self) -> None:
        """Let go of what the stages keep."""
        if self._engine is not None:
            self._engine.close()

    def _plan(self) -> tuple[Planned | None, str | None]:
        if not self._options.replanning:
            return None, "replanning is switched off"
        try:
            catalogue = SparkCatalogue(self._spark)
            planned = plan(
                _query_of(self._text), catalogue, catalogue.statistics, self._options.cutting, self._options.model
            )
        except (CannotSplitError, QuerySyntaxError) as reason:
            return None, str(reason)
        except QoopError as reason:
            # Spark has read the query, so it is the planner that does not understand it.
            return None, f"the planner does not read it: {reason}"
        return planned, None


def _query_of(text: str) -> Statement:
    statement = read(text)
    if statement.writes or statement.query is None:
        raise CannotSplitError("it is no query")
    return statement


__all__ = ["Answer", "Options", "collect", "execute", "sql", "write"]
