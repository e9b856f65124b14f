"""One query in a Spark session, from its text to its end: gate, earlier runs, plans, stages, result."""

import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar, get_args

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from qoop.as_written.causes import AsWrittenCause, Construct, NotUnderstood, PlanningFailed, Unsupported
from qoop.as_written.decide import Ask, AsWritten, Fact, Facts, HowToRun, PlanWhen, Reading, facts_with, how_to_run
from qoop.computed_once import computed_once
from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.checkpoints import Checkpoints, ExecutorCheckpoints, FileCheckpoints
from qoop.engine.executors import slots_within
from qoop.engine.failures import java_message, message_of, was_cancelled
from qoop.engine.folders import QueryFolder
from qoop.engine.identity import data_identity, query_identity
from qoop.engine.inputs import read_inputs, tables_named
from qoop.engine.jobs import has_tags, is_idle, only_ctrl_c_interrupts, session_tag
from qoop.engine.pruning import reads_partitions
from qoop.engine.runtime_filters import RuntimeFilters, runtime_filters
from qoop.engine.session import (
    QueryAsWritten,
    broadcast_bytes,
    current_moment,
    in_session_of,
    is_on,
    names_of,
    query_session,
)
from qoop.engine.snapshot import files_read, pin_tables, showing_sources
from qoop.engine.spark_engine import SparkEngine
from qoop.engine.stored_limit import StoredLimit
from qoop.engine.stored_once import StoredOnce
from qoop.engine.table_versions import TableVersions, latest_versions
from qoop.engine.timeout import cancelling_after, stopping_after
from qoop.engine.variables import variables_read
from qoop.engine.verification import Verification
from qoop.errors import QoopError, QueryFailedError, RunsAsWrittenError
from qoop.estimate.cost import CostModel
from qoop.estimate.gate import Gate, Inputs
from qoop.estimate.speed import NOMINAL, TimedRun
from qoop.feedback.followed import following
from qoop.feedback.profile import fixed_share
from qoop.known_plans import KnownPlans
from qoop.options import CHECKPOINT_WANTED, PLAN_WANTED, Options
from qoop.parsing.statement import ParsedText
from qoop.planner import PlannedQuery
from qoop.run.earlier_runs import EarlierRuns, Run
from qoop.run.journal import QueryJournal, check_writable
from qoop.run.machine_speed import add_run, read_speed
from qoop.run.past_runs import PastRuns
from qoop.run.query_run import Outcome, QueryRun
from qoop.run.runs_here import RunsHere
from yarn_plugin.errors import describe

Rated = TypeVar("Rated", Gate, CostModel)

_runs_here = RunsHere()
_ran_here: set[str] = set()
"""The applications in which a query has run: the first is slow, as Spark compiles code and executors start."""

_speed = cache(read_speed)
"""The speed of the machine; the same throughout the process, so that plans that are known stay so."""
_known_plans = KnownPlans()

PLAN_SETTING = "spark.qoop.plan"
"""The Spark property with the default of `Options.plan`."""

CROSS_JOINS = "spark.sql.crossJoin.enabled"
"""Whether Spark runs joins without a condition that are not called CROSS JOIN, as the planner calls them."""


def _never_raising(warn: Callable[[str], None]) -> Callable[[str], None]:
    """A `warn` that suppresses exceptions, so that a failed warning ends neither a query nor one of its threads."""

    def warn_safely(line: str) -> None:
        with suppress(Exception):
            warn(line)

    return warn_safely


class SessionQuery:
    """One query in a session: analysed by Spark as written, planned, run.

    Args:
        query: Spark's parse of the query, where it is a part of another statement.
        use: what becomes of its rows while it runs, as that takes time too; None: they may be computed later.
        keeps_metadata: see `SparkEngine`.
        first: how many of its rows are wanted, if not all are.
        in_copy: nothing is done with its frame that the session must know of, so a copy of it may compute the rows.
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
        in_copy: bool = False,
    ) -> None:
        options = following(options, spark.sparkContext.applicationId)
        self._first, self._in_copy = first, in_copy
        self._options, self._parsed = replace(options, warn=_never_raising(options.warn)), parsed
        self._use, self._keeps_metadata, self._began = use, keeps_metadata, time.monotonic()
        self._planning_s: float | None = None
        self._planning_began: float | None = None
        self._number = f"{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._name = f"qoop-{self._number}"
        self.spark = spark
        # First what the options may be refused for: Spark executes statements as it reads them.
        self._when = _plans_when(spark, self._options)
        self._folder = self._new_folder()
        if options.journal is not None:
            check_writable(options.journal)
        with cancelling_after(options.timeout, spark.sparkContext):
            self.written = QueryAsWritten(spark, parsed.text, query)
            self._versions = TableVersions()
            if query is None and self._when != "never" and not self.written.is_command:
                self._read_at_versions(latest_versions(self.written.analysed, parsed.text))
        self._slots = slots_within(spark.sparkContext, options.slots)
        number = hash((spark.sparkContext.applicationId, parsed.text, use))
        self._is_cold = spark.sparkContext.applicationId not in _ran_here
        self._line = _speed().of(self._is_cold) if options.model == CostModel() else NOMINAL
        self._factor = 1.0
        self._earlier = EarlierRuns(
            options.guard, _runs_here, number, self._slots, is_fixed=options.feed is None, line=self._line
        )
        self._session = spark
        self._checkpoints: Checkpoints | None = None
        self._engine: SparkEngine | None = None
        self._files: list[Any] = []
        self._candidates: PlannedQuery | None = None
        self._pinned: list[tuple[Any, Any]] = []
        self._filters = RuntimeFilters()

    def _read_at_versions(self, versions: TableVersions) -> None:
        """Read those tables as of these versions, if Spark can read each as of one where the query names it."""
        if versions:
            with suppress(PySparkException, Py4JJavaError):
                text = self._parsed.text
                self.written = QueryAsWritten(self.spark, text, at_versions=versions.in_text(text))
                self._versions = versions

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

    @computed_once
    def _planned(self) -> tuple[PlannedQuery | None, AsWrittenCause | None]:
        """The query with its candidate plans, or why it has none."""
        how, candidates = self.how_to_run, self._candidates
        return (None, how.cause) if isinstance(how, AsWritten) else (candidates, None)

    @computed_once
    def how_to_run(self) -> HowToRun:
        """Whether it is planned, and why not; plans it when first asked."""
        how = self._decided(Facts(self._when, self.written.is_command))
        if self._planning_began is not None:
            self._planning_s = time.monotonic() - self._planning_began
        return how

    def how_to_run_at(self, slots: float) -> HowToRun:
        """Whether it would be planned with so many slots, and why not."""
        facts = Facts(self._when, self.written.is_command, self._is_optimised())
        if facts.when == "auto" and not facts.is_command:
            facts = replace(facts, reading=replace(self._reading(), slots=slots))
        return self._decided(facts)

    def _decided(self, facts: Facts) -> HowToRun:
        """The decision, for which facts are looked up that are not known yet."""
        look_up: Mapping[Fact, Callable[[], object]] = {
            "is_optimised": self._is_optimised,
            "reading": self._reading,
            "text": self._text_cause,
            "earlier": self._said_by_earlier_runs,
            "is_deterministic": lambda: self.written.is_deterministic,
            "names": partial(names_of, self.spark),
            "files": self._list_files,
            "plans": self._make_plans,
            "pinned": self._pin,
        }
        while isinstance(how := how_to_run(facts), Ask):
            if how.fact == "is_deterministic":
                self._planning_began = time.monotonic()
            facts = facts_with(facts, how.fact, self._looked_up(look_up[how.fact]))
        return how

    def _looked_up(self, look_up: Callable[[], object]) -> object:
        try:
            return look_up()
        except RunsAsWrittenError as problem:
            return problem.cause
        except QoopError as problem:
            # Spark has accepted the query, so the planner lacks support for it.
            return NotUnderstood(str(problem))
        except Exception as problem:
            if was_cancelled(problem):
                raise QueryFailedError(message_of(problem)) from problem
            return PlanningFailed(describe(problem))

    def run(self, consume: Callable[[DataFrame], tuple[int, Any]], once: StoredOnce | None = None) -> Outcome:
        """Run the query to its end; `consume` is part of the last stage; `once`: takes its place if it stores rows."""
        options = self._options
        planned, cause = self._planned
        rules = replace(
            options.rules, measured=self._earlier.measured, measured_slots=self._slots, stores=once is not None
        )
        # Rows that are stored as written could not be left when the trial takes too long.
        trial = self._earlier.trial if planned is not None and once is None else None
        if trial is not None:
            rules, cause = replace(rules, trial_s=trial.trial_s), trial.cause
        with closing(QueryJournal(options.journal, options.warn)) as journal:
            run = QueryRun(
                self._name,
                self._parsed.text,
                planned,
                cause,
                rules,
                journal,
                options.confirm,
                options.warn,
                options.watch,
                expect=options.expect,
            )
            self._engine = self._new_engine(run, consume, once)
            return self._to_its_end(run, self._engine, trial is not None)

    def _new_engine(
        self, run: QueryRun, consume: Callable[[DataFrame], tuple[int, Any]], once: StoredOnce | None
    ) -> SparkEngine:
        options, (planned, _) = self._options, self._planned
        self._checkpoints = self._new_checkpoints()
        if is_filtered := self._may_be_filtered_as_written():
            self.written.filters = self._filters
        # Only a thread of its own has a tag by which its jobs are the user's session's, though a copy computes them.
        is_simple = planned is None and options.feed is None and options.timeout is None and not is_filtered
        return SparkEngine(
            self._session,
            self._name,
            self.written,
            self._checkpoints,
            consume,
            run.send,
            options.warn,
            Verification(
                self.written.analysed, self._session, planned.moment if planned else None, self._pinned, self._versions
            ),
            once,
            measures_result=options.journal is not None or self._earlier.needs_core_seconds,
            foreground=is_simple and only_ctrl_c_interrupts(),
            tag=session_tag(self.spark),
            keeps_metadata=self._keeps_metadata,
            too_much=StoredLimit(self.spark).excess if planned is not None else lambda stored: None,
            out_of_room=self._filters.drop,
            versions=self._versions,
        )

    def _may_be_filtered_as_written(self) -> bool:
        """Whether the query as written is computed with filters, in a copy of the session.

        Not if the user has tags to interrupt the session's queries by, which a copy does not know.
        """
        return bool(self._filters) and self._in_copy and not has_tags(self.spark)

    def _to_its_end(self, run: QueryRun, engine: SparkEngine, on_trial: bool) -> Outcome:
        """Run the query until it ends or its timeout does, and keep what that tells its next runs."""
        options, (planned, _) = self._options, self._planned
        feed = options.feed() if options.feed else fixed_share(self._slots)
        is_compared = options.guard is not None and self._use is not None
        is_alone = is_compared and is_idle(self.spark.sparkContext)
        # What Spark has executed as it read it is not undone.
        timeout = None if self.written.is_command else options.timeout
        with stopping_after(timeout, self.passed_s, run.send) as is_late:
            try:
                outcome = run.run(engine, feed)
            except QueryFailedError:
                stopped = run.outcome()
                # Not a plan that planning, or another plan, has left little time.
                had_time = stopped.counts.switches == 0 and 2.0 * stopped.seconds >= (timeout or 0.0)
                if is_compared and is_late.is_set() and had_time:
                    self._earlier.add_late(Run(stopped, planned, self._planning_s, on_trial, is_late=True))
                raise
        if is_compared:
            ended = Run(outcome, planned, self._planning_s, on_trial, factor=self._factor)
            is_alone = is_alone and is_idle(self.spark.sparkContext)
            self._earlier.add(ended, is_alone)
            if is_alone and outcome.decisions and not outcome.counts.switches and not outcome.stopped_planning:
                nominal = outcome.decisions[0].expected / self._factor
                add_run(TimedRun(nominal, outcome.seconds, self._is_cold))
        _ran_here.add(self.spark.sparkContext.applicationId)
        return outcome

    def wanted(self, frame: DataFrame) -> DataFrame:
        """The rows of the result that are wanted; of the query as written, as the gate has had Spark optimise it."""
        return self._wanted_as_written if frame is self.written.analysed else self._first_of(frame)

    @computed_once
    def _wanted_as_written(self) -> DataFrame:
        return self._first_of(self.written.analysed)

    def _first_of(self, frame: DataFrame) -> DataFrame:
        return frame if self._first is None else frame.limit(self._first)

    def users(self, frame: DataFrame) -> DataFrame:
        """The frame of the result as one of the user's session."""
        if frame is self.written.filtered:
            # In a copy of the session: nothing is done with it that the session must know of.
            return frame
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

    def _is_optimised(self) -> bool:
        """Whether Spark can optimise the query; True if it would run all parts of it anyway, and is not asked."""
        if self._when == "always" and is_on(self.spark, CROSS_JOINS, "true"):
            return True
        try:
            if self._when == "always":
                self.written.analysed._jdf.queryExecution().optimizedPlan()
            else:
                self._inputs  # noqa: B018 - reads them off the optimised plan
        except (PySparkException, Py4JJavaError):
            return False
        return True

    def _reading(self) -> Reading:
        if (inputs := self._inputs) is not None:
            self._earlier.reads(inputs.sizes)
        return Reading(inputs, self._gate, self._slots, self._earlier.seconds, len(self._parsed.text))

    def _text_cause(self) -> AsWrittenCause | None:
        # Now it is no short query.
        self._filters = self._runtime_filters()
        if self._parsed.statement is None:
            return self._parsed.cause
        return Unsupported(Construct.NOT_SELECT) if self._parsed.statement.writes else None

    def _runtime_filters(self) -> RuntimeFilters:
        """The runtime filters of the query, which is not a short one."""
        with suppress(PySparkException, Py4JJavaError):
            if (inputs := self._inputs) is not None:
                return runtime_filters(self.spark, inputs.sizes, self._broadcast_bytes)
        return RuntimeFilters()

    @computed_once
    def _gate(self) -> Gate:
        return self._broadcasting(self._options.gate, Gate())

    @computed_once
    def _inputs(self) -> Inputs | None:
        """What the query reads; None if that cannot be read off its plan.

        Raises:
            PySparkException, Py4JJavaError: Spark fails to optimise the query.
        """
        try:
            named, length = tables_named(self.written.analysed), len(self._parsed.text)
            return read_inputs(self._wanted_as_written, self._gate.bytes_to_know(self._slots, named, length), named)
        except (PySparkException, Py4JJavaError):
            raise
        except Exception:  # noqa: BLE001 - what cannot be read of a plan keeps no query from being planned
            return None

    def _broadcasting(self, given: Rated, usual: Rated) -> Rated:
        """What is given, with the size up to which the session broadcasts tables, unless it has one of its own."""
        if given.broadcast_bytes != usual.broadcast_bytes:
            return given
        return replace(given, broadcast_bytes=self._broadcast_bytes)

    @computed_once
    def _broadcast_bytes(self) -> float:
        return broadcast_bytes(self.spark)

    def _said_by_earlier_runs(self) -> AsWrittenCause | None:
        """Why the query runs as written because of its earlier runs."""
        frame, options = self.written.analysed, self._options
        if options.guard is None or self._use is None:
            return None
        chosen = (options.rules, options.cut_policy, options.model, options.gate, options.checkpoint is None)
        filtered = ("filtered",) if self._filters else ()
        try:
            query = query_identity(frame, self._parsed.text, self._use, repr(chosen), *filtered)
            data = data_identity(frame)
        except Exception:  # noqa: BLE001 - a query that cannot be recognised has no earlier runs
            return None
        return self._earlier.consult(PastRuns(query, data.digest, options.warn), data.is_complete)

    def _list_files(self) -> None:
        self._session = self._filters.set_in(query_session(self.spark))
        self._files = files_read(self.written.analysed)

    def _make_plans(self) -> None:
        statement = self._parsed.statement
        assert statement is not None
        options = self._options
        planned = _known_plans.plan(
            statement.with_values(variables_read(self.written.analysed)),
            self._catalogue,
            self._catalogue.statistics,
            options.cut_policy,
            self._broadcasting(options.model, CostModel()),
            partial(current_moment, self.spark),
            fewer_stages=self._when == "auto",
            findings=self._earlier.findings,
        )
        self._candidates, self._factor = planned.at_speed(self._line, self._slots)

    def _pin(self) -> None:
        self._pinned = pin_tables(self._files, self._session, self._catalogue.frames())

    @computed_once
    def _catalogue(self) -> SparkCatalogue:
        return SparkCatalogue(self.spark)


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
