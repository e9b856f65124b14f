"""A local Spark session with two cores, and checks that a query leaves its state unchanged."""

import contextlib
import gc
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from qoop.engine.connection import java_class
from qoop.engine.persisted import RELEASE
from qoop.engine.unfinished import block_managers, stored_partitions
from tpcds import data
from tpcds.data import DataSet
from tpcds.spark_engine import spark_session

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Spark's processes run for a minute or two, mostly code that runs a few times only.

With one compiler Java reserves 48 MB for compiled code, and some tests need more.
"""


def small_data() -> DataSet:
    """TPC-DS data so small that a query takes a second; generated once per user."""
    return data.open_data(data.ensure(0.01))


@contextlib.contextmanager
def local_session(folder: Path, data_set: DataSet):
    """A session whose tables can be stored in `folder`, with a temporary view for each table of the data set."""
    settings = {
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "4",
        "spark.scheduler.mode": "FAIR",
        # Tables of tests are so small that nothing would be planned.
        "spark.qoop.plan": "always",
    }
    with spark_session(data_set, "local[2]", settings) as session:
        yield session


def session_state(spark: SparkSession) -> dict[str, object]:
    """The state of a session that a query could change."""
    context = spark.sparkContext
    manager = spark._jsparkSession.sharedState().cacheManager()
    return {
        "views": {table.name for table in spark.catalog.listTables()},
        "settings": spark._jsparkSession.conf().getAll().toString(),
        "cached frames": manager.numCachedEntries(),
        "persisted": set(context._jsc.getPersistentRDDs()),
        "tags": context.getJobTags(),
        "pool": context.getLocalProperty("spark.scheduler.pool"),
        "description": context.getLocalProperty("spark.job.description"),
        "active jobs": active_jobs(spark),
    }


def remove_stored_rows(spark: SparkSession) -> None:
    """Remove the stored partitions of all RDDs, as if the executors that have them had died."""
    managers, block = block_managers(spark.sparkContext), java_class(spark._jvm, "org.apache.spark.storage.RDDBlockId")
    for identity, rdd in spark.sparkContext._jsc.getPersistentRDDs().items():
        for partition in range(rdd.getNumPartitions()):
            managers.removeBlock(block(identity, partition))
    wait_until(lambda: not sum(stored_partitions(spark.sparkContext).values()))


def unpersist_all_rdds(spark: SparkSession) -> None:
    """Unpersist all RDDs of the application, as some programs do to make room."""
    for rdd in spark.sparkContext._jsc.getPersistentRDDs().values():
        rdd.unpersist(True)


def active_jobs(spark: SparkSession) -> list[int]:
    """The ids of running jobs."""
    return sorted(spark.sparkContext.statusTracker().getActiveJobsIds())


@contextlib.contextmanager
def changed(spark: SparkSession, name: str, value: str):
    """A session in which a setting has another value."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


@contextlib.contextmanager
def session_unchanged(spark: SparkSession):
    """Check that the block leaves the session unchanged; Spark releases some state a moment later."""
    wait_until(lambda: not active_jobs(spark))
    release_unused()
    before = session_state(spark)
    yield
    wait_until(
        lambda: not _difference(session_state(spark), before),
        lambda: f"changed: {_difference(session_state(spark), before)}",
    )


def release_unused() -> None:
    """Release the stored outputs of frames that earlier tests have left, and wait until that is done."""
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == RELEASE:
            thread.join(30)
            assert not thread.is_alive()


def _difference(now, before):
    """What differs, now and before; not rows that were stored before, which Spark's cleaner may remove at any time."""
    before = {**before, "persisted": before["persisted"] & now["persisted"]}
    return {name: (now[name], before[name]) for name in now if now[name] != before[name]}


def wait_until(condition, message=lambda: "the condition did not become true", limit_s=30.0):
    """Wait for a condition that another thread or process makes true."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.05)
