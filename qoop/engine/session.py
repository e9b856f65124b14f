"""A Spark session of the query's own, beside the user's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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
