"""What leaving replanning on costs: all TPC-DS queries, a constant share, qoop against plain Spark with AQE.

TPC-DS at scale 1, Spark in this process with two slots. Each query is run on both engines to warm up, then in rounds,
in random order: three times, after which the guard knows how it runs as written; with `OVERHEAD_GUARD=0` once, and it
is planned in each run. Queries measured are kept in `out/overhead.jsonl` (`out/overhead-planned.jsonl`), and a run
continues after them; delete the file to start anew. `OVERHEAD_QUERIES` (1-99 by default) and `OVERHEAD_SECONDS` limit a
run.
"""

import contextlib
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

import qoop
from qoop.engine.inputs import read_inputs
from qoop.estimate.gate import Gate
from tests.bench.spark_ratio import ratio_to_spark
from tpcds import data
from tpcds.queries import parse_numbers, spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out

SCALE, ROUNDS = 1, 3

GUARDED = os.environ.get("OVERHEAD_GUARD", "1") != "0"
KEPT = Path("out/overhead.jsonl" if GUARDED else "out/overhead-planned.jsonl")


def measure() -> dict[str, Any]:
    """The ratio of execution times, qoop to plain Spark: geometric means over kinds of queries, and each query."""
    queries = parse_numbers(os.environ.get("OVERHEAD_QUERIES", "1-99"))
    ends = time.monotonic() + float(os.environ.get("OVERHEAD_SECONDS", "inf"))
    opened = data.open_data(data.ensure(SCALE))
    with spark_session(opened, "local[2]", {}) as spark:
        gate = [_gate_ms(spark, query) for query in (*queries, *queries)]
        with _no_past_runs():
            rows = _measured(spark, queries, ends)
    return {**_gate_times(gate[: len(queries)], gate[len(queries) :]), **_summary(rows), "queries": rows}


@contextlib.contextmanager
def _no_past_runs() -> Iterator[None]:
    """Without the runs that this user's guard has recorded, and without adding to them."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
        yield


def _measured(spark: SparkSession, queries: Sequence[int], ends: float) -> list[dict[str, Any]]:
    """The results of these queries, earlier ones first; those of queries that there is no time for are left out."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    known = {row["query"]: row for row in map(json.loads, lines)}
    if found := known.keys() & set(queries):
        out.print(f"  {len(found)} queries are in {KEPT}; delete it to measure them again")
    for query in queries:
        if query in known or time.monotonic() > ends:
            continue
        options, warm_up = (qoop.Options(), 3) if GUARDED else (qoop.Options(guard=None), 1)
        known[query] = ratio_to_spark(spark, query, ROUNDS, options, warm_up=warm_up)
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        with KEPT.open("a") as file:
            file.write(json.dumps(known[query]) + "\n")
    return [known[query] for query in queries if query in known]


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    worst = max(rows, key=lambda row: row["ratio"])
    return {
        "queries_measured": len(rows),
        "geometric_mean": _mean(row["ratio"] for row in rows),
        "one_stage": _mean(row["ratio"] for row in rows if row["stages"] == 1),
        "several_stages": _mean(row["ratio"] for row in rows if row["stages"] > 1),
        "total": sum(row["qoop_s"] for row in rows) / sum(row["spark_s"] for row in rows),
        "worst": worst["ratio"],
        "worst_query": worst["query"],
    }


def _gate_times(cold: Sequence[float], warm: Sequence[float]) -> dict[str, float]:
    return {
        "gate_ms_p50": statistics.median(warm),
        "gate_ms_p95": statistics.quantiles(warm, n=20)[-1] if len(warm) > 1 else warm[0],
        "gate_ms_cold_p95": statistics.quantiles(cold, n=20)[-1] if len(cold) > 1 else cold[0],
        "gate_ms_first": cold[0],
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
