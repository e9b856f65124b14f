"""The driver's own time in each stage: what qoop takes beyond what Spark takes for the same SQL persisted and counted.

TPC-DS at scale 0.1, Spark in this process with two slots. The share is one slot, so that stages run one after another,
and plans are cut at every join. Each query runs on qoop, then the texts of its stages run on Spark alone, in rounds
after one to warm up. A stage lasts from the end of the one before it, decision included, to its own end.
"""

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from pyspark import StorageLevel
from pyspark.sql import SparkSession

import qoop
from qoop.engine import checkpoints, prepared, spark_engine
from qoop.engine.session import query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.engine.verification import Verification
from qoop.feedback.profile import fixed_share
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Rules
from qoop.run.query_run import QueryRun
from tpcds import data
from tpcds.queries import spark_text
from tpcds.spark_engine import spark_session
from yarn_plugin.console import out
from yarn_plugin.quantities import count

QUERIES = (17, 24, 25, 72, 85)
"""Of many joins; not 64, whose last plan Spark alone cannot print in the memory of this session: the stages that others
read several times are in it again with their whole plans."""

SCALE, ROUNDS = 0.1, 5

POLLING = "polling (beside)"

ITEMS: tuple[tuple[str, Any, str], ...] = (
    ("decision, with SQL text", QueryRun, "_step"),
    ("SQL text", QueryRun, "_render"),
    ("parse and analysis", SparkSession, "sql"),
    ("exactness", prepared, "has_exact_values"),
    ("optimise, compute and store", checkpoints.ExecutorCheckpoints, "save"),
    ("measure", spark_engine, "task_time"),
    ("check of the plan (beside)", Verification, "check"),
    (POLLING, SparkEngine, "_report_executors"),
    (POLLING, SparkEngine, "_check_outputs"),
)
"""What is timed: a name, and the function."""

BESIDE, BESIDE_THREADS = "(beside)", ("-check", "-watch", "-prepare")
"""What runs beside the stages, and the ends of the names of its threads; what it calls is not timed by itself."""


@dataclass
class Trace:
    """The stages of one run: their texts, and the seconds of each from the end of the one before it.

    `spent`: seconds in each item, over the whole run.
    """

    started: float = 0.0
    texts: list[tuple[str | None, str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    lock: threading.Lock = field(default_factory=threading.Lock)


def measure() -> dict[str, Any]:
    """Seconds beyond Spark's per stage: median, p95 and mean, and the mean of each item per stage."""
    opened = data.open_data(data.ensure(SCALE))
    stages: list[float] = []
    ratios: list[float] = []
    spent: dict[str, float] = defaultdict(float)
    with spark_session(opened, "local[2]", {}) as spark:
        for query in QUERIES:
            ours, alone, items = _query(spark, query)
            stages += [one - other for one, other in zip(ours, alone, strict=True)]
            ratios.append(sum(ours) / sum(alone))
            for name, seconds in items.items():
                spent[name] += seconds
            out.print(f"  query {query}: {count(len(ours), 'stage')}, ratio {ratios[-1]:.2f}")
    return {
        "beyond_s_median": statistics.median(stages),
        "beyond_s_p95": statistics.quantiles(stages, n=20)[-1],
        "beyond_s_mean": statistics.fmean(stages),
        "ratio_median": statistics.median(ratios),
        "stages": len(stages),
        **{f"{name}, ms a stage": 1e3 * seconds / len(stages) for name, seconds in spent.items()},
    }


def _query(spark: SparkSession, query: int) -> tuple[list[float], list[float], dict[str, float]]:
    """The medians of each stage on qoop and on Spark alone, and of each item over all stages."""
    ours: list[Trace] = []
    alone: list[Trace] = []
    for _ in range(ROUNDS + 1):
        ours.append(_on_qoop(spark, query))
        alone.append(_alone(spark, ours[-1].texts))
    ours, alone = ours[1:], alone[1:]
    if any(one.texts != ours[0].texts for one in ours):
        raise RuntimeError(f"query {query} ran other stages in another round")
    names = dict.fromkeys(name for one in (*ours, *alone) for name in one.spent)
    items = {name: statistics.median(one.spent.get(name, 0.0) for one in ours) for name in names}
    items |= {f"{name} (Spark alone)": statistics.median(one.spent[name] for one in alone) for name in alone[0].spent}
    return _medians(ours), _medians(alone), items


def _medians(runs: list[Trace]) -> list[float]:
    return [statistics.median(seconds) for seconds in zip(*(one.seconds for one in runs), strict=True)]


def _on_qoop(spark: SparkSession, query: int) -> Trace:
    trace = Trace()
    options = qoop.Options(
        feed=lambda: fixed_share(1.0),
        rules=Rules(hysteresis=1.0, min_gain=1e9),
        cut_policy=CutPolicy(everywhere=True),
    )
    with _tracing(trace):
        qoop.collect(spark, spark_text(query), options)
    return trace


def _alone(spark: SparkSession, texts: list[tuple[str | None, str]]) -> Trace:
    session, trace, frames = query_session(spark), Trace(), []
    for view, text in texts:
        started = time.perf_counter()
        frame = session.sql(text)
        trace.spent["parse and analysis"] += time.perf_counter() - started
        if view is None:
            frame.collect()
        else:
            frame.persist(StorageLevel.MEMORY_AND_DISK)
            frames.append(frame)
            frame.count()
            frame.createOrReplaceTempView(view)
        trace.seconds.append(time.perf_counter() - started)
    for frame in frames:
        frame.unpersist()
    return trace


@contextmanager
def _tracing(trace: Trace) -> Iterator[None]:
    run, start, ended = QueryRun.run, SparkEngine.start, SparkEngine._ended

    def traced_run(self: Any, *args: Any) -> Any:
        trace.started = time.perf_counter()
        return run(self, *args)

    def traced_start(self: Any, stage: Any, text: str, view: str | None) -> None:
        trace.texts.append((view, text))
        start(self, stage, text, view)

    def traced_end(self: Any, *args: Any) -> None:
        now = time.perf_counter()
        trace.seconds.append(now - trace.started)
        trace.started = now
        ended(self, *args)

    with ExitStack() as patches:
        patches.enter_context(patch.object(QueryRun, "run", traced_run))
        patches.enter_context(patch.object(SparkEngine, "start", traced_start))
        patches.enter_context(patch.object(SparkEngine, "_ended", traced_end))
        for name, owner, attribute in ITEMS:
            patches.enter_context(patch.object(owner, attribute, _timed(trace, name, getattr(owner, attribute))))
        yield


def _timed(trace: Trace, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            is_beside = threading.current_thread().name.endswith(BESIDE_THREADS)
            with trace.lock:
                if is_beside == name.endswith(BESIDE):
                    trace.spent[name] += time.perf_counter() - started

    return timed
