"""What a wrong belief of the slots costs: queries that were told far too many or too few, against the right number.

Told 16 slots on `local[2]`, and told 1 on `local[8]`; right is 2 and 8. Each query is planned (`plan="always"`, no
guard, so that each run chooses anew), run once with either belief to warm up, and then in pairs, of which every other
one begins with the right belief. The result is the ratio of the times, told to right. By environment variables:

- `BELIEFS_SCALE` (1): of the data. `BELIEFS_QUERIES`, such as 24,29. `BELIEFS_PAIRS` (7).
- `BELIEFS_SECONDS`: after these no further query is begun.

Results are kept in `out/beliefs/scale-1.jsonl`, and a run continues after them; delete the file to start anew.
"""

import json
import math
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

import qoop
from qoop.engine.garbage import free_room
from tpcds import data
from tpcds.queries import parse_numbers, spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out

QUERIES = "17,18,24,25,29,50,64,72,84,85"
"""Queries in whose plans the slots matter: many joins, most of large tables."""


class Case(NamedTuple):
    """A belief of the slots, and how many there are."""

    told: float
    slots: int


CASES = (Case(16.0, 2), Case(1.0, 8))


def measure() -> dict[str, Any]:
    """The ratio of execution times, told to right: geometric mean, the worst query's median, and each query."""
    environment = os.environ
    opened = data.open_data(data.ensure(data.parse_scale(environment.get("BELIEFS_SCALE", "1"))))
    kept = Path("out/beliefs", f"scale-{environment.get('BELIEFS_SCALE', '1')}.jsonl")
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    ends = time.monotonic() + float(environment.get("BELIEFS_SECONDS", "inf"))
    for case in CASES:
        known = {row["query"] for row in rows if (row["told"], row["slots"]) == case}
        left = [query for query in parse_numbers(environment.get("BELIEFS_QUERIES", QUERIES)) if query not in known]
        if not left or time.monotonic() > ends:
            continue
        with spark_session(opened, f"local[{case.slots}]", {}) as spark:
            for row in _measured(spark, case, left, int(environment.get("BELIEFS_PAIRS", "7")), ends):
                rows.append(row)
                kept.parent.mkdir(parents=True, exist_ok=True)
                with kept.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return _summary(rows)


def _measured(spark: SparkSession, case: Case, queries: list[int], pairs: int, ends: float) -> Iterator[dict[str, Any]]:
    for query in queries:
        if time.monotonic() > ends:
            return
        free_room(spark)
        text = spark_text(query)

        def run(slots: float, text: str = text) -> float:
            started = time.perf_counter()
            qoop.collect(spark, text, qoop.Options(slots=slots, plan="always", guard=None))
            return time.perf_counter() - started

        right = float(case.slots)
        for slots in (right, case.told):
            run(slots)
        times: dict[float, list[float]] = {right: [], case.told: []}
        for pair in range(pairs):
            for slots in (right, case.told) if pair % 2 else (case.told, right):
                times[slots].append(run(slots))
        ratios = [told / other for told, other in zip(times[case.told], times[right], strict=True)]
        row = {"query": query, "told": case.told, "slots": case.slots, "ratio": statistics.median(ratios)}
        row |= {"told_s": statistics.median(times[case.told]), "right_s": statistics.median(times[right])}
        out.print(
            f"  query {query}, {case.slots} slots: told {case.told:g} {row['told_s']:.2f} s, told right"
            f" {row['right_s']:.2f} s, ratio {row['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            soft_wrap=True,
        )
        yield {**row, "ratios": ratios}


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    worst = max(rows, key=lambda row: float(row["ratio"]))
    means = {
        f"told_{told:g}_on_{slots}": _mean([row for row in rows if (row["told"], row["slots"]) == (told, slots)])
        for told, slots in sorted({(row["told"], row["slots"]) for row in rows})
    }
    return {
        "geometric_mean": _mean(rows),
        "worst": worst["ratio"],
        "worst_query": worst["query"],
        **means,
        "queries_measured": len(rows),
        "queries": rows,
    }


def _mean(rows: list[dict[str, Any]]) -> float:
    return math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
