"""The cost of being able to switch: queries with many joins, a constant share, qoop against plain Spark with AQE.

TPC-DS at scale 1, Spark in this process with two slots. The queries are those in which a block joins six relations or
more and some input is worth a stage of its own; the others run as one stage and have nothing to pay. Each is run once
by both unmeasured, then in rounds, in an order drawn anew for every round; the figure of a query is the ratio of its
medians.
"""

import math
import random
import statistics
import time
from typing import Any

from pyspark.sql import SparkSession

import qoop
from tpcds import data
from tpcds.queries import spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out

QUERIES = (4, 17, 18, 19, 24, 25, 29, 61, 64, 72, 84, 85, 91)
SCALE, ROUNDS = 1, 3


def measure() -> dict[str, Any]:
    """Ratios of seconds, qoop over plain Spark."""
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
    text = spark_text(query)
    times: dict[str, list[float]] = {"spark": [], "qoop": []}
    stages = switches = 0
    order = random.Random(query)
    for round_ in range(ROUNDS + 1):
        for engine in order.sample(list(times), 2):
            began = time.perf_counter()
            if engine == "spark":
                spark.sql(text).collect()
            else:
                counts = qoop.collect(spark, text).outcome.counts
                stages, switches = counts.stages, switches + counts.switches
            if round_:
                times[engine].append(time.perf_counter() - began)
    plain, ours = (statistics.median(times[engine]) for engine in ("spark", "qoop"))
    out.print(f"  query {query}: spark {plain:.2f} s, qoop {ours:.2f} s, ratio {ours / plain:.2f} ({stages} stages)")
    return {
        "query": query,
        "spark_s": plain,
        "qoop_s": ours,
        "ratio": ours / plain,
        "stages": stages,
        "switches": switches,
    }
