"""The cost of being able to switch: queries with many joins, a constant share, qoop against plain Spark with AQE.

TPC-DS at scale 1, Spark in this process with two slots. The queries are those in which a block joins six or more
relations and at least one input is worth a stage of its own, planned with `plan="always"`. Each query is run once on
both engines to warm up, then in rounds, in random order; its result is the geometric mean of the rounds' ratios.
"""

import math
import statistics
from typing import Any

from pyspark.sql import SparkSession

import qoop
from tests.bench.rounds import Rounds
from tests.bench.spark_ratio import ratio_to_spark
from tpcds import data
from tpcds.spark_engine import spark_session

QUERIES = (4, 17, 18, 19, 24, 25, 29, 61, 64, 72, 84, 85, 91)
SCALE, ROUNDS = 1, Rounds(3, 3)


def measure() -> dict[str, Any]:
    """The ratio of execution times, qoop to plain Spark: geometric mean, worst query, and each query."""
    opened = data.open_data(data.ensure(SCALE))
    with spark_session(opened, "local[2]", {}) as spark:
        rows = [row for query in QUERIES if (row := _query(spark, query))["stages"] > 1]
    ratios = [row["ratio"] for row in rows]
    worst = max(rows, key=lambda row: row["ratio"])
    return {
        "geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))),
        "worst": worst["ratio"],
        "worst_query": worst["query"],
        "queries_measured": len(rows),
        "queries": rows,
    }


def _query(spark: SparkSession, query: int) -> dict[str, Any]:
    switches: list[int] = []
    options = qoop.Options(plan="always")
    row = ratio_to_spark(spark, query, ROUNDS, options, lambda outcome: switches.append(outcome.counts.switches))
    return {**row, "switches": sum(switches)}
