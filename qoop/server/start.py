"""Spark in the server's own process, within its share."""

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.as_written.decide import PlanWhen
from qoop.engine.folders import taken_literally
from qoop.errors import QoopError
from qoop.options import Options
from qoop.server.spark import SparkApplication
from qoop.submit.application import following_share, spark_session
from qoop.submit.job import SparkFlags
from qoop.submit.kept_catalogue import kept_catalogue
from qoop.submit.registration import ArbiterAccess, Registration
from qoop.tables.folder import FolderCatalogue
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
    # The tables of a folder are in a catalogue in memory, which all sessions share.
    kept: AbstractContextManager[dict[str, str]] = nullcontext({})
    if tables is None:
        kept = kept_catalogue(flags, os.environ, log.warning)
    with kept as properties:
        spark = spark_session(name, flags, registration, properties)
        try:
            if tables is not None:
                show_tables(spark, tables)
            with following_share(spark, profile, access, registration, log.info, log.warning) as shares:
                yield SparkApplication(spark, shares, Options(plan=plan))
        finally:
            with suppress(Py4JError, OSError):  # It has stopped already.
                spark.stop()


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
        path = catalogue.path(name)
        try:
            quoted = name.replace("`", "``")
            spark.catalog.createTable(f"`{quoted}`", f"file://{taken_literally(str(path.absolute()))}", "parquet")
        except (PySparkException, Py4JError) as problem:
            log.warning("--tables %r: %r is left out: %s", str(folder), path.name, describe(problem))
