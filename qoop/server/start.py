"""Spark in the server's own process, within its share."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qoop.as_written.decide import PlanWhen
from qoop.engine.executors import usual_slots
from qoop.engine.folder_tables import source_of
from qoop.errors import QoopError
from qoop.feedback.shares import Shares
from qoop.options import Options
from qoop.parsing.render import quoted
from qoop.replan.events import Event, ShareChanged
from qoop.server.spark import SparkApplication
from qoop.submit.application import following_share, spark_session
from qoop.submit.job import SparkFlags
from qoop.submit.kept_catalogue import kept_catalogue
from qoop.submit.registration import ArbiterAccess, Registration
from qoop.tables.folder import FolderCatalogue
from qoop.tables.text_files import options_of
from yarn_plugin.api.environment import TOKEN_VARIABLE
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
    # Any client may read the JVM's environment: SELECT '${env:NAME}'.
    os.environ.pop(TOKEN_VARIABLE, None)
    # The tables of a folder are in a catalogue in memory, which all sessions share.
    kept: AbstractContextManager[dict[str, str]] = nullcontext({})
    if tables is None:
        kept = kept_catalogue(flags, os.environ, log.warning)
    with kept as properties:
        spark = spark_session(name, flags, registration, properties)
        try:
            if tables is not None:
                show_tables(spark, tables)
            with (
                following_share(spark, profile, access, registration, log.info, log.warning) as told,
                _shares(spark, told) as shares,
            ):
                yield SparkApplication(spark, shares, Options(plan=plan))
        finally:
            with suppress(Py4JError, OSError):  # It has stopped already.
                spark.stop()


@contextmanager
def _shares(spark: SparkSession, told: Shares | None) -> Iterator[Shares]:
    """What statements divide: the share that is told, or all slots of the application."""
    if told is not None:
        yield told
        return
    shares = Shares(_AllSlots(usual_slots(spark.sparkContext)), None, is_fixed=True)
    shares.start()
    try:
        yield shares
    finally:
        shares.close()


class _AllSlots:
    """A share that never changes."""

    def __init__(self, slots: float) -> None:
        self._slots = slots

    def start(self, emit: Callable[[Event], None]) -> None:
        emit(ShareChanged(self._slots, None, "all that this application has", time.time()))

    def close(self) -> None:
        """Nothing goes on."""


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
