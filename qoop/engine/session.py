"""Spark sessions: the query's own, beside the user's; and the query as written, which Spark reads in the user's."""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class
from qoop.engine.scala import is_cut, items, printed, sequence, stored_rows
from qoop.errors import QoopError
from qoop.parsing.moment import EPOCH, Moment
from qoop.parsing.spark_sql import Syntax

CATALYST = "org.apache.spark.sql.catalyst"
IDENTITY = re.compile(r"#(\d+)|\"id\":(\d+)")
"""The number of a column in a plan, as Spark prints it, or writes it in JSON."""

SESSION_PATH, BUILTIN_PATH = "system.session", "system.builtin"
"""Where temporary views and functions are on Spark's SQL path, and where Spark's own functions are."""

BEGIN = re.compile(r"\bBEGIN\b", re.IGNORECASE)
"""What every script has."""

CTE_POLICY = "spark.sql.legacy.ctePrecedencePolicy"
VIEWS_FOLLOW_SETTINGS = "spark.sql.legacy.useCurrentConfigsForView"
"""If it is on, the text of a view means what the session's settings say, not those that it was made with."""

STAGE_CONF: Mapping[str, str] = {
    # The planner decides the join order. Not without ReorderJoin, which joins what views and subqueries read by their
    # conditions, not each with each.
    "spark.sql.cbo.joinReorder.enabled": "false",
    "spark.sql.cbo.starSchemaDetection": "false",
    "spark.sql.adaptive.enabled": "true",
    # CTEs are put in their places, as Spark's optimizer does with almost all: it numbers them anew each time that it
    # analyses a text. The names of CTEs in generated SQL are different from each other, so whose takes precedence does
    # not matter.
    CTE_POLICY: "LEGACY",
    # Literals in generated SQL have escapes.
    "spark.sql.parser.escapedStringLiterals": "false",
    # Outputs that are stored as files are read as they were, whatever the user's own files are written for. Where Spark
    # stores what a statement returns, the user's session does.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.variant.writeShredding.enabled": "false",
}


def spark_home() -> Path:
    """The user's Spark (SPARK_HOME), or the one that came with pyspark."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else Path(pyspark.__file__).parent


def query_session(spark: SparkSession) -> SparkSession:
    """A copy of the user's session, with its temporary views, functions and settings, to run stages in.

    Views and settings of the copy are not visible in the user's session.
    """
    copy = _wrapped(spark, spark._jsparkSession.cloneSession())
    for name, value in STAGE_CONF.items():
        if name != CTE_POLICY or not _is_on(spark, VIEWS_FOLLOW_SETTINGS):
            copy.conf.set(name, value)
    return copy


def why_names_differ(spark: SparkSession) -> str | None:
    """Why names would not mean in a copy of the session (`query_session`) what they mean in it; None if they would."""
    catalogs = spark._jsparkSession.sessionState().catalogManager()
    catalog = str(catalogs.currentCatalog().name())
    if catalog != "spark_catalog":
        return f"the session's current catalog is {catalog}; stages run in spark_catalog"
    path = _sql_path(spark).lower()
    before, session, _ = path.partition(SESSION_PATH)
    if not session:
        return f"the session's SQL path has no {SESSION_PATH}, where stages have their outputs"
    if set(filter(None, before.split(","))) - {BUILTIN_PATH}:
        return f"on the session's SQL path ({path}) tables come before {SESSION_PATH}, where stages have their outputs"
    return None


def _sql_path(spark: SparkSession) -> str:
    """Where Spark looks for names, one place after the other."""
    try:
        return str(spark._jsparkSession.sessionState().catalogManager().currentPathString())
    except Py4JError:
        # Spark 4.0 has no SET PATH.
        return f"{BUILTIN_PATH},{SESSION_PATH}"


def comparing_session(stages: SparkSession) -> SparkSession:
    """A copy of the session that stages run in, to analyse whole plans as one text: CTEs may have CTEs there."""
    copy = _wrapped(stages, stages._jsparkSession.cloneSession())
    copy.conf.set(CTE_POLICY, "CORRECTED")
    return copy


def in_session_of(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The frame moved to the user's session, so that views, INSERTs and settings made with it are the user's.

    Its `sparkSession` is a new Python object for the user's session, shared by all frames derived from this one, so it
    lives as long as any of them.
    """
    # Not the analysed plan: for an INSERT it would insert again.
    plan = frame._jdf.queryExecution().commandExecuted()
    return frame_of(_wrapped(spark, spark._jsparkSession), plan)


def require_classic_session(spark: Any) -> None:
    """Check that a session runs in this process.

    Raises:
        QoopError: it is a Spark Connect session.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise QoopError(
            "spark: is a Spark Connect session; qoop needs Spark's driver in this process, such as from "
            "SparkSession.builder.master(...)"
        )
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise QoopError(
            "PYSPARK_PIN_THREAD: is not true; qoop needs a thread of the JVM for each of Python's, as stages have tags "
            "and settings of their own; unset it"
        )


def syntax_of(spark: SparkSession) -> Syntax:
    """How a session reads SQL, by its settings."""
    ansi = _is_on(spark, "spark.sql.ansi.enabled")
    return Syntax(
        case_sensitive=_is_on(spark, "spark.sql.caseSensitive"),
        quoted_names=ansi and _is_on(spark, "spark.sql.ansi.doubleQuotedIdentifiers"),
        raw_strings=_is_on(spark, "spark.sql.parser.escapedStringLiterals"),
    )


def _is_on(spark: SparkSession, name: str) -> bool:
    return (spark.conf.get(name) or "").strip().lower() == "true"


def current_moment(spark: SparkSession) -> Moment:
    """The current date and time of a session, by its own settings; no job is run for them."""
    micros, local = spark.sql("SELECT unix_micros(current_timestamp()), localtimestamp()").collect()[0]
    return Moment(local, EPOCH + timedelta(microseconds=micros))


def is_command(frame: DataFrame) -> bool:
    """Whether Spark has executed the statement already, as it does immediately with everything but queries."""
    return str(frame._jdf.queryExecution().commandExecuted().getClass().getSimpleName()) == "CommandResult"


def is_script(spark: SparkSession, text: str) -> bool:
    """Whether a text that Spark has accepted is a script (`BEGIN ... END`): Spark has executed all its statements."""
    if BEGIN.search(text) is None:
        return False
    return str(_parser(spark).parsePlan(text).getClass().getSimpleName()) == "CompoundBody"


def columns_of(frame: DataFrame) -> list[tuple[str, str]]:
    """The columns of a frame: names and types."""
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def with_columns_like(frame: DataFrame, written: DataFrame) -> DataFrame:
    """The frame's rows, with the columns of another frame of the same types.

    That is their names, qualifiers (`frame.select("item.i_brand")`), metadata (comments, lengths of VARCHAR) and
    identities (`frame.drop(spark.table("item").i_brand)`).
    """
    jvm: Any = frame.sparkSession._jvm
    plan, wanted = (one._jdf.queryExecution().analyzed() for one in (frame, written))
    numbers = getattr(java_class(jvm, f"{CATALYST}.expressions.NamedExpression$"), "MODULE$")
    alias, some = java_class(jvm, f"{CATALYST}.expressions.Alias"), java_class(jvm, "scala.Option")
    # Of a column that means another one below, as one of two readers of a table may: Spark would mix up their values.
    taken = _identities(plan)
    none, made, columns = sequence(jvm, []), {}, []
    for column, like in zip(items(plan.output()), items(wanted.output()), strict=True):
        identity = like.exprId()
        number = int(identity.id())
        if number not in made:
            if number in taken:
                identity = numbers.newExprId()
            metadata = some.apply(like.metadata())
            made[number] = alias(column, like.name(), identity, like.qualifier(), metadata, none)
        columns.append((made[number], like.name()))
    project = java_class(jvm, f"{CATALYST}.plans.logical.Project")
    result = project(sequence(jvm, [*made.values()]), plan)
    if len(made) < len(columns):
        # A column that is selected twice is one column, of which `SELECT v, V` has the two names.
        result = project(sequence(jvm, [one.toAttribute().withName(name) for one, name in columns]), result)
    return frame_of(frame.sparkSession, result)


def _identities(plan: Any) -> set[int]:
    """The numbers of all columns in a plan."""
    text = printed(plan)
    if is_cut(text):
        text = str(plan.toJSON())
    return {int(printed_as or written_as) for printed_as, written_as in IDENTITY.findall(text)}


def java_message(problem: Py4JJavaError) -> str:
    """The first line of a Java exception's message; its class if it has none."""
    exception = problem.java_exception
    lines = str(exception.getMessage() or "").strip().splitlines()
    return lines[0] if lines else str(exception.getClass().getSimpleName())


def _parser(spark: SparkSession) -> Any:
    """Spark's parser, as the session is configured."""
    return spark._jsparkSession.sessionState().sqlParser()


def _wrapped(spark: SparkSession, java_session: Any) -> SparkSession:
    with _same_to_df():
        return SparkSession(spark.sparkContext, jsparkSession=java_session)


_binding = threading.Lock()


@contextmanager
def _same_to_df() -> Iterator[None]:
    """Keep `RDD.toDF` bound to the user's session: PySpark binds it to the session object created last."""
    with _binding:
        bound = RDD.toDF
        try:
            yield
        finally:
            RDD.toDF = bound


class QueryAsWritten:
    """The query as the user wrote it, analysed by Spark in the user's session.

    A statement that is not a query is executed by that, once and never again.

    Args:
        parsed: Spark's parse of the query, where it is a part of another statement.

    Raises:
        pyspark.errors.PySparkException: Spark rejects the text.
    """

    def __init__(self, spark: SparkSession, text: str, parsed: Any = None) -> None:
        self.text = text
        self._spark, self._parsed = spark, parsed
        self._first = self._new_frame()
        self._computed = False
        self.is_command = is_command(self._first) or (parsed is None and is_script(spark, text))

    @property
    def analysed(self) -> DataFrame:
        """The result as Spark analysed it first; computed through `frame` alone."""
        return self._first

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Names and types of the result."""
        return columns_of(self._first)

    @property
    def is_deterministic(self) -> bool:
        """Whether all expressions, also those in views, are deterministic by Spark's judgement."""
        return bool(self._first._jdf.queryExecution().analyzed().deterministic())

    @cached_property
    def reads_stored_rows(self) -> bool:
        """Whether it reads rows of an earlier answer, which may have other values when they are computed again."""
        return bool(stored_rows(self._first._jdf.queryExecution().analyzed()))

    def frame(self) -> DataFrame:
        """The result as a frame to compute; for a statement that is not a query, the frame that it returned.

        The first is the one that was analysed, which Spark may have optimised already; later ones, after a failure, are
        new.
        """
        if self._computed and not self.is_command:
            return self._new_frame()
        self._computed = True
        return self._first

    def _new_frame(self) -> DataFrame:
        return self._spark.sql(self.text) if self._parsed is None else frame_of(self._spark, self._parsed)


FILES = {"parquet", "orc", "csv", "json", "text", "avro"}
"""Sources whose rows Spark writes as files."""

COMMITTERS = (
    "spark.sql.sources.commitProtocolClass",
    "spark.sql.sources.outputCommitterClass",
    "spark.sql.parquet.output.committer.class",
)
"""Settings of how written files are committed."""


WRITE_SETTINGS = (
    "spark.sql.sources.partitionOverwriteMode",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.sources.default",
    "spark.sql.legacy.createHiveTableByDefault",
    "spark.sql.hive.convertCTAS",
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.defaultColumn.useNullsForMissingDefaultValues",
    "spark.sql.charAsVarchar",
    "spark.sql.legacy.charVarcharAsString",
    "spark.sql.caseSensitive",
    "spark.sql.ansi.enabled",
)
"""Settings of which rows a statement replaces, how values are converted, and what kind of table is created."""


COLLATIONS = "spark.sql.collation.schemaLevel.enabled"
"""The setting under which databases may have a collation."""


class StatementAsWritten:
    """A statement that stores the rows of a query, as Spark parses it.

    Raises:
        pyspark.errors.PySparkException: Spark rejects the text.
    """

    def __init__(self, spark: SparkSession, text: str) -> None:
        self._spark = spark
        self._plan = _parser(spark).parsePlan(text)
        self._resolved_by: Mapping[str, str] = {}

    @property
    def query(self) -> Any:
        """Spark's parse of its query; None if it has none that can be replaced.

        Of a query in CREATE TABLE AS, Spark gives texts the collation of the database; by itself it has others.
        """
        if self._spark.conf.get(COLLATIONS, "false") == "true" and not self._inserts():
            return None
        children = self._plan.children()
        try:
            query = self._plan.query()
        except Py4JError:
            return None
        return query if children.size() and children.last().equals(query) else None

    def _inserts(self) -> bool:
        return str(self._plan.getClass().getSimpleName()).startswith("Insert")

    def check(self) -> None:
        """Have Spark analyse it without executing it, so that errors appear before any work is done.

        Raises:
            pyspark.errors.PySparkException: Spark rejects the statement.
        """
        self._resolved_by = self._resolving(self._plan)

    @property
    def is_atomic(self) -> bool:
        """Whether Spark stores no row if computing one fails: it writes files, and shows them when all are written."""
        plan = self._analysed(self._plan)
        kind = str(plan.getClass().getSimpleName())
        if kind == "CreateDataSourceTableAsSelectCommand":
            provider = plan.table().provider()
            return provider.isDefined() and str(provider.get()).lower() in FILES and self._commits_last()
        return kind == "InsertIntoHadoopFsRelationCommand" and self._commits_last()

    def _commits_last(self) -> bool:
        """Whether Spark moves the files of all tasks at the end; not if the user has chosen how they are committed."""
        state = self._spark._jsparkSession.sessionState()
        if any(state.conf().contains(name) for name in COMMITTERS):
            return False
        return str(state.newHadoopConf().get("mapreduce.fileoutputcommitter.algorithm.version")) == "1"

    def _analysed(self, statement: Any) -> Any:
        state = self._spark._jsparkSession.sessionState()
        skip = java_class(self._spark._jvm, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
        execution = state.executePlan(statement, skip)
        execution.assertAnalyzed()
        return execution.analyzed()

    def _resolving(self, statement: Any) -> dict[str, str]:
        """What decides which table it stores rows in, and which partitions it replaces."""
        catalogs = self._spark._jsparkSession.sessionState().catalogManager()
        current = {
            "the current catalog": str(catalogs.currentCatalog().name()),
            "the current database": ".".join(map(str, catalogs.currentNamespace())),
            "the SQL path": _sql_path(self._spark),
            "the table": self._target(self._analysed(statement)),
        }
        return current | {name: self._spark.conf.get(name) or "" for name in WRITE_SETTINGS}

    def _target(self, analysed: Any) -> str:
        """What a statement stores rows in: the place of files, and columns with their defaults, if it is known."""
        kind = str(analysed.getClass().getSimpleName())
        if kind == "InsertIntoHiveTable":
            table = analysed.table()
            return f"{table.location()} with {table.schema().json()}"
        if kind != "InsertIntoHadoopFsRelationCommand":
            return kind
        known = analysed.catalogTable()
        columns = known.get().schema().json() if known.isDefined() else analysed.outputColumnNames().mkString(", ")
        return f"{analysed.outputPath()} with {columns}"

    def execute(self, rows: DataFrame) -> None:
        """Execute it, once checked, with these rows in place of its query's.

        Raises:
            QoopError: it would be resolved differently than when the query began; nothing is stored.
        """
        children = [*items(self._plan.children())]
        children[-1] = rows._jdf.queryExecution().logical()
        statement = self._plan.withNewChildren(sequence(self._spark._jvm, children))
        for name, now in self._resolving(statement).items():
            before = self._resolved_by[name]
            if now != before:
                raise QoopError(
                    f"{name}: was {before!r} when the statement began, and is {now!r}; nothing was stored; run it again"
                )
        frame_of(self._spark, statement)


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The frame of a logical plan (a Java object)."""
    datasets = java_class(spark._jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, plan), spark)
