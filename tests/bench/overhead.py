"""What leaving replanning on costs: queries of different kinds, a constant share, qoop against plain Spark with AQE.

TPC-DS at scale 1, Spark in this process with two slots. Each query is run once on both engines to warm up, then in
rounds, in random order; its result is the ratio of the medians.
"""

import math
import random
import statistics
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

import qoop
from qoop.engine.inputs import read_inputs
from qoop.estimate.gate import Gate
from tpcds import data
from tpcds.queries import FIRST, LAST, spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out
from yarn_plugin.quantities import count

QUERIES = (2, 3, 9, 17, 19, 24, 27, 29, 61, 64, 72, 96)
"""Short stars (3, 19, 61, 96), one table (9), a star with a large dimension (27), a CTE of unions (2), many joins."""

SCALE, ROUNDS = 1, 3


def measure() -> dict[str, Any]:
    """The ratio of execution times, qoop to plain Spark: geometric means over kinds of queries, and each query."""
    opened = data.open_data(data.ensure(SCALE))
    with spark_session(opened, "local[2]", {}) as spark:
        gate = [_gate_ms(spark, query) for query in range(FIRST, LAST + 1)]
        rows = [_query(spark, query) for query in QUERIES]
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


def _query(spark: SparkSession, query: int) -> dict[str, Any]:
    text = spark_text(query)
    times: dict[str, list[float]] = {"spark": [], "qoop": []}
    stages, reason = 0, None
    order = random.Random(query)
    for round_number in range(ROUNDS + 1):
        for engine in order.sample(list(times), 2):
            started = time.perf_counter()
            if engine == "spark":
                spark.sql(text).collect()
            else:
                outcome = qoop.collect(spark, text).outcome
                stages, reason = outcome.counts.stages, outcome.one_stage_reason
            if round_number:
                times[engine].append(time.perf_counter() - started)
    plain, ours = (statistics.median(times[engine]) for engine in ("spark", "qoop"))
    out.print(
        f"  query {query}: spark {plain:.2f} s, qoop {ours:.2f} s, ratio {ours / plain:.2f} ({count(stages, 'stage')})"
        + (f": {reason}" if reason else ""),
        soft_wrap=True,
    )
    return {"query": query, "spark_s": plain, "qoop_s": ours, "ratio": ours / plain, "stages": stages, "reason": reason}
