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
    `filters_...`: against Spark with runtime filters. `failed_queries`: those that failed, and where.
    """
    failed = [f"{row['query']} ({arm})" for row in rows for arm in row.get("failed", ())]
    compared = [row for row in rows if "filters_ratio" in row]
    more = {**_against_filters(compared), **({"failed_queries": ", ".join(failed)} if failed else {})}
    # A query that failed on one side is compared with nothing.
    rows = [row for row in rows if "ratio" in row]
    if not rows:
        return more
    unresolved = [row["query"] for row in rows if not interval(row["ratios"]).is_resolved]
    short = [row for row in rows if row["spark_s"] < SHORT_SECONDS]
    kinds = {
        "one_stage": [row for row in rows if row["stages"] == 1],
        "several_stages": [row for row in rows if row["stages"] > 1],
    }
    return {
        "queries_measured": len(rows),
        "geometric_mean": _mean(rows),
        **_bounds("geometric_mean", [row["ratio"] for row in rows]),
        "p95": _p95([row["ratio"] for row in rows]),
        "total": sum(row["qoop_s"] for row in rows) / sum(row["spark_s"] for row in rows),
        **{name: _mean(some) for name, some in kinds.items() if some},
        **_worst("worst_upper", [row for row in rows if row not in short], _upper),
        **_worst("worst_extra_s", short, _extra_seconds),
        "unresolved": len(unresolved),
        "unresolved_queries": ", ".join(map(str, unresolved)),
        **more,
    }


def _against_filters(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean over all queries against Spark with runtime filters, with its interval, and the ratio of total times."""
    if not rows:
        return {}
    ratios = [row["filters_ratio"] for row in rows]
    return {
        "filters_queries_measured": len(rows),
        "filters_geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))),
        **_bounds("filters_geometric_mean", ratios),
        "filters_total": sum(row["qoop_s"] for row in rows) / sum(row["filters_s"] for row in rows),
    }


def _bounds(name: str, ratios: Sequence[float]) -> dict[str, float]:
    """The 95% interval of a mean over queries, as they vary."""
    found = interval(ratios)
    return {f"{name}_low": found.low, f"{name}_upper": found.high}


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
