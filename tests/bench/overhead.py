"""What leaving replanning on costs: queries of different kinds, a constant share, qoop against plain Spark with AQE.

TPC-DS at scale 1, Spark in this process with two slots. Each query is run once on both engines to warm up, then in
rounds, in random order; its result is the ratio of the medians.
"""

import math
import statistics
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

import qoop
from qoop.engine.inputs import read_inputs
from qoop.estimate.gate import Gate
from tests.bench.spark_ratio import ratio_to_spark
from tpcds import data
from tpcds.queries import FIRST, LAST, spark_text
from tpcds.spark_engine import spark_session

QUERIES = (2, 3, 9, 17, 19, 24, 27, 29, 61, 64, 72, 96)
"""Short stars (3, 19, 61, 96), one table (9), a star with a large dimension (27), a CTE of unions (2), many joins."""

SCALE, ROUNDS = 1, 3


def measure() -> dict[str, Any]:
    """The ratio of execution times, qoop to plain Spark: geometric means over kinds of queries, and each query."""
    opened = data.open_data(data.ensure(SCALE))
    with spark_session(opened, "local[2]", {}) as spark:
        gate = [_gate_ms(spark, query) for query in range(FIRST, LAST + 1)]
        rows = [ratio_to_spark(spark, query, ROUNDS, qoop.Options()) for query in QUERIES]
    worst = max(rows, key=lambda row: row["ratio"])
    return {
        "gate_ms_p50": statistics.median(gate),
        "gate_ms_p95": statistics.quantiles(gate, n=20)[-1],
        "geometric_mean": _mean(row["ratio"] for row in rows),
        "one_stage": _mean(row["ratio"] for row in rows if row["stages"] == 1),
        "several_stages": _mean(row["ratio"] for row in rows if row["stages"] > 1),
        "total": sum(row["qoop_s"] for row in rows) / sum(row["spark_s"] for row in rows),
        "worst": worst["ratio"],
        "worst_query": worst["query"],
        "queries": rows,
    }


def _gate_ms(spark: SparkSession, query: int) -> float:
    """The time of the gate beyond Spark's optimiser, whose plan is the one that runs if the gate stops the query."""
    frame = spark.sql(spark_text(query))
    frame._jdf.queryExecution().optimizedPlan()
    started = time.perf_counter()
    gate, slots = Gate(), float(spark.sparkContext.defaultParallelism)
    gate.reason(read_inputs(frame, gate.bytes_to_know(slots)), slots)
    return 1e3 * (time.perf_counter() - started)


def _mean(ratios: Iterable[float]) -> float:
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(statistics.fmean(logs)) if logs else math.nan
