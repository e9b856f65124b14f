"""What leaving replanning on costs: TPC-DS queries, a constant share, qoop against plain Spark with AQE.

And against the same with runtime filters that act on small tables too (`spark_ratio.FILTERS`), all in one session.
Spark runs in this process with two slots. Each query is run in the three ways to warm up: three times (from scale 10,
whose runs are long, once, and twice more on qoop), and if it was planned four more times on qoop, so that the guard
knows how it runs planned and as written. Then it is run in rounds, in random order, until the 95% intervals of the
ratios are within 5%: at least 3 rounds, at most 20 of 1.5 s or longer, and no further round after 5 min. A query that
fails in one of the ways is listed, and left out of the comparison with it. By environment variables:

- `OVERHEAD_SCALE` (1): of the data; from 10 on two dozen queries, below all 99.
- `OVERHEAD_PARTITIONED=1`: fact tables are partitioned by date, in Spark's catalogue.
- `OVERHEAD_ANALYSED=1`: tables are in Spark's catalogue, all columns analysed, and Spark's cost-based optimiser is on.
- `OVERHEAD_GUARD=0`: without a guard, so that each run chooses a plan; one round to warm up.
- `OVERHEAD_QUERIES`, such as 1-10,72; `OVERHEAD_ROUNDS` (20): at most; `OVERHEAD_SECONDS`: after these no further
  query is begun; 0 only makes the tables.

Results are kept in a file for each regime, such as `out/overhead/scale-1-analysed.jsonl`, and a run continues after
them; delete the file to start anew. What is partitioned and analysed is kept beside the data.
"""

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

import qoop
from qoop.engine.garbage import free_room
from qoop.engine.inputs import read_inputs, tables_named
from qoop.estimate.gate import Gate
from tests.bench.catalogue_tables import create_tables
from tests.bench.ratio_summary import summary
from tests.bench.rounds import Rounds
from tests.bench.spark_ratio import ARMS, ratio_to_spark
from tpcds import data
from tpcds.data import DataSet
from tpcds.queries import parse_numbers, spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out

EVERY_FOURTH = ",".join(map(str, range(4, 100, 4)))
"""The two dozen queries of large scales: chosen by their numbers alone, not by what is known of them."""


@dataclass(frozen=True, slots=True)
class Regime:
    """What is measured: the data, what Spark knows of it, and whether the guard may avoid planning."""

    scale: float = 1.0
    partitioned: bool = False
    analysed: bool = False
    guarded: bool = True

    @classmethod
    def chosen(cls, environment: Mapping[str, str]) -> "Regime":
        """The regime that environment variables choose."""

        def is_on(name: str, default: str) -> bool:
            return environment.get(name, default) != "0"

        return cls(
            data.parse_scale(environment.get("OVERHEAD_SCALE", "1")),
            is_on("OVERHEAD_PARTITIONED", "0"),
            is_on("OVERHEAD_ANALYSED", "0"),
            is_on("OVERHEAD_GUARD", "1"),
        )

    @property
    def kept(self) -> Path:
        """The file of its results."""
        marks = {"partitioned": self.partitioned, "analysed": self.analysed, "planned": not self.guarded}
        return Path(
            "out/overhead", "-".join([f"scale-{self.scale:g}", *(mark for mark in marks if marks[mark])]) + ".jsonl"
        )

    @property
    def is_large(self) -> bool:
        return self.scale >= 10

    @property
    def queries(self) -> str:
        return EVERY_FOURTH if self.is_large else "1-99"

    @property
    def mean(self) -> str:
        """The name of its geometric mean, for which each scale and each Spark to compare with has a goal."""
        return f"geometric_mean_scale_{self.scale:g}_{'cbo' if self.analysed else 'aqe'}"


def measure() -> dict[str, Any]:
    """The ratio of execution times, qoop to plain Spark: means over kinds of queries, bounds, and each query."""
    most = int(os.environ.get("OVERHEAD_ROUNDS", "20"))
    regime, rounds = Regime.chosen(os.environ), Rounds(min(most, 3), most, 1.5 if most > 3 else 0.0, 300)
    queries = parse_numbers(os.environ.get("OVERHEAD_QUERIES", regime.queries))
    ends = time.monotonic() + float(os.environ.get("OVERHEAD_SECONDS", "inf"))
    opened = data.open_data(data.ensure(regime.scale))
    with _session(regime, opened) as spark:
        gate = [_gate_ms(spark, query) for query in (*queries, *queries)]
        with _no_past_runs():
            rows = _measured(spark, regime, queries, rounds, ends)
    results = summary(rows)
    means = {regime.mean: results.pop("geometric_mean")} if "geometric_mean" in results else {}
    return {**_gate_times(gate[: len(queries)], gate[len(queries) :]), **means, **results, "queries": rows}


@contextlib.contextmanager
def _session(regime: Regime, opened: DataSet) -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as warehouse:
        confs = {"spark.sql.warehouse.dir": warehouse, "spark.sql.cbo.enabled": str(regime.analysed).lower()}
        with spark_session(opened, "local[2]", confs) as spark:
            if regime.partitioned or regime.analysed:
                create_tables(spark, opened, regime.partitioned, regime.analysed)
            yield spark


@contextlib.contextmanager
def _no_past_runs() -> Iterator[None]:
    """Without the runs that this user's guard has recorded, and without adding to them."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
        yield


def _measured(
    spark: SparkSession, regime: Regime, queries: Sequence[int], rounds: Rounds, ends: float
) -> list[dict[str, Any]]:
    """The results of these queries, earlier ones first; those of queries that there is no time for are left out."""
    lines = regime.kept.read_text().splitlines() if regime.kept.exists() else []
    known = {row["query"]: row for row in map(json.loads, lines)}
    if found := known.keys() & set(queries):
        out.print(f"  {len(found)} queries are in {regime.kept}; delete it to measure them again")
    options, warm_up, settle = (qoop.Options(), 3, 4) if regime.guarded else (qoop.Options(guard=None), 1, 0)
    warm_up, own = (1, warm_up - 1) if regime.is_large else (warm_up, 0)
    for query in queries:
        if query in known or time.monotonic() > ends:
            continue
        free_room(spark)
        known[query] = ratio_to_spark(
            spark, query, rounds, options, warm_up=warm_up, own_warm_up=own, settle=settle, arms=ARMS
        )
        regime.kept.parent.mkdir(parents=True, exist_ok=True)
        with regime.kept.open("a") as file:
            file.write(json.dumps(known[query]) + "\n")
    return [known[query] for query in queries if query in known]


def _gate_times(cold: Sequence[float], warm: Sequence[float]) -> dict[str, float]:
    return {
        "gate_ms_p50": statistics.median(warm),
        "gate_ms_p95": statistics.quantiles(warm, n=20)[-1] if len(warm) > 1 else warm[0],
        "gate_ms_cold_p95": statistics.quantiles(cold, n=20)[-1] if len(cold) > 1 else cold[0],
        "gate_ms_first": cold[0],
    }


def _gate_ms(spark: SparkSession, query: int) -> float:
    """The time of the gate beyond Spark's optimiser, whose plan is the one that runs if the gate stops the query."""
    text = spark_text(query)
    frame = spark.sql(text)
    frame._jdf.queryExecution().optimizedPlan()
    started = time.perf_counter()
    gate, slots, named = Gate(), float(spark.sparkContext.defaultParallelism), tables_named(frame)
    inputs = read_inputs(frame, gate.bytes_to_know(slots, named, len(text)), named)
    gate.cause(inputs, slots, characters=len(text))
    return 1e3 * (time.perf_counter() - started)
