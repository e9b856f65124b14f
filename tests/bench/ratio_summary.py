"""What the ratios of many queries say together."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench.rounds import interval

SHORT_SECONDS = 1.0
"""Queries that Spark ends sooner are judged by the seconds that they take longer, not by the ratio."""


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over kinds of queries, and upper bounds: the upper ends of 95% intervals, resolved or not.

    `worst_upper`: the largest ratio. `worst_extra_s`: for queries under a second, the most seconds beyond Spark's.
    `unresolved`: queries whose interval is wider than 5% each way; of them nothing is known but the bounds.
    """
    if not rows:
        return {}
    unresolved = [row["query"] for row in rows if not interval(row["ratios"]).is_resolved]
    short = [row for row in rows if row["spark_s"] < SHORT_SECONDS]
    kinds = {
        "one_stage": [row for row in rows if row["stages"] == 1],
        "several_stages": [row for row in rows if row["stages"] > 1],
    }
    return {
        "queries_measured": len(rows),
        "geometric_mean": _mean(rows),
        "p95": _p95([row["ratio"] for row in rows]),
        "total": sum(row["qoop_s"] for row in rows) / sum(row["spark_s"] for row in rows),
        **{name: _mean(some) for name, some in kinds.items() if some},
        **_worst("worst_upper", [row for row in rows if row not in short], _upper),
        **_worst("worst_extra_s", short, _extra_seconds),
        "unresolved": len(unresolved),
        "unresolved_queries": ", ".join(map(str, unresolved)),
    }


def _upper(row: dict[str, Any]) -> float:
    return interval(row["ratios"]).high


def _extra_seconds(row: dict[str, Any]) -> float:
    return float(row["spark_s"]) * (_upper(row) - 1)


def _worst(name: str, rows: Sequence[dict[str, Any]], bound: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    if not rows:
        return {}
    worst = max(rows, key=bound)
    return {name: bound(worst), f"{name}_query": worst["query"]}


def _mean(rows: Sequence[dict[str, Any]]) -> float:
    return math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
