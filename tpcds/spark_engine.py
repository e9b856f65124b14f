"""The engines on Spark: plain Spark SQL with adaptive execution, and qoop, which replans, in the same session."""

import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import qoop
from qoop.engine.failures import is_out_of_room
from qoop.engine.garbage import free_room
from qoop.errors import QoopError
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Rules
from tpcds.answers import Answer, PlanCounts
from tpcds.data import DataSet
from tpcds.errors import EngineError
from tpcds.generator import TABLES

# Defaults that `--conf` overrides.
CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
# In local mode the driver executes everything. Spark broadcasts customer_demographics, 10 MB of Parquet but
# 1,920,800 rows, to join it: with less memory that fails now and then.
LOCAL_CONFS = {
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
# Lines that Spark's JVM prints even when it starts successfully.
STARTUP_NOISE = re.compile(r"WARNING:|Using |Setting |To adjust |[\d/]+ [\d:]+ (WARN|INFO) |$")


class SparkEngine:
    """Runs each query as one Spark SQL statement."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, sql: str) -> Answer:
        try:
            return self._answer(sql)
        except (PySparkException, Py4JError) as wrong:
            raise EngineError(f"spark: {_first_line(wrong)}") from wrong

    def _answer(self, sql: str) -> Answer:
        try:
            return self._collected(sql)
        except (PySparkException, Py4JError) as wrong:
            if not is_out_of_room(wrong):
                raise
        # Broadcasts of queries before still fill the driver of this session.
        free_room(self._session)
        return self._collected(sql)

    def _collected(self, sql: str) -> Answer:
        started = time.perf_counter()
        frame = self._session.sql(sql)
        rows = [tuple(row) for row in frame.collect()]
        return Answer(tuple(frame.columns), rows, time.perf_counter() - started)


@contextmanager
def spark_session(data: DataSet, master: str, confs: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with a temporary view for each table of the data set.

    It is stopped at the end, unless this process already had a session, which is then reused.

    Raises:
        EngineError: Spark does not start with this master and these properties.
    """
    is_own = SparkSession.getActiveSession() is None
    with tempfile.TemporaryFile() as log:
        try:
            with _stderr_to(log):
                session = _start(master, CONFS | (LOCAL_CONFS if master.startswith("local") else {}) | dict(confs))
        except (PySparkException, Py4JError, RuntimeError) as wrong:
            cause = _cause(log) or _first_line(wrong)
            raise EngineError(f"--master {master!r}: Spark does not start: {cause}") from wrong
        try:
            _make_views(session, data)
            yield session
        finally:
            if is_own:
                session.stop()


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    # PySpark logs every failed query with its Java stack trace to stderr, besides raising the exception.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("tpcds").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _make_views(session: SparkSession, data: DataSet) -> None:
    try:
        for table in TABLES:
            session.read.parquet(str(data.table(table))).createOrReplaceTempView(table)
    except (PySparkException, Py4JError) as wrong:
        raise EngineError(f"data set {str(data.path)!r}: Spark cannot read it: {_first_line(wrong)}") from wrong


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    # What Spark's JVM prints at startup would clutter a progress bar or a one-line error. The JVM inherits this stderr
    # for its lifetime; this process restores its own.
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _cause(log: IO[bytes]) -> str | None:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    return next((line.split("Exception: ", 1)[-1] for line in lines if not STARTUP_NOISE.match(line)), None)


def _first_line(wrong: BaseException) -> str:
    # Spark wraps exceptions; the innermost one names the value at fault.
    while (cause := getattr(wrong, "_cause", None)) is not None:
        wrong = cause
    java = getattr(wrong, "java_exception", None)
    text = str(java.toString()) if java is not None else str(wrong)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(wrong).__name__)


class QoopEngine:
    """Runs each text with replanning.

    `switch_every_stage`: end a stage at every join, and after each stage switch to another join tree for the rest,
    whatever it costs; tests that no switch changes an answer.
    """

    def __init__(self, session: SparkSession, switch_every_stage: bool = False) -> None:
        self._session = session
        self._options = (
            qoop.Options(rules=Rules(force=True), cut_policy=CutPolicy(everywhere=True))
            if switch_every_stage
            else qoop.Options()
        )

    def run(self, sql: str) -> Answer:
        started = time.perf_counter()
        try:
            answer = qoop.collect(self._session, sql, self._options)
        except (QoopError, PySparkException, Py4JError) as wrong:
            raise EngineError(f"qoop: {str(wrong).splitlines()[0][:300]}") from wrong
        outcome, counts = answer.outcome, answer.outcome.counts
        plan_counts = PlanCounts(
            join_trees=outcome.join_trees,
            stages=counts.stages,
            switches=counts.switches,
            reused=counts.reused,
            cancelled=counts.cancelled,
            unused=counts.unused,
            one_stage_reason=outcome.one_stage_reason,
        )
        columns = tuple(name for name, _ in answer.columns)
        return Answer(columns, [tuple(row) for row in answer.rows], time.perf_counter() - started, plan_counts)
