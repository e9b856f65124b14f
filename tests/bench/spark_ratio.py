"""Times of a query on qoop and on plain Spark with AQE: on both to warm up, then in rounds, in random order.

The two runs of a round follow each other, and the result is the geometric mean of the rounds' ratios: what else the
machine does mostly affects both.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

import qoop
from qoop.run.query_run import Outcome
from tpcds.queries import spark_text
from yarn_plugin.console import out
from yarn_plugin.quantities import count


def ratio_to_spark(
    spark: SparkSession,
    query: int,
    rounds: int,
    options: qoop.Options,
    observe: Callable[[Outcome], object] = lambda outcome: None,
    warm_up: int = 1,
) -> dict[str, Any]:
    """The median times, the ratio, its range and the stages; `observe` is called after each run of qoop."""
    text = spark_text(query)
    times: dict[str, list[float]] = {"spark": [], "qoop": []}
    stages, reason = 0, None
    order = random.Random(query)
    for round_number in range(warm_up + rounds):
        for engine in order.sample(list(times), 2):
            started = time.perf_counter()
            if engine == "spark":
                spark.sql(text).collect()
            else:
                outcome = qoop.collect(spark, text, options).outcome
                stages, reason = outcome.counts.stages, outcome.one_stage_reason
                observe(outcome)
            if round_number >= warm_up:
                times[engine].append(time.perf_counter() - started)
    plain, ours = (statistics.median(times[engine]) for engine in ("spark", "qoop"))
    pairs = [mine / other for mine, other in zip(times["qoop"], times["spark"], strict=True)]
    ratio = statistics.geometric_mean(pairs)
    out.print(
        f"  query {query}: spark {plain:.2f} s, qoop {ours:.2f} s, ratio {ratio:.2f} "
        f"({min(pairs):.2f} to {max(pairs):.2f}; {count(stages, 'stage')})" + (f": {reason}" if reason else ""),
        soft_wrap=True,
    )
    return {
        "query": query,
        "spark_s": plain,
        "qoop_s": ours,
        "ratio": ratio,
        "ratios": pairs,
        "stages": stages,
        "reason": reason,
    }
