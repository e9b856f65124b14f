"""The server's application on Spark: one SparkContext, a session of its own for each client, statements with `qoop`."""

import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from qoop.api import Options, execute, fetch
from qoop.engine.connection import without_delay
from qoop.engine.failures import causes_of, java_message
from qoop.engine.fetched import fetch_batches, fetched
from qoop.engine.session import syntax_of
from qoop.errors import QoopError
from qoop.feedback.shares import Part, Shares
from qoop.parsing.render import quoted
from qoop.parsing.statement import ParsedText
from qoop.run.progress import ProgressLines
from qoop.run.query_run import Outcome
from qoop.run.query_status import kept_status
from qoop.server.backend import Answer, Statement, Table, TableColumn
from qoop.server.encoding import schema_of
from qoop.server.errors import GENERAL_ERROR, ServerError, StatementFailedError
from qoop.server.operations import OperationLog
from qoop.server.pools import POOL, STOPPED, Pools
from qoop.server.results import Result, ResultRoom
from qoop.server.types import NO_ROWS, Column, column
from yarn_plugin.errors import describe

log = logging.getLogger("qoop.server")

ONE_COLUMN_SHOW_TABLES = "spark.qoop.server.hiveShowTables"
"""The setting with which SHOW TABLES returns one column, as in Hive: what some clients take for the table's name."""

SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\b", re.IGNORECASE)
STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")

PREFIXES = ("set:hiveconf:", "set:hivevar:", "set:system:", "set:metaconf:", "set:")
"""What clients put before the name of a setting."""


OF_THE_SERVER = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    "spark.job.tags",
    POOL,
)
"""Settings that are not a session's own: Spark would give them to its jobs, which then could not be cancelled, or would
run in the turns of another session."""


class SparkApplication:
    """The server's application.

    Args:
        shares: how much of the cluster it may use, and why.
        options: for statements.
    """

    def __init__(self, spark: SparkSession, shares: Shares, options: Options) -> None:
        self._spark, self._shares, self._options = spark, shares, options
        self.version = spark.version
        self._pools = Pools(spark)

    def open_session(self, user: str, configuration: Mapping[str, str]) -> "ClientSession":
        """Open a session of a user's."""
        session = self._spark.newSession()
        with _failing():
            for name, value in settings(configuration).items():
                session.conf.set(name, value)
            if (database := configuration.get("use:database")) not in (None, "", "default"):
                session.sql(f"USE {quoted(str(database))}")
        return ClientSession(session, user, self._shares, self._options, self._pools)

    def has_stopped(self) -> bool:
        """Whether Spark has stopped, by itself or as the cluster has ended the application."""
        try:
            return bool(self._spark.sparkContext._jsc.sc().isStopped())
        except STOPPED:
            return True


def settings(configuration: Mapping[str, str]) -> dict[str, str]:
    """The settings of Spark in a client's configuration, by their names."""
    chosen = {}
    for name, value in configuration.items():
        if name.startswith(("use:", "set:system:", "set:metaconf:")) or "hive.server2." in name:
            continue
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
        chosen[name.removeprefix(prefix)] = value
    return chosen


class ClientSession:
    """A client's session: its settings, temporary views and functions are its own."""

    def __init__(self, spark: SparkSession, user: str, shares: Shares, options: Options, pools: Pools) -> None:
        self._spark, self._user, self._shares, self._options = spark, user, shares, options
        self._pools, self._pool = pools, pools.session()
        self._set_here: Any = spark._jsparkSession.sessionState().conf().settings().keySet()
        jvm: Any = spark._jvm
        self._of_server = jvm.java.util.HashSet(list(OF_THE_SERVER))

    def run(self, statement: Statement, room: ResultRoom) -> Answer:
        """Run a statement with replanning."""
        with _failing(), self._shares.statement(statement.log.add, session=self) as part, self._jobs_of(statement):
            return self._run(statement, room, part)

    def _run(self, statement: Statement, room: ResultRoom, part: Part) -> Answer:
        lines = ProgressLines(Console(file=_LogFile(statement.log), width=1_000_000, emoji=False, highlight=False))  # type: ignore[arg-type]
        options = replace(self._options, warn=lines.warn, watch=lines.show, slots=part.slots)
        if not self._shares.is_fixed:
            options = replace(options, feed=lambda: part)
        parsed = ParsedText(statement.text, partial(syntax_of, self._spark))
        if parsed.statement is None or parsed.statement.query is None:
            answer, outcome = self._answer(parsed, options, room)
        else:
            with kept_status(statement.text) as status:
                answer, outcome = self._answer(parsed, status.watched(options), room)
                status.done(outcome)
        _tell(lines, statement.log, outcome)
        return answer

    def _answer(self, parsed: ParsedText, options: Options, room: ResultRoom) -> tuple[Answer, Outcome]:
        if parsed.stores_rows:
            return Answer(NO_ROWS, None), execute(self._spark, parsed, options)
        return self._query(parsed, options, room)

    def _query(self, parsed: ParsedText, options: Options, room: ResultRoom) -> tuple[Answer, Outcome]:
        attempts: list[Result] = []
        columns: list[tuple[Column, ...]] = []

        def consume(frame: DataFrame) -> tuple[int, Result | None]:
            frame = self._hive_like(frame, parsed.text)
            columns.append(_columns(frame))
            if not columns[-1]:
                frame.collect()
                return 0, None
            result = Result(room, schema_of(columns[-1]))
            attempts.append(result)
            fetch_batches(fetched(frame), result)
            return result.rows, result

        kept: Result | None = None
        try:
            kept, outcome = fetch(self._spark, parsed, options, consume)
        finally:
            for attempt in attempts:
                if attempt is not kept:
                    attempt.close()
        return Answer(columns[-1] or NO_ROWS, kept), outcome

    def _hive_like(self, frame: DataFrame, text: str) -> DataFrame:
        if not SHOW_TABLES.match(text) or "tableName" not in frame.columns:
            return frame
        if (self._spark.conf.get(ONE_COLUMN_SHOW_TABLES, "false") or "").lower() != "true":
            return frame
        return frame.select(frame["tableName"].alias("tab_name"))

    @contextmanager
    def _jobs_of(self, statement: Statement) -> Iterator[None]:
        """Within this context the jobs of this thread, and of those that it starts, are the statement's."""
        context: Any = self._spark.sparkContext
        without_delay(self._spark)
        self._set_here.removeAll(self._of_server)
        context.setJobGroup(statement.group, " ".join(statement.text[:400].split())[:200], True)
        try:
            with self._pools.statement(self._pool):
                yield
        finally:
            with suppress(*STOPPED):
                context._jsc.clearJobGroup()

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a statement, and those that it has not started yet."""
        try:
            # Not its running jobs alone: it may be between two, or plan its first.
            self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)
        except STOPPED as problem:
            log.warning("%s: could not be cancelled: %s", group, describe(problem))

    def schemas(self) -> Sequence[str]:
        """The names of all schemas."""
        return self._names("SHOW SCHEMAS")

    def functions(self) -> Sequence[str]:
        """The names of all functions."""
        return self._names("SHOW FUNCTIONS")

    def _names(self, text: str) -> Sequence[str]:
        with _failing():
            return [str(row[0]) for row in self._spark.sql(text).collect()]

    def tables(self, schema: str) -> Sequence[Table]:
        """The tables and views of a schema, without temporary views, which are in none."""
        with _failing():
            found = self._spark.catalog.listTables(quoted(schema))
        return [
            Table(table.name, "VIEW" if table.tableType == "VIEW" else "TABLE", table.description)
            for table in found
            if not table.isTemporary
        ]

    def columns(self, schema: str, table: str) -> Sequence[TableColumn]:
        """The columns of a table."""
        try:
            with _failing():
                found = self._spark.catalog.listColumns(f"{quoted(schema)}.{quoted(table)}")
        except StatementFailedError as problem:
            # A view of a table that was dropped, such as anybody may leave, hides no other table's columns.
            log.warning("columns of %s.%s: %s", schema, table, problem)
            return []
        return [TableColumn(one.name, one.dataType, one.description, one.nullable) for one in found]

    def close(self) -> None:
        """Nothing is left to do: the JVM forgets the session with this object."""


def _columns(frame: DataFrame) -> tuple[Column, ...]:
    return tuple(
        column(field.name, field.dataType.simpleString(), (field.metadata or {}).get("comment"))
        for field in frame.schema.fields
    )


def _tell(lines: ProgressLines, to: OperationLog, outcome: Outcome) -> None:
    """Tell how a statement was run."""
    lines.summary(outcome)
    if outcome.one_stage_reason is not None:
        to.add(f"ran in one stage: {outcome.one_stage_reason}")


class _LogFile(io.TextIOBase):
    """A statement's log as a file to print lines in."""

    def __init__(self, to: OperationLog) -> None:
        self._log = to

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._log.add(line)
        return len(text)


MAX_MESSAGE = 20_000
"""Characters of Spark's message that a client gets."""


@contextmanager
def _failing() -> Iterator[None]:
    """Within this context, failures of Spark and of `qoop` are raised as ServerError, with Spark's SQLSTATE."""
    try:
        yield
    except ServerError:
        raise
    except Py4JJavaError as problem:
        states = [cause.sql_state for cause in causes_of(problem) if cause.sql_state]
        raise _failed(java_message(problem), next(iter(states), None)) from problem
    except PySparkException as problem:
        raise _failed(str(problem).partition("\n\nJVM stacktrace:")[0], problem.getSqlState()) from problem
    except (QoopError, Py4JError, OSError) as problem:
        raise _failed(describe(problem) if not isinstance(problem, QoopError) else str(problem), None) from problem


def _failed(message: str, sql_state: str | None) -> StatementFailedError:
    told = STATE.search(message)
    return StatementFailedError(message.strip()[:MAX_MESSAGE], sql_state or (told[1] if told else GENERAL_ERROR))
