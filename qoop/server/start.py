"""Spark in the server's own process, within its share."""

import logging
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.as_written.decide import PlanWhen
from qoop.engine.executors import Executors, ExecutorTarget
from qoop.engine.folder_tables import quoted, source_of
from qoop.engine.session import spark_home
from qoop.errors import QoopError
from qoop.feedback.arbiter import ArbiterFeed
from qoop.feedback.profile import ProfileFeed, read_profile
from qoop.options import Options
from qoop.server.shares import Shares
from qoop.server.spark import SparkApplication
from qoop.submit.command import default_confs, python_variables
from qoop.submit.job import SparkFlags
from qoop.submit.registration import ArbiterAccess, Registration
from qoop.tables.folder import FolderCatalogue
from qoop.tables.text_files import options_of
from yarn_plugin.errors import describe

log = logging.getLogger("qoop.server")


@contextmanager
def started(
    name: str,
    tables: Path | None,
    profile: Path | None,
    plan: PlanWhen | None,
    flags: SparkFlags,
    access: ArbiterAccess | None,
    registration: Registration | None,
) -> Iterator[SparkApplication]:
    """Within this context the application runs, and follows its share.

    The JVM is a child that ends when this process does, even if it is killed; then YARN ends the application.
    """
    confs = default_confs(flags) | ({} if registration is None else registration.confs())
    if flags.value("--name") is None:
        confs["spark.app.name"] = name
    spark = _session(flags, confs)
    try:
        if tables is not None:
            show_tables(spark, tables)
        with _shares(spark, profile, access, registration) as shares:
            yield SparkApplication(spark, shares, Options(plan=plan))
    finally:
        with suppress(Py4JError, OSError):  # It has stopped already.
            spark.stop()


def _session(flags: SparkFlags, confs: Mapping[str, str]) -> SparkSession:
    settings = [word for pair in confs.items() for word in ("--conf", "=".join(pair))]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*flags.flags, *settings, "pyspark-shell"])
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.update(python_variables(flags))
    try:
        return SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as problem:
        raise QoopError(f"Spark could not be started: {describe(problem)}") from problem


@contextmanager
def _shares(
    spark: SparkSession, profile: Path | None, access: ArbiterAccess | None, registration: Registration | None
) -> Iterator[Shares | None]:
    if access is not None and registration is not None:
        feed = ArbiterFeed(access.url, registration.token, registration.app, registration.size, access.verify)
        holder = _Holder(spark)
        shares = Shares(feed, holder, feed.confirm)
    elif profile is not None:
        holder, shares = None, Shares(ProfileFeed(read_profile(profile)), None)
    else:
        yield None
        return
    with shares.telling(log.info):
        shares.start()
        try:
            yield shares
        finally:
            shares.close()
            if holder is not None:
                holder.close()


class _Holder:
    """Requests and decommissions the application's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._executors = Executors(spark.sparkContext)
        self._target = ExecutorTarget(self._executors, "server", log.warning)

    def set_executors(self, target: int, by: float) -> None:
        self._target.set(target, by)

    def executors(self) -> int:
        return self._executors.count()

    def close(self) -> None:
        self._target.close()


def show_tables(spark: SparkSession, folder: Path) -> None:
    """Make a table of each in the folder, in Spark's catalogue in memory.

    Raises:
        TablesError: the folder has no tables.
        QoopError: the catalogue is one that is kept, or Spark cannot read a table.
    """
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory":
        raise QoopError("--tables: cannot be given with a metastore, in which the tables would be kept")
    catalogue = FolderCatalogue(folder)
    for name in catalogue.tables:
        try:
            table = catalogue.stored(name)
            spark.catalog.createTable(quoted(name), **source_of(table), **options_of(table))
        except (PySparkException, Py4JError, QoopError) as problem:
            log.warning("--tables %r: %r is left out: %s", str(folder), name, describe(problem))
