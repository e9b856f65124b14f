"""A Spark session on two cores of this machine, for a module of tests, and what a query may leave behind in it."""

import contextlib
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tpcds import data
from tpcds.data import DataSet
from tpcds.spark_engine import spark_session


def small_data() -> DataSet:
    """TPC-DS small enough that a query takes a second; made once for this user."""
    return data.open_data(data.ensure(0.01))


@contextlib.contextmanager
def local_session(folder: Path, data_set: DataSet):
    """A session whose tables can be stored in `folder`, with a temporary view for each table of the data set."""
    settings = {
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "4",
        "spark.scheduler.mode": "FAIR",
    }
    with spark_session(data_set, "local[2]", settings) as session:
        yield session


def left_behind(spark: SparkSession) -> dict[str, object]:
    """What a query could leave in its user's session."""
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


def active_jobs(spark: SparkSession) -> list[int]:
    """The jobs that run now."""
    return sorted(spark.sparkContext.statusTracker().getActiveJobsIds())


@contextlib.contextmanager
def nothing_left(spark: SparkSession):
    """What is done inside leaves the session as it was. Spark lets go of some things a moment later."""
    wait_until(lambda: not active_jobs(spark))
    before = left_behind(spark)
    yield
    wait_until(lambda: left_behind(spark) == before, lambda: f"left behind: {_difference(left_behind(spark), before)}")


def _difference(now, before):
    return {name: (now[name], before[name]) for name in now if now[name] != before[name]}


def wait_until(holds, said=lambda: "it did not come about", limit_s=30.0):
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)
