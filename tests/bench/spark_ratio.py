"""Times of a query on qoop and on plain Spark: on all to warm up, then in rounds, in random order.

The runs of a round follow each other, and the result is the geometric mean of the rounds' ratios: what else the machine
does mostly affects all of them.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import qoop
from qoop.engine.failures import message_of
from qoop.engine.garbage import free_room
from qoop.engine.runtime_filters import FILTERED, MADE_OF
from qoop.errors import QueryFailedError
from qoop.run.query_run import Outcome
from tests.bench.rounds import Rounds, interval
from tpcds.queries import spark_text
from yarn_plugin.console import out
from yarn_plugin.quantities import count

ARMS = ("spark", "filters", "qoop")
"""Plain Spark with adaptive execution, the same with runtime filters that act on small tables too, and qoop."""

FILTERS = {FILTERED: "1MB", MADE_OF: "100MB"}
"""The settings of the second, for the whole session while it runs."""

Failure = (PySparkException, Py4JError, QueryFailedError)


def ratio_to_spark(
    spark: SparkSession,
    query: int,
    rounds: Rounds,
    options: qoop.Options,
    observe: Callable[[Outcome], object] = lambda outcome: None,
    warm_up: int = 1,
    own_warm_up: int = 0,
    settle: int = 0,
    arms: Sequence[str] = ("spark", "qoop"),
) -> dict[str, Any]:
    """The median times, the ratios of qoop's to the others' with their rounds, and the stages.

    `observe` is called after each run of qoop. `own_warm_up`: how many more runs come before the first round, on qoop
    alone; `settle`: yet more of a query that was planned. An arm in which the query fails is left out, and named in
    `failed` with its message.
    """
    text = spark_text(query)
    outcomes: list[Outcome] = []
    failed: dict[str, str] = {}

    def run(arm: str) -> float | None:
        started = time.perf_counter()
        try:
            if arm == "qoop":
                outcomes.append(qoop.collect(spark, text, options).outcome)
                observe(outcomes[-1])
            else:
                _run_on_spark(spark, text, FILTERS if arm == "filters" else {})
        except Failure as problem:
            failed[arm] = message_of(problem)[:200]
            free_room(spark)
            return None
        return time.perf_counter() - started

    order, times = random.Random(query), []
    for _ in range(warm_up):
        for arm in order.sample(arms, len(arms)):
            if arm not in failed:
                run(arm)
    for _ in range(own_warm_up + (settle if any(outcome.decisions for outcome in outcomes) else 0)):
        if "qoop" not in failed:
            run("qoop")
    while "qoop" not in failed and len(failed) + 1 < len(arms):
        left = [arm for arm in arms if arm not in failed]
        took = {arm: run(arm) for arm in order.sample(left, len(left))}
        times.append(took)
        if _are_enough(rounds, times, [arm for arm in left if arm not in failed]):
            break
    return _row(query, [arm for arm in arms if arm not in failed], times, outcomes, failed)


def _run_on_spark(spark: SparkSession, text: str, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        spark.sql(text).collect()
    finally:
        for name in settings:
            spark.conf.unset(name)


def _are_enough(rounds: Rounds, times: Sequence[dict[str, Any]], arms: Sequence[str]) -> bool:
    seconds = sum(took or 0.0 for one in times for took in one.values())
    return all(rounds.are_enough(_ratios(times, arm), seconds) for arm in arms if arm != "qoop")


def _ratios(times: Sequence[dict[str, Any]], arm: str) -> list[float]:
    return [one["qoop"] / one[arm] for one in times if one.get("qoop") and one.get(arm)]


def _row(
    query: int,
    arms: Sequence[str],
    times: Sequence[dict[str, Any]],
    outcomes: Sequence[Outcome],
    failed: dict[str, str],
) -> dict[str, Any]:
    """The result of a query, and a line of it on the terminal."""
    row: dict[str, Any] = {"query": query, "stages": 1, "reason": None, "failed": failed}
    said = [f"{arm} failed: {message}" for arm, message in failed.items()]
    is_compared = "qoop" in arms and bool(times)
    for arm in arms if is_compared else ():
        row[f"{arm}_s"] = statistics.median(took for one in times if (took := one.get(arm)))
        said.append(f"{arm} {row[f'{arm}_s']:.2f} s")
        if arm == "qoop" or not (ratios := _ratios(times, arm)):
            continue
        prefix, ratio = "" if arm == "spark" else f"{arm}_", interval(ratios)
        row |= {f"{prefix}ratio": ratio.mean, f"{prefix}ratios": ratios}
        said.append(f"ratio to it {ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
    if is_compared:
        # Now and then the guard has a query planned anew.
        measured = outcomes[-len(times) :]
        row["stages"] = statistics.mode(outcome.counts.stages for outcome in measured)
        row["reason"] = next(one.one_stage_reason for one in measured if one.counts.stages == row["stages"])
        said.append(f"{count(len(times), 'round')}, {count(row['stages'], 'stage')}")
    reason = f": {row['reason']}" if row["reason"] else ""
    out.print(f"  query {query}: {', '.join(said)}{reason}", soft_wrap=True)
    return row
