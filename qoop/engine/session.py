"""Spark sessions: the query's own, beside the user's; and the query as written, which Spark reads in the user's."""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from qoop.as_written.decide import BUILTIN_PATH, SESSION_PATH, Names
from qoop.computed_once import computed_once
from qoop.engine import versions
from qoop.engine.connection import java_class
from qoop.engine.runtime_filters import RuntimeFilters
from qoop.engine.scala import is_cut, items, printed, sequence, stored_rows
from qoop.errors import QoopError
from qoop.parsing.moment import EPOCH, Moment
from qoop.parsing.spark_sql import Syntax

CATALYST = "org.apache.spark.sql.catalyst"
IDENTITY = re.compile(r"#(\d+)|\"id\":(\d+)")
"""The number of a column in a plan, as Spark prints it, or writes it in JSON."""

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
    # Spark would read a table that is pinned by the options that it has in the catalogue by then.
    "spark.sql.legacy.readFileSourceTableCacheIgnoreOptions": "true",
    # Literals in generated SQL have escapes.
    "spark.sql.parser.escapedStringLiterals": "false",
    # Outputs that are stored as files are read as they were, whatever the user's own files are written for. Where Spark
    # stores what a statement returns, the user's session does.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.variant.writeShredding.enabled": "false",
}


def spark_home() -> Path:
    """The user's Spark (SPARK_HOME), or the one that came with pyspark.

    Raises:
        QoopError: SPARK_HOME has no Spark, or one that is too old.
    """
    home = os.environ.get("SPARK_HOME")
    if home and not Path(home, "bin", "spark-submit").exists():
        raise QoopError(
            f"SPARK_HOME {home!r}: has no bin/spark-submit; set it to an installation of Spark 4, or unset it to use "
            "the Spark that came with pyspark"
        )
    if not home:
        return Path(pyspark.__file__).parent
    if (version := versions.version_in(Path(home))) is not None:
        versions.check(version, f"SPARK_HOME {home!r}")
    return Path(home)


def query_session(spark: SparkSession) -> SparkSession:
    """A copy of the user's session, with its temporary views, functions and settings, to run stages in.

    Views and settings of the copy are not visible in the user's session.
    """
    copy = copy_of(spark)
    for name, value in STAGE_CONF.items():
        if name != CTE_POLICY or not is_on(spark, VIEWS_FOLLOW_SETTINGS):
            copy.conf.set(name, value)
    return copy


def copy_of(spark: SparkSession) -> SparkSession:
    """A copy of a session, with its settings; those of the copy may be changed, and are not visible in the other."""
    return _wrapped(spark, spark._jsparkSession.cloneSession())


def names_of(spark: SparkSession) -> Names:
    """Where a session looks for names. What they mean in a copy of it (`query_session`) depends on it."""
    catalogs = spark._jsparkSession.sessionState().catalogManager()
    return Names(str(catalogs.currentCatalog().name()), sql_path(spark))


def sql_path(spark: SparkSession) -> str:
    """Where Spark looks for names, one place after the other."""
    try:
        return str(spark._jsparkSession.sessionState().catalogManager().currentPathString())
    except Py4JError:
        # Spark 4.0 has no SET PATH.
        return f"{BUILTIN_PATH},{SESSION_PATH}"


def comparing_session(stages: SparkSession) -> SparkSession:
    """A copy of the session that stages run in, to analyse whole plans as one text: CTEs may have CTEs there."""
    copy = copy_of(stages)
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
        QoopError: it is a Spark Connect session, or its Spark is too old.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise QoopError(
            "spark: is a Spark Connect session; qoop needs Spark's driver in this process, such as from "
            "SparkSession.builder.master(...)"
        )
    versions.check(pyspark.__version__, "spark")
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise QoopError(
            "PYSPARK_PIN_THREAD: is not true; qoop needs a thread of the JVM for each of Python's, as stages have tags "
            "and settings of their own; unset it"
        )


def syntax_of(spark: SparkSession) -> Syntax:
    """How a session reads SQL, by its settings."""
    ansi = is_on(spark, "spark.sql.ansi.enabled")
    return Syntax(
        case_sensitive=is_on(spark, "spark.sql.caseSensitive"),
        quoted_names=ansi and is_on(spark, "spark.sql.ansi.doubleQuotedIdentifiers"),
        raw_strings=is_on(spark, "spark.sql.parser.escapedStringLiterals"),
    )


def with_substitutions(spark: SparkSession, text: str) -> str:
    """A text with the values of `${x}`, `${hiveconf:x}` and the like in their places, as Spark's parser reads it.

    One in which some are left after that is returned as it is: Spark would replace those too.
    """
    if "${" not in text:
        return text
    sessions = java_class(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        substitution = java_class(spark._jvm, "org.apache.spark.sql.internal.VariableSubstitution")()
        replaced = str(substitution.substitute(text))
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
    return text if "${" in replaced else replaced


def is_on(spark: SparkSession, name: str, default: str | None = None) -> bool:
    """Whether a boolean setting is on, as Spark reads it; `default`: its value in a Spark that does not know it."""
    return (
        (spark.conf.get(name) if default is None else spark.conf.get(name, default)) or ""
    ).strip().lower() == "true"


def broadcast_bytes(spark: SparkSession) -> float:
    """The size up to which a session broadcasts a side of a join; 0 if it broadcasts none."""
    return max(float(spark._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold()), 0.0)


def current_moment(spark: SparkSession) -> Moment:
    """The current date and time of a session, by its own settings; no job is run for them."""
    micros, local = plain_sql(spark, "SELECT unix_micros(current_timestamp()), localtimestamp()").collect()[0]
    return Moment(local, EPOCH + timedelta(microseconds=micros))


def plain_sql(spark: SparkSession, text: str, args: Any = None) -> DataFrame:
    """Spark's own `spark.sql`, whatever the session object has in its place (`qoop.install`)."""
    return SparkSession.sql(spark, text, args)


def is_command(frame: DataFrame) -> bool:
    """Whether Spark has executed the statement already, as it does immediately with everything but queries."""
    return str(frame._jdf.queryExecution().commandExecuted().getClass().getSimpleName()) == "CommandResult"


def executes_at_once(spark: SparkSession, text: str) -> bool:
    """Whether Spark would execute a text as soon as it has read it, as it does with everything but queries.

    Raises:
        pyspark.errors.PySparkException: Spark rejects the text.
    """
    plan, gateway = parser_of(spark).parsePlan(text), spark.sparkContext._gateway
    kinds = ("plans.logical.Command", "plans.logical.ParsedStatement", "plans.logical.CompoundPlanStatement")
    return any(is_instance_of(gateway, plan, f"{CATALYST}.{kind}") for kind in kinds) or "InsertInto" in printed(plan)


def is_script(spark: SparkSession, text: str) -> bool:
    """Whether a text that Spark has accepted is a script (`BEGIN ... END`): Spark has executed all its statements."""
    if BEGIN.search(text) is None:
        return False
    return str(parser_of(spark).parsePlan(text).getClass().getSimpleName()) == "CompoundBody"


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


def parser_of(spark: SparkSession) -> Any:
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

    `filters`: the runtime filters that it is computed with; without them it is computed in the user's session.
    `filtered`: its frame with them, in a copy of the session.

    Args:
        parsed: Spark's parse of the query, where it is a part of another statement.
        at_versions: the text that is analysed instead, which reads tables as of versions.

    Raises:
        pyspark.errors.PySparkException: Spark rejects the text.
    """

    def __init__(self, spark: SparkSession, text: str, parsed: Any = None, at_versions: str | None = None) -> None:
        self.text = text
        self._spark, self._parsed, self._at_versions = spark, parsed, at_versions or text
        self._first = self._new_frame()
        self._computed = False
        self.filters = RuntimeFilters()
        self.filtered: DataFrame | None = None
        self.is_command = is_command(self._first) or (parsed is None and is_script(spark, text))

    @property
    def analysed(self) -> DataFrame:
        """The result as Spark analysed it first; computed through `frame` alone."""
        return self._first

    @computed_once
    def columns(self) -> list[tuple[str, str]]:
        """Names and types of the result."""
        return columns_of(self._first)

    @property
    def is_deterministic(self) -> bool:
        """Whether all expressions, also those in views, are deterministic by Spark's judgement."""
        return bool(self._first._jdf.queryExecution().analyzed().deterministic())

    @computed_once
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
        if self.is_command or not self.filters:
            return self._first
        copy = self.filters.set_in(copy_of(self._spark))
        self.filtered = frame_of(copy, self._first._jdf.queryExecution().analyzed())
        return self.filtered

    def _new_frame(self) -> DataFrame:
        if self._parsed is not None:
            return frame_of(self._spark, self._parsed)
        return plain_sql(self._spark, self._at_versions)


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The frame of a logical plan (a Java object)."""
    datasets = java_class(spark._jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, plan), spark)
