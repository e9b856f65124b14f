"""Run queries in a Spark session: the library call `qoop.sql`, and the functions that the driver and `tpcds` use."""

import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.checkpoints import Checkpoints, ExecutorCheckpoints, FileCheckpoints, counting
from qoop.engine.executors import usual_slots
from qoop.engine.failures import java_message, message_of, was_cancelled
from qoop.engine.folders import QueryFolder
from qoop.engine.identity import data_identity, query_identity
from qoop.engine.inputs import read_inputs, tables_named
from qoop.engine.jobs import is_idle, only_ctrl_c_interrupts, session_tag, settings_of, tagged_beside
from qoop.engine.persisted import PersistedRows, remove_all
from qoop.engine.pruning import reads_partitions
from qoop.engine.session import (
    QueryAsWritten,
    broadcast_bytes,
    current_moment,
    in_session_of,
    is_on,
    query_session,
    require_classic_session,
    syntax_of,
    why_names_differ,
)
from qoop.engine.snapshot import NoSnapshotError, files_read, pin_tables, showing_sources
from qoop.engine.spark_engine import SparkEngine
from qoop.engine.statement import StatementAsWritten
from qoop.engine.stored_limit import StoredLimit
from qoop.engine.stored_once import StoredOnce
from qoop.engine.verification import Verification
from qoop.errors import CannotSplitError, QoopError
from qoop.estimate.cost import CostModel
from qoop.estimate.gate import Gate
from qoop.estimate.guard import Guard
from qoop.feedback.profile import fixed_share
from qoop.known_plans import KnownPlans
from qoop.parsing.statement import ParsedText, Statement
from qoop.planner import PlannedQuery
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import Command
from qoop.replan.completion import Completion
from qoop.replan.decision import Rules
from qoop.replan.events import Event, QueryCancelled
from qoop.replan.state import QueryCounts
from qoop.run.earlier_runs import EarlierRuns, Run
from qoop.run.journal import QueryJournal, check_writable
from qoop.run.past_runs import PastRuns
from qoop.run.query_run import Feed, Outcome, QueryFailedError, QueryRun
from qoop.run.runs_here import RunsHere
from yarn_plugin.errors import describe

PlanWhen = Literal["always", "auto", "never"]

Place = TypeVar("Place")
Rated = TypeVar("Rated", Gate, CostModel)

_runs_here = RunsHere()
_known_plans = KnownPlans()

PLAN_SETTING = "spark.qoop.plan"
"""The Spark property with the default of `Options.plan`."""


PLAN_WANTED = "must be auto, always or never"

MAX_TIMEOUT_S = 1e9
"""The longest timeout in seconds, as timers take no longer ones."""

CROSS_JOINS = "spark.sql.crossJoin.enabled"
"""Whether Spark runs joins without a condition that are not called CROSS JOIN, as the planner calls them."""

NOT_OPTIMISED = "Spark fails to optimise the query as written"

CHECKPOINT_WANTED = "must be a URL that all nodes reach, such as hdfs:///user/ME/qoop"

CANCEL_INTERVAL_S = 0.3
"""Seconds between attempts to stop a statement: it may be between two jobs."""


@dataclass(frozen=True)
class Options:
    """How a query is run.

    Args:
        feed: makes the source of a share that may change; by default it does not.
        slots: the share in slots when the query begins; by default the session's default parallelism, or with dynamic
            allocation the slots of the most executors that it may have, if they are limited.
        confirm: tells the arbiter that the query holds no more than a share, by its number.
        expect: tells the arbiter when the query is expected to finish.
        rules: when to switch plans.
        cut_policy: where plans are cut into stages.
        model: the cost of a stage. Here and in `gate` what is broadcast is what the session would broadcast
            (`spark.sql.autoBroadcastJoinThreshold`), unless they have another size.
        checkpoint: a URL that all nodes reach, to store stage outputs as files; by default they are on the executors.
        journal: a file to record events and decisions in.
        warn: takes a warning, one line; called from several threads.
        watch: called with every command of the planner.
        plan: "always": plan every query, and cut it into stages wherever large inputs meet. "auto": run it as written
            if Spark is expected to end it before planning could pay off (`gate`), or if no plan is expected to win; cut
            it only where that costs little. "never": run it as written, in one stage. By default the session's
            `spark.qoop.plan`, or "auto". With `rules.force` or `cut_policy.everywhere`, "auto" is "always".
        gate: when a query is worth planning.
        guard: when a query runs as written because its earlier planned runs were slower; None: no runs are recorded.
        replanning: False: as `plan="never"`.
        timeout: seconds after which the query, with its planning, is stopped and fails; by default it may run for ever.

    Raises:
        QoopError: `slots`, `plan` or the timeout is not one of the values above, or the checkpoint is no text or empty.
    """

    feed: Callable[[], Feed] | None = None
    slots: float | None = None
    confirm: Callable[[int], None] = lambda seq: None
    expect: Callable[[Completion], None] = lambda completion: None
    rules: Rules = field(default_factory=Rules)
    cut_policy: CutPolicy = field(default_factory=CutPolicy)
    model: CostModel = field(default_factory=CostModel)
    checkpoint: str | None = None
    journal: str | Path | None = None
    warn: Callable[[str], None] = lambda line: None
    watch: Callable[[Command], None] = lambda command: None
    plan: PlanWhen | None = None
    gate: Gate = field(default_factory=Gate)
    guard: Guard | None = field(default_factory=Guard)
    replanning: bool = True
    timeout: float | None = None

    def __post_init__(self) -> None:
        seconds, url, slots = self.timeout, self.checkpoint, self.slots
        if slots is not None and not (isinstance(slots, int | float) and 0.0 < slots < math.inf):
            raise QoopError(f"slots {slots!r}: must be a number above 0")
        if self.plan is not None and self.plan not in get_args(PlanWhen):
            raise QoopError(f"plan {self.plan!r}: {PLAN_WANTED}")
        if seconds is not None and not (isinstance(seconds, int | float) and 0.0 < seconds <= MAX_TIMEOUT_S):
            raise QoopError(f"timeout {seconds!r}: must be seconds, more than 0 and at most {MAX_TIMEOUT_S:g}")
        if url is not None and not (isinstance(url, str) and url.strip()):
            raise QoopError(f"checkpoint {self.checkpoint!r}: {CHECKPOINT_WANTED}")


@dataclass(frozen=True)
class Answer:
    """The rows of a query, its columns (name, type), and how it was run."""

    columns: list[tuple[str, str]]
    rows: list[Row]
    outcome: Outcome


def sql(spark: SparkSession, text: str, options: Options | None = None) -> DataFrame:
    """Run a query with replanning and return its result, like `spark.sql`.

    All stages but the last run now; the last one runs when the frame is used. Stage outputs that it reads are released
    when the frame, and all frames made by its own methods, have been garbage-collected; those in files when the
    application ends. So keep it in a variable while others read it: frames that it was joined to, its RDD, an iterator.
    A statement that stores rows is executed, and the frame is empty.

    Raises:
        QoopError: the query cannot be run.
        pyspark.errors.PySparkException: Spark rejects the query.
    """
    parsed = _parsed(spark, text)
    if parsed.stores_rows:
        execute(spark, parsed, options)
        return spark.range(0).select()
    query = _Query(spark, parsed, _checked(options))

    def consume(frame: DataFrame) -> tuple[int, DataFrame]:
        return 0, query.users(frame)

    try:
        query.run(consume)
        result: DataFrame = query.result
        query.hand_over(result)
    except BaseException:
        query.close()
        raise
    return result


def collect(
    spark: SparkSession,
    text: str | ParsedText,
    options: Options | None = None,
    max_rows: int | None = None,
    shown: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> Answer:
    """Run a query and fetch its rows, or the first `max_rows`; a statement that stores rows returns none.

    `shown`: what is fetched of them, made from the frame of the result.
    """
    parsed = _parsed(spark, text)
    if parsed.stores_rows:
        return Answer([], [], execute(spark, parsed, options))
    use = f"the first {max_rows} rows"
    query = _Query(spark, parsed, _checked(options), use=use, keeps_metadata=False, first=max_rows)

    def consume(frame: DataFrame) -> tuple[int, list[Row]]:
        rows = shown(query.wanted(frame)).collect()
        return len(rows), rows

    try:
        outcome = query.run(consume)
    finally:
        query.close()
    return Answer(query.written.columns, query.result, outcome)


def write(
    spark: SparkSession,
    text: str | ParsedText,
    options: Options | None,
    store: Callable[[DataFrame], Place],
    publish: Callable[[Place], None] | None = None,
) -> Outcome:
    """Run a query and write its rows.

    Args:
        store: without `publish`, called once, with the complete result, which is persisted before: no switch can
            interrupt it. With `publish`, writes rows to a place where nobody reads them yet, and returns the place;
            called for each attempt at the last stage, which a switch may cancel.
        publish: takes the place of the complete result.
    """
    query = _Query(spark, _parsed(spark, text), _checked(options), use="all rows, written")
    if publish is None:
        return _keep_and_store(query, store)
    try:
        outcome = query.run(_counting_rows(query, store))
        publish(query.result)
    finally:
        query.close()
    return outcome


def _store(query: "_Query", statement: StatementAsWritten) -> Outcome:
    """Run a query and store its rows: directly, unless another plan might then be needed after some were stored."""
    atomic = query.is_planned and statement.is_atomic
    if query.is_planned and not atomic:
        return _keep_and_store(query, statement.execute)
    consume = _counting_rows(query, statement.execute)
    try:
        return query.run(consume, StoredOnce(consume, atomic))
    finally:
        query.close()


def _counting_rows(query: "_Query", store: Callable[[DataFrame], Place]) -> Callable[[DataFrame], tuple[int, Place]]:
    """A consumer of the last stage that stores its rows, and counts them meanwhile."""

    def consume(frame: DataFrame) -> tuple[int, Place]:
        counted, rows = counting(query.users(frame))
        place = store(counted)
        return int(rows() or 0), place

    return consume


def _keep_and_store(query: "_Query", store: Callable[[DataFrame], object]) -> Outcome:
    persisted: list[PersistedRows] = []

    def consume(frame: DataFrame) -> tuple[int, DataFrame]:
        kept = PersistedRows(in_session_of(query.spark, frame), "result")
        try:
            with settings_of(query.spark):
                kept.partitions()
            rows = int(kept.frame.count())
        except BaseException:
            # The next attempt has rows of its own.
            kept.remove()
            raise
        persisted.append(kept)
        return rows, query.users(kept.frame)

    try:
        outcome = query.run(consume)
        with _cancelling_after(query.timeout, query.spark.sparkContext, query.passed_s):
            store(query.result)
    finally:
        query.close()
        remove_all(persisted)
    return outcome


def execute(spark: SparkSession, text: str | ParsedText, options: Options | None = None) -> Outcome:
    """Run a statement that stores rows (CREATE TABLE AS, INSERT): its query with replanning, then the statement.

    A statement without a query that can be planned is executed by Spark alone.
    """
    parsed = _parsed(spark, text)
    statement = parsed.statement
    options = _checked(options)
    if statement is None or not statement.stores_rows or _target_exists(spark, statement):
        return _execute_as_written(spark, parsed.text, options)
    written = StatementAsWritten(spark, parsed.text)
    if written.query is None:
        return _execute_as_written(spark, parsed.text, options)
    written.check()
    source = statement.source_query()
    try:
        planned = ParsedText(source.text, statement=source)
        query = _Query(spark, planned, options, written.query, use="all rows, stored")
    except AnalysisException:
        # Its query means something only as part of the statement, such as DEFAULT.
        return _execute_as_written(spark, parsed.text, options)
    return _store(query, written)


def _parsed(spark: SparkSession, text: str | ParsedText) -> ParsedText:
    """The text as the session reads it."""
    require_classic_session(spark)
    return ParsedText(text, partial(syntax_of, spark)) if isinstance(text, str) else text


def _checked(options: Options | None) -> Options:
    """The options, or the usual ones.

    Raises:
        QoopError: they are something else, such as the parameters of a text.
    """
    if options is not None and not isinstance(options, Options):
        raise QoopError(
            f"options {options!r:.100}: must be qoop.Options; a text has no parameters, but may read session variables"
        )
    return options or Options()


def _target_exists(spark: SparkSession, statement: Statement) -> bool:
    """Whether the table to create exists already: Spark then refuses or does nothing, and needs no rows."""
    return statement.creates is not None and spark.catalog.tableExists(statement.creates)


def _execute_as_written(spark: SparkSession, text: str, options: Options) -> Outcome:
    started = time.monotonic()
    with _cancelling_after(options.timeout, spark.sparkContext):
        spark.sql(text).collect()
    reason = "the statement has no query that can be planned"
    return Outcome(QueryCounts(stages=1), 1, time.monotonic() - started, reason, ())


def _plans_when(spark: SparkSession, options: Options) -> PlanWhen:
    """Which queries are planned.

    Raises:
        QoopError: the session's setting is not one of the values.
    """
    chosen = options.plan or spark.conf.get(PLAN_SETTING, "auto")
    if chosen not in get_args(PlanWhen):
        raise QoopError(f"{PLAN_SETTING} {chosen!r}: {PLAN_WANTED}")
    if chosen == "never" or not options.replanning:
        return "never"
    return "always" if chosen == "always" or options.rules.force or options.cut_policy.everywhere else "auto"


def _too_late(seconds: float) -> str:
    return f"it ran for longer than its timeout of {seconds:g} s"


@contextmanager
def _cancelling_after(timeout: float | None, context: SparkContext, passed_s: float = 0.0) -> Iterator[None]:
    """Cancel the jobs of this thread after a timeout, of which some seconds have passed.

    That is for statements that Spark executes as it reads them, and for rows that are stored after the query has run.

    Raises:
        QueryFailedError: they were cancelled. A statement that had no more jobs to run ends as usual.
    """
    if timeout is None:
        yield
        return
    tag, is_late, ended = f"qoop-timeout-{uuid.uuid4().hex[:6]}", threading.Event(), threading.Event()

    def cancel() -> None:
        wait = timeout - passed_s
        while not ended.wait(wait):
            is_late.set()
            wait = CANCEL_INTERVAL_S
            with suppress(Exception):  # Spark has stopped.
                context.cancelJobsWithTag(tag)

    threading.Thread(target=cancel, name=tag, daemon=True).start()
    try:
        with tagged_beside(context, tag):
            yield
    except (PySparkException, Py4JError) as problem:
        if not is_late.is_set():
            raise
        raise QueryFailedError(_too_late(timeout)) from problem
    finally:
        ended.set()


@contextmanager
def _stopping_after(timeout: float | None, passed_s: float, send: Callable[[Event], None]) -> Iterator[threading.Event]:
    """Stop the query after its timeout, of which some seconds have passed; yields what is set then."""
    is_late = threading.Event()
    if timeout is None:
        yield is_late
        return
    stopped = QueryCancelled(_too_late(timeout))

    def stop() -> None:
        is_late.set()
        send(stopped)

    timer = threading.Timer(timeout - passed_s, stop)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()


def _never_raising(warn: Callable[[str], None]) -> Callable[[str], None]:
    """A `warn` that suppresses exceptions, so that a failed warning ends neither a query nor one of its threads."""

    def warn_safely(line: str) -> None:
        with suppress(Exception):
            warn(line)

    return warn_safely


class _Query:
    """One query in a session: analysed by Spark as written, planned, run.

    Args:
        query: Spark's parse of the query, where it is a part of another statement.
        use: what becomes of its rows while it runs, as that takes time too; None: they may be computed later.
        keeps_metadata: see `SparkEngine`.
        first: how many of its rows are wanted, if not all are.
    """

    def __init__(
        self,
        spark: SparkSession,
        parsed: ParsedText,
        options: Options,
        query: Any = None,
        use: str | None = None,
        keeps_metadata: bool = True,
        first: int | None = None,
    ) -> None:
        self._first = first
        self._options, self._parsed = replace(options, warn=_never_raising(options.warn)), parsed
        self._use, self._keeps_metadata, self._began = use, keeps_metadata, time.monotonic()
        self._planning_s: float | None = None
        self._number = f"{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._name = f"qoop-{self._number}"
        self.spark = spark
        # First what the options may be refused for: Spark executes statements as it reads them.
        self._when = _plans_when(spark, self._options)
        self._folder = self._new_folder()
        if options.journal is not None:
            check_writable(options.journal)
        with _cancelling_after(options.timeout, spark.sparkContext):
            self.written = QueryAsWritten(spark, parsed.text, query)
        self._slots = options.slots or usual_slots(spark.sparkContext)
        number = hash((spark.sparkContext.applicationId, parsed.text, use))
        self._earlier = EarlierRuns(options.guard, _runs_here, number, self._slots, is_fixed=options.feed is None)
        self._session = spark
        self._checkpoints: Checkpoints | None = None
        self._engine: SparkEngine | None = None
        self._pinned: list[tuple[Any, Any]] = []

    @property
    def result(self) -> Any:
        """What `consume` made of the result."""
        return self._engine.result if self._engine is not None else None

    @property
    def timeout(self) -> float | None:
        """After how many seconds the query is stopped."""
        return self._options.timeout

    @property
    def passed_s(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._began

    @property
    def is_planned(self) -> bool:
        """Whether it has candidate plans; plans it when first asked."""
        return self._planned[0] is not None

    @cached_property
    def _planned(self) -> tuple[PlannedQuery | None, str | None]:
        """The query with its candidate plans, or why it has none."""
        reason = self._reason_not_to_plan()
        if reason is not None:
            return None, reason
        started = time.monotonic()
        self._session = query_session(self.spark)
        try:
            return self._plan()
        finally:
            self._planning_s = time.monotonic() - started

    def run(self, consume: Callable[[DataFrame], tuple[int, Any]], once: StoredOnce | None = None) -> Outcome:
        """Run the query to its end; `consume` is part of the last stage; `once`: takes its place if it stores rows."""
        options = self._options
        planned, reason = self._planned
        rules = replace(
            options.rules, measured=self._earlier.measured, measured_slots=self._slots, stores=once is not None
        )
        # Rows that are stored as written could not be left when the trial takes too long.
        trial = self._earlier.trial if planned is not None and once is None else None
        if trial is not None:
            rules, reason = replace(rules, trial_s=trial.trial_s), trial.reason
        self._checkpoints = self._new_checkpoints()
        with closing(QueryJournal(options.journal, options.warn)) as journal:
            run = QueryRun(
                self._name,
                self._parsed.text,
                planned,
                reason,
                rules,
                journal,
                options.confirm,
                options.warn,
                options.watch,
                expect=options.expect,
            )
            feed = options.feed() if options.feed else fixed_share(self._slots)
            self._engine = SparkEngine(
                self._session,
                self._name,
                self.written,
                self._checkpoints,
                consume,
                run.send,
                options.warn,
                Verification(self.written.analysed, self._session, planned.moment if planned else None, self._pinned),
                once,
                measures_result=options.journal is not None or self._earlier.needs_core_seconds,
                foreground=planned is None
                and options.feed is None
                and options.timeout is None
                and only_ctrl_c_interrupts(),
                tag=session_tag(self.spark),
                keeps_metadata=self._keeps_metadata,
                too_much=StoredLimit(self.spark).reason if planned is not None else lambda stored: None,
            )
            is_compared = self._options.guard is not None and self._use is not None
            is_alone = is_compared and is_idle(self.spark.sparkContext)
            # What Spark has executed as it read it is not undone.
            timeout = None if self.written.is_command else options.timeout
            with _stopping_after(timeout, self.passed_s, run.send) as is_late:
                try:
                    outcome = run.run(self._engine, feed)
                except QueryFailedError:
                    stopped = run.outcome()
                    # Not a plan that planning, or another plan, has left little time.
                    had_time = stopped.counts.switches == 0 and 2.0 * stopped.seconds >= (timeout or 0.0)
                    if is_compared and is_late.is_set() and had_time:
                        self._earlier.add_late(Run(stopped, planned, self._planning_s, trial is not None, is_late=True))
                    raise
            if is_compared:
                ended = Run(outcome, planned, self._planning_s, on_trial=trial is not None)
                self._earlier.add(ended, is_alone and is_idle(self.spark.sparkContext))
            return outcome

    def wanted(self, frame: DataFrame) -> DataFrame:
        """The rows of the result that are wanted; of the query as written, as the gate has had Spark optimise it."""
        return self._wanted_as_written if frame is self.written.analysed else self._first_of(frame)

    @cached_property
    def _wanted_as_written(self) -> DataFrame:
        return self._first_of(self.written.analysed)

    def _first_of(self, frame: DataFrame) -> DataFrame:
        return frame if self._first is None else frame.limit(self._first)

    def users(self, frame: DataFrame) -> DataFrame:
        """The frame of the result as one of the user's session."""
        if not self.is_planned and self._use is not None:
            # Spark may have optimised it already. A frame that is used later may find other rows in Spark's cache then.
            return frame
        frame = in_session_of(self.spark, frame)
        return showing_sources(frame, self.written.analysed) if self.is_planned else frame

    def hand_over(self, result: DataFrame) -> None:
        """Release stage outputs when nothing reads them: at once, or with the last frame derived from the result."""
        if self._engine is None or self._engine.result_is_as_written:
            self.close()
            return
        self._stop()
        if self._checkpoints is not None:
            self._checkpoints.release_with(result.sparkSession)

    def close(self) -> None:
        """Cancel running stages and release stage outputs."""
        try:
            self._stop()
        finally:
            # Also when a second Ctrl-C ends the waiting for stages: what they still store is deleted then.
            self._release()

    def _release(self) -> None:
        try:
            if self._checkpoints is not None:
                self._checkpoints.release()
        except (Py4JError, AttributeError, OSError) as problem:
            # Spark has stopped, or its storage cannot be reached: the answer is still right.
            self._options.warn(f"stage outputs could not be deleted: {describe(problem)}")

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _new_folder(self) -> QueryFolder | None:
        url = self._options.checkpoint
        if url is None:
            return None
        try:
            return QueryFolder(self.spark, f"{url.rstrip('/')}/qoop-", self._number, self._options.warn)
        except Py4JJavaError as problem:
            raise QoopError(f"checkpoint {url!r}: {java_message(problem)}; {CHECKPOINT_WANTED}") from None

    def _new_checkpoints(self) -> Checkpoints:
        in_plan = self.is_planned and reads_partitions(self.written.analysed)
        if self._folder is not None:
            return FileCheckpoints(self._session, self._folder, in_plan)
        return ExecutorCheckpoints(self._session, self._options.warn, in_plan)

    def _reason_not_to_plan(self) -> str | None:
        """Why the query is not planned, as far as that is known without planning it."""
        if self.written.is_command:
            return "the statement is not a SELECT"
        if self._when == "never":
            return "replanning is off"
        if (reason := self._refused() if self._when == "always" else self._gated()) is not None:
            return reason
        if self._parsed.statement is None:
            return self._parsed.reason
        if self._parsed.statement.writes:
            return "the statement is not a SELECT"
        return None if self._when == "always" else self._said_by_earlier_runs()

    def _refused(self) -> str | None:
        """Why Spark would refuse the query as written, and not the parts of it that are planned."""
        if is_on(self.spark, CROSS_JOINS, "true"):
            return None
        try:
            self.written.analysed._jdf.queryExecution().optimizedPlan()
        except (PySparkException, Py4JJavaError):
            return NOT_OPTIMISED
        return None

    def _gated(self) -> str | None:
        """Why planning the query could not pay off."""
        gate, slots = self._broadcasting(self._options.gate, Gate()), self._slots
        try:
            named, length = tables_named(self.written.analysed), len(self._parsed.text)
            inputs = read_inputs(self._wanted_as_written, gate.bytes_to_know(slots, named, length), named)
        except (PySparkException, Py4JJavaError):
            return NOT_OPTIMISED
        except Py4JError:
            return None
        self._earlier.reads(inputs.sizes)
        return gate.reason(inputs, slots, self._earlier.seconds, length)

    def _broadcasting(self, given: Rated, usual: Rated) -> Rated:
        """What is given, with the size up to which the session broadcasts tables, unless it has one of its own."""
        if given.broadcast_bytes != usual.broadcast_bytes:
            return given
        return replace(given, broadcast_bytes=self._broadcast_bytes)

    @cached_property
    def _broadcast_bytes(self) -> float:
        return broadcast_bytes(self.spark)

    def _said_by_earlier_runs(self) -> str | None:
        """Why the query runs as written because of its earlier runs."""
        frame, options = self.written.analysed, self._options
        if options.guard is None or self._use is None:
            return None
        chosen = (options.rules, options.cut_policy, options.model, options.gate, options.checkpoint is None)
        try:
            query = query_identity(frame, self._parsed.text, self._use, repr(chosen))
            data = data_identity(frame)
        except (PySparkException, Py4JError):
            return None
        return self._earlier.consult(PastRuns(query, data.digest, options.warn), data.is_complete)

    def _plan(self) -> tuple[PlannedQuery | None, str | None]:
        statement = self._parsed.statement
        assert statement is not None
        if not self.written.is_deterministic:
            return None, "the query has an expression that is not deterministic"
        if (differs := why_names_differ(self.spark)) is not None:
            return None, differs
        try:
            read = files_read(self.written.analysed)
            catalogue = SparkCatalogue(self.spark)
            options, now = self._options, partial(current_moment, self.spark)
            planned = _known_plans.plan(
                statement,
                catalogue,
                catalogue.statistics,
                options.cut_policy,
                self._broadcasting(options.model, CostModel()),
                now,
                fewer_stages=self._when == "auto",
                counted=self._earlier.counted,
                tried=self._earlier.tried,
                given_up=self._earlier.given_up,
            )
            self._pinned = pin_tables(read, self._session, catalogue.frames())
        except (CannotSplitError, NoSnapshotError) as reason:
            return None, str(reason)
        except QoopError as reason:
            # Spark has accepted the query, so the planner lacks support for it.
            return None, f"the planner does not support the query: {reason}"
        except Exception as problem:
            if was_cancelled(problem):
                raise QueryFailedError(message_of(problem)) from problem
            return None, f"the planner failed: {describe(problem)}"
        return planned, None


__all__ = ["Answer", "Options", "collect", "execute", "sql", "write"]
