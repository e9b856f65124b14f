"""What is computed again of a scan of about 60 s that a switch cancels at 80%, once a plan comes back to it.

A table of 24 Parquet files on two slots, one file for each task, with an expression so slow that a task takes about
5 s. The stage is cancelled when 18 tasks have finished and the next two are half done, and then started again: by
itself, joined with a small table that is broadcast, and grouped, so that it is cancelled in its shuffle. Rows are
counted by Spark in all tasks, cancelled ones too.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from qoop.engine.checkpoints import ExecutorCheckpoints
from qoop.engine.session import QueryAsWritten, query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.plans.plan import StageId
from qoop.replan.events import Event, StageCancelled, StageFinished
from yarn_plugin.console import out

SECONDS, SLOTS, FILES, ROWS = 60.0, 2, 24, 20_000
"""Of the scan, and of its table; `ROWS`: of one file."""

CANCELLED_AFTER = 18
"""Finished tasks."""

SLOW = "sha2(repeat(CAST(id AS string), {repeats}), 512)"

STAGES = {
    "scan": f"SELECT id, {SLOW} AS x FROM facts",
    "join": f"SELECT id, {SLOW} AS x, g FROM facts JOIN kinds ON id % 7 = k",
    "shuffle": f"SELECT substr(x, 1, 2) AS k, count(*) AS n FROM (SELECT {SLOW} AS x FROM facts) GROUP BY 1",
}

STAGE = StageId("qoop_result", 3)


def measure(stages: tuple[str, ...] = tuple(STAGES)) -> dict[str, Any]:
    """For each stage, as fractions of the table's rows: what is read after it came back, and what is read twice."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        spark = _session(folder)
        try:
            repeats = _repeats(spark, folder)
            for name in stages:
                results |= _stage(spark, name, STAGES[name].format(repeats=repeats))
        finally:
            spark.stop()
    return results


def _session(folder: str) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{SLOTS}]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": folder,
        # More than a file, less than Spark counts for opening a second one: each file is a task.
        "spark.sql.files.maxPartitionBytes": "1m",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.range(0, FILES * ROWS, 1, FILES).write.parquet(f"{folder}/facts")
    spark.read.parquet(f"{folder}/facts").createOrReplaceTempView("facts")
    spark.sql("SELECT id AS k, id % 3 AS g FROM range(7)").createOrReplaceTempView("kinds")
    return spark


def _repeats(spark: SparkSession, folder: str) -> int:
    """How slow the expression must be, for the scan to take its time."""
    tried = 3000
    wanted = SECONDS * SLOTS / FILES
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        text = f"SELECT max({SLOW.format(repeats=tried)}) FROM range(0, {SLOTS * ROWS}, 1, {SLOTS})"
        spark.sql(text).collect()
        seconds = time.perf_counter() - started
    return max(int(tried * wanted / seconds), 1)


def _stage(spark: SparkSession, name: str, text: str) -> dict[str, Any]:
    events: list[Event] = []
    session = query_session(spark)
    checkpoints = ExecutorCheckpoints(session)
    written = QueryAsWritten(spark, "SELECT 1 AS one")
    engine = SparkEngine(session, name, written, checkpoints, lambda frame: (0, None), events.append)
    try:
        started = time.perf_counter()
        engine.start(STAGE, text, "one")
        _wait(lambda: _finished_tasks(spark, f"{name}-1") >= CANCELLED_AFTER)
        threading.Event().wait(0.5 * (time.perf_counter() - started) * SLOTS / CANCELLED_AFTER)
        engine.cancel((STAGE,))
        _wait(lambda: any(isinstance(event, StageCancelled) for event in events))
        (cancelled,) = [event for event in events if isinstance(event, StageCancelled)]
        stopped, resumed = time.perf_counter() - started, time.perf_counter()
        engine.start(STAGE, text, "one")
        _wait(lambda: any(isinstance(event, StageFinished) for event in events))
        seconds = time.perf_counter() - resumed
    finally:
        engine.close()
        checkpoints.release()
    before, after = (_rows_read(spark, f"{name}-{number}") / (FILES * ROWS) for number in (1, 2))
    came_back = f"then {after:.0%} read in {seconds:.0f} s"
    out.print(f"  {name}: cancelled after {stopped:.0f} s, {cancelled.kept:.0%} kept; {came_back}")
    return {f"{name}_recomputed": after, f"{name}_read_twice": before + after - 1.0, f"{name}_kept": cancelled.kept}


def _wait(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.05)


def _stages(spark: SparkSession, tag: str) -> list[Any]:
    """What Spark's store has of the Spark stages under a tag that have started."""
    scala = spark.sparkContext._jsc.sc()
    listed = [scala.statusStore().job(job).stageIds() for job in scala.statusTracker().getJobIdsForTag(tag)]
    found = []
    for number in {stages.apply(index) for stages in listed for index in range(stages.size())}:
        with suppress(Py4JError):
            # One that has not started is not there yet.
            found.append(scala.statusStore().lastStageAttempt(number))
    return found


def _finished_tasks(spark: SparkSession, tag: str) -> int:
    return max((stage.numCompleteTasks() for stage in _stages(spark, tag)), default=0)


def _rows_read(spark: SparkSession, tag: str) -> int:
    """The rows that tasks have read, with those of the broadcast table; a batch of stored rows counts as one."""
    time.sleep(1.0)
    return sum(int(stage.inputRecords()) for stage in _stages(spark, tag))
