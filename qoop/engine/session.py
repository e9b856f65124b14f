"""Spark sessions: the query's own, beside the user's; and the query as written, which Spark reads in the user's."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

REORDER = "org.apache.spark.sql.catalyst.optimizer.ReorderJoin"
EXCLUDED = "spark.sql.optimizer.excludedRules"

STAGE_CONF: Mapping[str, str] = {
    # The order of joins is the planner's.
    "spark.sql.cbo.joinReorder.enabled": "false",
    "spark.sql.cbo.starSchemaDetection": "false",
    # What a stage keeps is partitioned as its size asks, not as spark.sql.shuffle.partitions says.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.adaptive.enabled": "true",
}


def spark_home() -> Path:
    """The user's Spark (SPARK_HOME), or the one that came with pyspark."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else Path(pyspark.__file__).parent


def query_session(spark: SparkSession) -> SparkSession:
    """A copy of the user's session, with its temporary views, functions and settings, in which stages run.

    The copy's own views and settings are not seen in the user's.
    """
    copy = _wrapped(spark, spark._jsparkSession.cloneSession())
    for name, value in STAGE_CONF.items():
        copy.conf.set(name, value)
    excluded = copy.conf.get(EXCLUDED, "") or ""
    copy.conf.set(EXCLUDED, ",".join(filter(None, (excluded, REORDER))))
    return copy


def in_session_of(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The frame in the user's session, whatever session it was made in: its views, INSERTs and settings are the user's.

    Its `sparkSession` is an object of its own for the user's session, shared by all frames made from this one: it lives
    as long as any of them.
    """
    datasets = spark._jvm.org.apache.spark.sql.classic.Dataset
    # Not the analysed plan: that of an INSERT would insert again.
    plan = frame._jdf.queryExecution().commandExecuted()
    return DataFrame(datasets.ofRows(spark._jsparkSession, plan), _wrapped(spark, spark._jsparkSession))


def is_command(frame: DataFrame) -> bool:
    """Whether Spark has run the statement already, as it does at once with everything that is no query."""
    return str(frame._jdf.queryExecution().commandExecuted().getClass().getSimpleName()) == "CommandResult"


def columns_of(frame: DataFrame) -> list[tuple[str, str]]:
    """The columns of a frame: names and types."""
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def _wrapped(spark: SparkSession, java_session: Any) -> SparkSession:
    with _same_to_df():
        return SparkSession(spark.sparkContext, jsparkSession=java_session)


@contextmanager
def _same_to_df() -> Iterator[None]:
    """PySpark binds `RDD.toDF` to whichever session object was made last: it stays the user's."""
    bound = RDD.toDF
    try:
        yield
    finally:
        RDD.toDF = bound


class AsWritten:
    """The text and what Spark makes of it.

    Spark reads the text first: what it refuses, it refuses in its own words (raises pyspark.errors.PySparkException).
    A statement that is no query Spark runs at once, and so it is run this once and never again.

    `columns`: names and types of the result.
    """

    def __init__(self, spark: SparkSession, text: str) -> None:
        self.text = text
        self._spark = spark
        self._first = spark.sql(text)
        self.is_command = is_command(self._first)
        self.columns = columns_of(self._first)

    def frame(self) -> DataFrame:
        """The result, to be computed anew; that of a statement that is no query is known."""
        return self._first if self.is_command else self._spark.sql(self.text)


def check_statement(spark: SparkSession, text: str) -> None:
    """Have Spark read a statement without running it: what it would refuse, it refuses before any work is done.

    Raises:
        pyspark.errors.PySparkException: it refuses, with its own words.
    """
    state = spark._jsparkSession.sessionState()
    skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    state.executePlan(state.sqlParser().parsePlan(text), skip).assertAnalyzed()
