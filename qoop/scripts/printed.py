"""Rows as `spark-sql` prints them: a line each, values separated by tabs, in the texts of Spark's HiveResult."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class

ROWS_AT_ONCE = 10_000
"""How many rows are taken from the JVM as one text."""


def printed_rows(spark: SparkSession, frame: DataFrame) -> tuple[int, list[str]]:
    """Compute a frame: the number of its rows, and the rows in texts of many lines each.

    `spark`: the user's session, whose time zone values are printed in.
    """
    plan = frame._jdf.queryExecution().executedPlan()
    with _active(spark):
        rows = java_class(spark._jvm, "org.apache.spark.sql.execution.HiveResult").hiveResultString(plan)
    groups: Any = rows.grouped(ROWS_AT_ONCE)
    texts = []
    while groups.hasNext():
        texts.append(str(groups.next().mkString("\n")))
    return int(rows.size()), texts


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Within this context the session is the one whose settings Spark reads in this thread."""
    sessions = java_class(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
