"""Wrong statistics: how much a query and its later runs gain from row counts that are measured while it runs.

TPC-DS at scale 1, Spark in this process with two slots. The planner takes each table for ten times as large, a tenth,
or what it is, at random, for some seeds: its rows, and the distinct values of its columns.
`BAD_ESTIMATES_QUERIES` (such as 17,72), `BAD_ESTIMATES_SEEDS` (5: how many) and `BAD_ESTIMATES_ROUNDS` (5: at most)
change what is run.

- Feedback: each query is planned (`plan="always"`) from the same wrong statistics and either replanned with the rows
  that are counted, or it stays with its first plan. Both run once to warm up, then in rounds, in random order. The
  ratio is the time with feedback to that of staying.
- Healing: by default (`plan="auto"`, without the gate), each query runs three times from the wrong statistics, and
  three times from the right ones, without earlier runs; all that once to warm up, and once more to measure. The ratio
  is that of the faster of the second and third runs: after two planned runs, the guard may try the query as written.
"""

import contextlib
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

import qoop
from qoop.engine.catalogue import SparkCatalogue
from qoop.estimate.gate import Gate
from qoop.estimate.statistics import TableStatistics
from qoop.replan.decision import Rules
from tests.bench.rounds import Rounds, interval
from tpcds import data
from tpcds.queries import parse_numbers, spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out

QUERIES, SCALE = "17,18,24,25,29,72,85", 1
FACTORS = (0.1, 1.0, 10.0)
STAYING = Rules(hysteresis=1.0, min_gain=1e9)
RUNS = 3


def measure() -> dict[str, Any]:
    """Ratios of times: with feedback to staying, and of later runs from wrong statistics to right ones."""
    queries = parse_numbers(os.environ.get("BAD_ESTIMATES_QUERIES", QUERIES))
    seeds = range(int(os.environ.get("BAD_ESTIMATES_SEEDS", "5")))
    rounds = Rounds(3, int(os.environ.get("BAD_ESTIMATES_ROUNDS", "5")))
    opened = data.open_data(data.ensure(SCALE))
    with spark_session(opened, "local[2]", {}) as spark:
        cases = [(query, seed) for query in queries for seed in seeds]
        feedback = [_feedback(spark, query, seed, rounds) for query, seed in cases]
        healing = [_healing(spark, query, seed) for query, seed in cases]
    healed = [row["ratio"] for row in healing]
    return {
        "feedback_geometric_mean": _mean([row["ratio"] for row in feedback]),
        "feedback_worst_upper": max(row["upper"] for row in feedback),
        **{f"feedback_best_query_{query}": min(row["ratio"] for row in feedback if row["query"] == query)
           for query in queries},
        "healed_geometric_mean": _mean(healed),
        "healed_worst": max(healed),
        "feedback": feedback,
        "healing": healing,
    }  # fmt: skip


def _feedback(spark: SparkSession, query: int, seed: int, rounds: Rounds) -> dict[str, Any]:
    options = {
        "staying": qoop.Options(plan="always", guard=None, rules=STAYING),
        "feedback": qoop.Options(plan="always", guard=None),
    }
    switches: list[int] = []
    times: dict[str, list[float]] = {name: [] for name in options}
    ratios: list[float] = []
    order = random.Random(f"{query} {seed}")

    def run(name: str) -> float:
        seconds, outcome = _run(spark, query, options[name])
        switches.append(outcome.counts.switches)
        return seconds

    with _wrong_by_ten(seed):
        for name in options:
            run(name)
        while not rounds.are_enough(ratios, sum(map(sum, times.values()))):
            for name in order.sample(list(options), 2):
                times[name].append(run(name))
            ratios.append(times["feedback"][-1] / times["staying"][-1])
    staying, feedback = (statistics.median(times[name]) for name in options)
    ratio = interval(ratios)
    out.print(
        f"  query {query}, seed {seed}: staying {staying:.2f} s, with feedback {feedback:.2f} s, "
        f"ratio {ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f}; {len(ratios)} rounds, {max(switches)} switches)",
        soft_wrap=True,
    )
    return {"query": query, "seed": seed, "ratio": ratio.mean, "upper": ratio.high, "switches": max(switches)}


def _healing(spark: SparkSession, query: int, seed: int) -> dict[str, Any]:
    found, order = {}, random.Random(f"{query} {seed}").sample([True, False], 2)
    for is_wrong in (*order, *order):
        with _wrong_by_ten(seed) if is_wrong else contextlib.nullcontext():
            found[is_wrong] = _three_runs(spark, query)
    wrong, right = found[True], found[False]
    out.print(
        f"  query {query}, seed {seed}: from wrong statistics {_seconds(wrong)}, from right ones {_seconds(right)}",
        soft_wrap=True,
    )
    return {"query": query, "seed": seed, "wrong_s": wrong, "right_s": right, "ratio": min(wrong[1:]) / min(right[1:])}


def _three_runs(spark: SparkSession, query: int) -> list[float]:
    """The seconds of a query's first runs; what is left of it in Spark is warm."""
    options = qoop.Options(gate=Gate(gain=0.0))
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
        return [_run(spark, query, options)[0] for _ in range(RUNS)]


def _run(spark: SparkSession, query: int, options: qoop.Options) -> tuple[float, Any]:
    # Spark frees what was broadcast only when Java's collector has run.
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    started = time.perf_counter()
    outcome = qoop.collect(spark, spark_text(query), options).outcome
    return time.perf_counter() - started, outcome


@contextlib.contextmanager
def _wrong_by_ten(seed: int) -> Iterator[None]:
    """The planner's statistics are wrong, for a table and seed in the same way each time."""
    right = SparkCatalogue.statistics

    def wrong(self: SparkCatalogue, table: str) -> TableStatistics:
        known, factor = right(self, table), random.Random(f"{table} {seed}").choice(FACTORS)
        rows = max(known.rows * factor, 1.0)
        columns = {
            name: replace(column, distinct=min(max(column.distinct * factor, 1.0), rows))
            for name, column in known.columns.items()
        }
        return replace(known, rows=rows, columns=columns)

    with mock.patch.object(SparkCatalogue, "statistics", wrong):
        yield


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _seconds(times: list[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in times) + " s"
