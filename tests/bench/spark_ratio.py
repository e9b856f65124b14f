"""Times of a query on qoop and on plain Spark: on both to warm up, then in rounds, in random order.

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
from tests.bench.rounds import Rounds, interval
from tpcds.queries import spark_text
from yarn_plugin.console import out
from yarn_plugin.quantities import count


def ratio_to_spark(
    spark: SparkSession,
    query: int,
    rounds: Rounds,
    options: qoop.Options,
    observe: Callable[[Outcome], object] = lambda outcome: None,
    warm_up: int = 1,
    own_warm_up: int = 0,
    settle: int = 0,
) -> dict[str, Any]:
    """The median times, the ratio and its 95% interval, and the stages; `observe` is called after each run of qoop.

    `own_warm_up`: how many more runs come before the first round, on qoop alone; `settle`: yet more of a query that was
    planned.
    """
    text = spark_text(query)
    outcomes: list[Outcome] = []

    def run(engine: str) -> float:
        started = time.perf_counter()
        if engine == "spark":
            spark.sql(text).collect()
        else:
            outcomes.append(qoop.collect(spark, text, options).outcome)
            observe(outcomes[-1])
        return time.perf_counter() - started

    times: dict[str, list[float]] = {"spark": [], "qoop": []}
    ratios: list[float] = []
    order = random.Random(query)
    for _ in range(warm_up):
        for engine in order.sample(list(times), 2):
            run(engine)
    for _ in range(own_warm_up + (settle if any(outcome.decisions for outcome in outcomes) else 0)):
        run("qoop")
    while not rounds.are_enough(ratios, sum(map(sum, times.values()))):
        for engine in order.sample(list(times), 2):
            times[engine].append(run(engine))
        ratios.append(times["qoop"][-1] / times["spark"][-1])
    plain, ours = (statistics.median(times[engine]) for engine in ("spark", "qoop"))
    ratio = interval(ratios)
    # Now and then the guard has a query planned anew.
    measured = outcomes[-len(ratios) :]
    stages = statistics.mode(outcome.counts.stages for outcome in measured)
    reason = next(outcome.one_stage_reason for outcome in measured if outcome.counts.stages == stages)
    out.print(
        f"  query {query}: spark {plain:.2f} s, qoop {ours:.2f} s, ratio {ratio.mean:.2f} "
        f"({ratio.low:.2f} to {ratio.high:.2f}; {count(len(ratios), 'round')}, {count(stages, 'stage')})"
        + (f": {reason}" if reason else ""),
        soft_wrap=True,
    )
    return {
        "query": query,
        "spark_s": plain,
        "qoop_s": ours,
        "ratio": ratio.mean,
        "ratios": ratios,
        "stages": stages,
        "reason": reason,
    }
