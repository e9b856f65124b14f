"""An executor that dies between two reads of a stage's output, whose values differ when they are computed again.

The sums of the tests are over times of day, in a function that claims to be deterministic: computed again they differ
visibly, as sums of floating-point numbers do in their last digits.
"""

import os
import shutil
import threading

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from qoop.engine.checkpoints import ExecutorCheckpoints, FileCheckpoints
from qoop.engine.folders import QueryFolder
from qoop.engine.session import QueryAsWritten, query_session
from qoop.engine.spark_engine import SparkEngine
from qoop.engine.verification import has_exact_values
from qoop.plans.plan import RESULT, StageId
from qoop.replan.events import CheckpointLost, StageFailed, StageFinished
from tests.sampled import one_in
from tests.spark.spark_sessions import changed, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session with two executors, each a process of its own."""
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def stamp(number):
        import time

        return time.time() + number

    session.udf.register("stamp", udf(stamp, "double", useArrow=False))
    session.sql("SELECT id, id % 20 AS k FROM range(0, 400, 1, 4)").createOrReplaceTempView("facts")
    session.sql("SELECT id AS k, id % 3 AS g FROM range(20)").createOrReplaceTempView("kinds")
    session.sql("SELECT id AS g, id + 7 AS w FROM range(3)").createOrReplaceTempView("groups")
    wait_until(lambda: len(executors(session)) == 2)
    yield session
    session.stop()


def executors(spark):
    """The processes of the executors."""
    started = []
    for process in psutil.Process().children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
            started.append(process)
    return started


def stored_partitions(spark):
    return sum(info.numCachedPartitions() for info in spark.sparkContext._jsc.sc().getRDDStorageInfo())


def kill_executor(spark):
    """Kill an executor that stores something, and wait until its partitions are known to be lost."""
    before = stored_partitions(spark)
    for process in executors(spark):
        process.kill()
        process.wait()
        waiter = threading.Event()
        for _ in range(100):
            if stored_partitions(spark) < before:
                return
            waiter.wait(0.1)
    raise AssertionError("no executor stored anything")


SUMS = "SELECT k, sum(stamp(id)) AS s FROM facts GROUP BY k"


class Watched:
    """An engine and the events that it reports."""

    def __init__(self, spark, checkpoints=ExecutorCheckpoints):
        self.events, self.results = [], []
        session = query_session(spark)
        self.checkpoints = checkpoints(session)
        written = QueryAsWritten(spark, "SELECT 1L AS k")
        self.engine = SparkEngine(session, "watched", written, self.checkpoints, self.take, self.events.append)

    def take(self, frame):
        self.results.append(frame.collect())
        return len(self.results[-1]), self.results[-1]

    def run(self, stage, text, view):
        """Run a stage to its end; returns the event."""
        seen = len(self.events)

        def ended():
            return [event for event in self.events[seen:] if isinstance(event, StageFinished | StageFailed)]

        self.engine.start(stage, text, view)
        wait_until(ended, lambda: str(self.events), limit_s=90.0)
        return ended()[0]

    def lost(self):
        return {event.stage for event in self.events if isinstance(event, CheckpointLost)}

    def close(self):
        self.engine.close()
        self.checkpoints.release()


ONE, TWO, OTHER = StageId("qoop_result", 3), StageId("qoop_result", 12), StageId("qoop_result", 48)


COPY = "SELECT /*+ REPARTITION(4) */ k, s FROM one"

DIFFERENT = "SELECT one.k FROM one JOIN two ON two.k = one.k WHERE two.s <> one.s"


@pytest.mark.parametrize("whole", [True, pytest.param(False, marks=pytest.mark.matrix)])
def test_an_executor_killed_between_two_reads(spark, monkeypatch, whole):
    """The sums and what was made from them are lost as a whole; otherwise sums of two computations would be mixed."""
    if not whole:
        monkeypatch.setattr("qoop.engine.prepared.has_exact_values", lambda frame: True)
        monkeypatch.setattr(ExecutorCheckpoints, "MIN_LOST_FRACTION", 2.0)
    watched = Watched(spark)
    try:
        for stage, text, view in ((ONE, SUMS, "one"), (TWO, COPY, "two"), (OTHER, "SELECT g FROM groups", "other")):
            assert isinstance(watched.run(stage, text, view), StageFinished)
        kill_executor(spark)
        if whole:
            wait_until(lambda: {ONE, TWO} <= watched.lost())
            failed = watched.run(RESULT, DIFFERENT, None)
            assert isinstance(failed, StageFailed) and failed.retry
            for stage, text, view in ((ONE, SUMS, "one"), (TWO, COPY, "two")):
                assert isinstance(watched.run(stage, text, view), StageFinished)
        assert isinstance(watched.run(RESULT, DIFFERENT, None), StageFinished)
        (different,) = watched.results
        assert bool(different) == (not whole)
    finally:
        watched.close()
    wait_until(lambda: len(executors(spark)) == 2)


def test_a_missing_file_of_an_output_never_reads_as_no_rows(spark, tmp_path):
    """Even in a session that ignores missing files."""
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    folder = QueryFolder(spark, f"{tmp_path.as_uri()}/qoop-", "1", lambda line: None)
    made = Watched(spark, lambda session: FileCheckpoints(session, folder))
    try:
        assert isinstance(made.run(ONE, "SELECT k, g FROM kinds", "one"), StageFinished)
        next(iter(tmp_path.rglob("*.parquet"))).unlink()
        failed = made.run(RESULT, "SELECT count(k) FROM one", None)
        assert isinstance(failed, StageFailed) and failed.retry
    finally:
        made.close()
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


@one_in(
    2,
    ("text", "exact"),
    [
        ("SELECT sum(k) AS s FROM facts", True),
        ("SELECT sum(CAST(k AS decimal(9, 2)) * 2) AS s FROM facts", True),
        ("SELECT count(*) AS n, max(k / 2) AS m FROM facts", True),
        ("SELECT k / 3 AS s FROM facts", True),
        ("SELECT facts.id, w FROM facts JOIN kinds ON facts.k = kinds.k JOIN groups ON groups.g = kinds.g", True),
        ("SELECT sum(k / 3) AS s FROM facts", False),
        ("SELECT avg(CAST(k AS float)) AS s FROM facts", False),
        ("SELECT try_sum(k * 1D) AS s FROM facts", False),
        ("SELECT stddev(k) AS s FROM facts", False),
        ("SELECT corr(k, id) AS s FROM facts", False),
        ("SELECT regr_slope(k, id) AS s FROM facts", False),
        ("SELECT k FROM facts WHERE k > (SELECT avg(sqrt(id)) FROM facts)", False),
        ("SELECT sum(id / 2) OVER (PARTITION BY k) AS s FROM facts", False),
        ("SELECT DISTINCT CAST(k AS string) COLLATE UTF8_LCASE AS s FROM facts", False),
    ],
)
def test_plans_whose_values_may_differ_when_computed_again(spark, text, exact):
    assert has_exact_values(spark.sql(text)) == exact


def test_outputs_in_files_without_a_mark_are_not_lost(spark, tmp_path):
    folder = QueryFolder(spark, f"{tmp_path.as_uri()}/qoop-", "marks", lambda line: None)
    outputs = FileCheckpoints(spark, folder)
    with changed(spark, "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"):
        outputs.save("kept", spark.range(5).toDF("id"))
    try:
        assert not list((tmp_path / "qoop-marks/kept").glob("*/_SUCCESS"))
        assert outputs.lost_views(suspected=True) == {}
        shutil.rmtree(tmp_path / "qoop-marks/kept")
        assert list(outputs.lost_views(suspected=True)) == ["kept"]
    finally:
        outputs.release()
