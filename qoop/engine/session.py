"""A Spark session of the query's own, beside the user's."""

from collections.abc import Mapping

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
    copy = SparkSession(spark.sparkContext, jsparkSession=spark._jsparkSession.cloneSession())
    for name, value in STAGE_CONF.items():
        copy.conf.set(name, value)
    excluded = copy.conf.get(EXCLUDED, "") or ""
    copy.conf.set(EXCLUDED, ",".join(filter(None, (excluded, REORDER))))
    return copy


def columns_of(frame: DataFrame) -> list[tuple[str, str]]:
    """The columns of a frame: names and types."""
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
