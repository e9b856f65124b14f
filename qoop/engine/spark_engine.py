"""Runs the planner's commands on Spark and reports their outcomes as events."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from qoop.as_written.causes import AsWrittenCause, PlanningFailed
from qoop.engine.checkpoints import Checkpoints
from qoop.engine.executors import Executors, ExecutorTarget
from qoop.engine.failures import (
    CANCELLED,
    LOST_PART,
    StoppedError,
    causes_of,
    is_out_of_room,
    is_transient,
    message_of,
)
from qoop.engine.garbage import GARBAGE, free_room
from qoop.engine.jobs import TaskTime, core_seconds, tagged, tagged_beside, task_time
from qoop.engine.one_by_one import OneByOne
from qoop.engine.prepared import PreparedQueries
from qoop.engine.session import QueryAsWritten, columns_of, with_columns_like
from qoop.engine.snapshot import NoSnapshotError, refuse_cached_files
from qoop.engine.stored_once import StoredOnce
from qoop.engine.table_versions import TableVersions
from qoop.engine.task_samples import TaskSamples, running_tasks
from qoop.engine.verification import DifferentPlanError, Verification
from qoop.errors import QoopError
from qoop.parsing.render import composed, views_read
from qoop.plans.plan import StageId
from qoop.replan.events import (
    CannotPlan,
    CheckpointLost,
    Event,
    ExecutorsChanged,
    QueryCancelled,
    StageCancelled,
    StageFailed,
    StageFinished,
    StageGrew,
    TasksRan,
)
from yarn_plugin.errors import describe

CHECK_PAUSES = 10.0
"""How many times as long as a check of outputs the pause after it is: it asks for all that executors store."""

WATCH_INTERVAL_S = 0.3
"""Seconds between checks of executors, stored outputs, and cancelled stages."""

MAX_PAUSE_S = 10.0
"""Upper limit in seconds between checks that fail, or that take long."""

STOP_TIMEOUT_S = 20.0
"""Seconds to wait for cancelled stages when the query is over."""

LIMIT_CHECK_S = 2.0
"""Seconds between checks of how much is stored."""

MIN_GROWTH_ROWS = 1e6
"""How many rows a running stage must have stored for that to be reported, and again as there are a quarter more."""

INTERRUPTED_CANCELS = 10
"""How often the jobs of an interrupted stage are cancelled: nothing tells when Spark has given it up."""


class SparkEngine:
    """Runs the stages of one query as tagged Spark actions, each in a thread of its own.

    `result`: what `consume` made of the result, once a last stage has finished that was not cancelled or different.

    Args:
        session: the query's own session (`query_session`).
        written: the query as written, run as one stage on request.
        checkpoints: stores stage outputs.
        consume: takes the result's frame, as part of the last stage; returns its number of rows and the result.
        emit: takes events; called from several threads.
        warn: prints a line for the user; called from several threads.
        verification: compares plans with the query as written; a plan that is different fails.
        once: used in place of `consume` if that stores rows; only those of a plan that was compared with the query, and
            no switch cancels it.
        measures_result: measure the last stage too, which takes some milliseconds.
        foreground: run stages in the thread that starts them, as Spark alone would run the query as written: nothing
            can happen meanwhile that has to be decided on, but its interruption.
        tag: one more tag of the jobs of stages in threads of their own.
        keeps_metadata: the columns of the result have the qualifiers and metadata of those of the query as written, not
            only their names, as it is stored or becomes a frame of the user; takes a millisecond for each column.
        out_of_room: called when a stage has found no memory or disk left, before it is tried again.
        too_much: given the bytes that outputs take, why that is too much; None if it is not. With a reason, the query
            runs as written.
        versions: of tables, as of which stages read them.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        written: QueryAsWritten,
        checkpoints: Checkpoints,
        consume: Callable[[DataFrame], tuple[int, Any]],
        emit: Callable[[Event], None],
        warn: Callable[[str], None] = lambda line: None,
        verification: Verification | None = None,
        once: StoredOnce | None = None,
        measures_result: bool = True,
        foreground: bool = False,
        tag: str | None = None,
        keeps_metadata: bool = True,
        too_much: Callable[[float], AsWrittenCause | None] = lambda stored: None,
        out_of_room: Callable[[], None] = lambda: None,
        versions: TableVersions | None = None,
    ) -> None:
        self._once, self._measures_result, self._foreground = once, measures_result, foreground
        self._tag, self._keeps_metadata = tag, keeps_metadata
        self._storing: set[str] = set()
        self._verification = verification
        self._checks = OneByOne(f"{name}-check")
        self._compared_next: Callable[[], str] | None = None
        self._definitions: dict[str, str] = {}
        self.result: Any = None
        self.result_is_as_written = False
        self._session, self._name, self._written, self._checkpoints = session, name, written, checkpoints
        self._prepared = PreparedQueries(name, session, checkpoints.views, versions or TableVersions())
        self._consume, self._emit, self._warn = consume, emit, warn
        self._context = session.sparkContext
        self._too_much, self._next_limit_check, self._is_over_limit = too_much, 0.0, False
        self._out_of_room = out_of_room
        self._executors = Executors(self._context)
        self._target = ExecutorTarget(self._executors, name, warn)
        self._lock = threading.RLock()
        self._running: dict[StageId, str] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._cancelled: set[str] = set()
        self._starved: set[StageId] = set()
        self._views: dict[str, StageId] = {}
        self._partial: dict[str, StageId] = {}
        self._outputs: dict[str, StageId] = {}
        self._grown: dict[str, float] = {}
        self._inexact: set[str] = set()
        self._versions: dict[str, int] = {}
        self._number = 0
        self._closed = threading.Event()
        self._known_executors: ExecutorsChanged | None = None
        self._samples = TaskSamples()
        if not foreground:
            with suppress(Exception):  # What Spark does not answer now, it is asked again.
                # Before the first plan is chosen.
                self._report_executors()
            threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True).start()

    def start(self, stage: StageId, query: str, view: str | None) -> None:
        """Run a stage's query in a thread of its own and store its output as `view`; None: it is the result.

        With `foreground` it is run before this returns. Its jobs inherit tags, job group and pool from the thread that
        runs the query, so that cancelling those cancels the query.
        """
        with self._lock:
            if view is not None:
                self._definitions[view] = query
                self._outputs[view] = stage
                self._grown.pop(view, None)
            self._number += 1
            tag = f"{self._name}-{self._number}"
            self._running[stage] = tag
        args = (stage, query, view, tag)
        if self._foreground:
            self._run(*args)
            return

        def died(problem: BaseException) -> None:
            failed = StageFailed(stage, f"Spark has stopped: {message_of(problem)}", False, query != self._written.text)
            self._ended(stage, tag, failed)

        try:
            thread = _StageThread(self._run, died, args=args, name=tag, daemon=True)
            thread.start()
        except Exception as problem:  # noqa: BLE001 - PySpark fails in many ways once Spark has stopped
            died(problem)
            return
        with self._lock:
            self._threads = {name: old for name, old in self._threads.items() if old.is_alive()} | {tag: thread}

    def check_plan(self, text: Callable[[], str]) -> None:
        """Compare a plan with the query as written; if it is different, emit that it cannot run.

        A plan that waits to be compared when another one is run, or the last stage starts, is not compared: what the
        result takes from it is compared with that.

        `text`: writes the plan as one text.
        """
        self._compared_next = text

        def check() -> None:
            if self._compared_next is not text:
                return
            try:
                self._check(text())
            except DifferentPlanError as problem:
                self._emit(CannotPlan(problem.cause))
            except Exception as problem:  # noqa: BLE001 - what cannot be checked must not run
                self._emit(CannotPlan(PlanningFailed(f"the plan cannot be written as one text: {describe(problem)}")))

        self._checks.submit(check)

    def prepare(self, query: str) -> None:
        """Have Spark analyse the query of a stage that is likely to start when the running ones have finished."""
        self._prepared.prepare(query, self._outputs_read(query))

    def _outputs_read(self, query: str) -> set[str]:
        with self._lock:
            return views_read(query, self._definitions)

    def _check(self, text: str, last: bool = False) -> None:
        if self._verification is not None and not self._closed.is_set():
            self._verification.check(text, last)

    def _checked(self, query: str) -> "Future[None]":
        """The comparison of the plan that ends with this stage, with the definitions of all views as they were run."""
        with self._lock:
            definitions = dict(self._definitions)
        self._compared_next = None
        return self._checks.submit(partial(self._check, composed(query, definitions), last=True))

    def cancel(self, stages: tuple[StageId, ...]) -> None:
        """Cancel stages; each emits an event when it has stopped. Those that have ended already are ignored."""
        with self._lock:
            found = {tag for stage in stages if (tag := self._running.get(stage)) is not None}
            self._cancelled |= found - self._storing
        self._cancel_again()

    def set_executors(self, target: int, by: float) -> None:
        """Set the target number of executors; surplus ones must be gone at `by`. Returns immediately."""
        self._target.set(target, by)

    def close(self) -> None:
        """Cancel running stages and wait for them, so that nothing is computed or stored any more."""
        self._closed.set()
        self._checks.close()
        self._prepared.close()
        self._target.close()
        with self._lock:
            self._cancelled |= set(self._running.values())
            threads = dict(self._threads)
        if self._foreground:
            self._cancel_interrupted()
            return
        self._wait_for(threads)

    def _wait_for(self, cancelled: Mapping[str, threading.Thread]) -> None:
        """Wait until cancelled stages have ended, for a while at most; cancel the jobs that they still start."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(thread.is_alive() for thread in cancelled.values()) and time.monotonic() < deadline:
            for tag, thread in cancelled.items():
                if thread.is_alive() and not self._cancel_jobs(tag):
                    return
            for thread in cancelled.values():
                thread.join(0.05)

    def _cancel_interrupted(self) -> None:
        """Cancel the jobs of a stage that this thread no longer waits for, and those that Spark still starts."""
        for tag in self._cancelled:
            for _ in range(INTERRUPTED_CANCELS):
                if not self._cancel_jobs(tag):
                    return
                time.sleep(0.05)

    def _cancel_jobs(self, tag: str) -> bool:
        """Cancel the jobs under a tag; False if Spark does not take the request, as when it has stopped."""
        try:
            self._context.cancelJobsWithTag(tag)
        except Exception:  # noqa: BLE001 - PySpark without a context fails in many ways; it is retried
            return False
        return True

    def _run(self, stage: StageId, query: str, view: str | None, tag: str) -> None:
        started = time.monotonic()
        versions = self._versions_read(query)
        has_room = True
        try:
            with self._tagged(tag, view):
                rows, size = self._compute(query, view, tag, versions)
            seconds = time.monotonic() - started
            is_measured = view is not None or self._measures_result
            took = task_time(self._context, tag) if is_measured else TaskTime(None, None)
            event: Event = StageFinished(stage, rows, size, seconds, took.core_seconds, took.computing_seconds)
        except BaseException as problem:
            if self._foreground and not isinstance(problem, Exception):
                raise
            event = self._failure(stage, tag, problem, of_plan=query != self._written.text)
            has_room = not (isinstance(event, StageFailed) and is_out_of_room(problem))
            if view is not None and not isinstance(problem, StoppedError):
                event = self._with_kept_part(event, view, tag)
        if not has_room and isinstance(event, StageFailed):
            event = self._with_more_room(event, tag)
        if isinstance(event, StageFailed) and (event.retry or LOST_PART in event.error):
            self._try_to_report_lost_outputs()
        with self._lock:
            # At once: whatever is lost from now on is reported after this, with all that was made from it.
            if isinstance(event, StageFinished) and view is not None:
                self._partial.pop(view, None)
                self._starved.discard(stage)
                if self._versions_read(query) == versions:
                    self._views[view] = stage
                else:
                    event = StageFailed(stage, "an output was lost while the stage read it", True, True)
            self._ended(stage, tag, event)

    def _tagged(self, tag: str, view: str | None) -> AbstractContextManager[None]:
        if self._foreground:
            return tagged_beside(self._context, tag)
        tags = [tag] if self._tag is None else [tag, self._tag]
        return tagged(self._context, tags, f"{self._name} {view or 'result'}")

    def _with_kept_part(self, event: Event, view: str, tag: str) -> Event:
        """The end of a stage without a complete output, with what is kept of it if the stage was cancelled."""
        if not isinstance(event, StageCancelled) or self._closed.is_set():
            return event
        try:
            kept = self._checkpoints.stopped(view)
        except Exception:  # noqa: BLE001 - what cannot be known is computed again
            kept = 0.0
        if kept > 0.0:
            with self._lock:
                self._partial[view] = event.stage
            return StageCancelled(event.stage, kept, core_seconds(self._context, tag, last_job=True))
        return event

    def _versions_read(self, query: str) -> dict[str, int]:
        """How often outputs that a stage reads were given up, as no two computations of them may be mixed."""
        with self._lock:
            return {view: self._versions[view] for view in views_read(query, self._versions)}

    def _ended(self, stage: StageId, tag: str, event: Event) -> None:
        with self._lock:
            if self._running.get(stage) == tag:
                del self._running[stage]
        self._emit(event)

    def _compute(self, query: str, view: str | None, tag: str, versions: dict[str, int]) -> tuple[float, float]:
        self._raise_if_cancelled(tag)
        if query == self._written.text:
            if self._is_over_limit or self._starved:
                self._remove_outputs(tag)
                self._raise_if_cancelled(tag)
            return self._finish(self._take(self._written.frame(), tag), tag, as_written=True)
        reads = self._outputs_read(query)
        analysed = self._prepared.take(query, reads, stored=view is not None)
        refuse_cached_files(analysed.frame)
        if view is not None:
            exact = analysed.exact and not self._written.reads_stored_rows
            with self._lock:
                whole = not exact or not self._inexact.isdisjoint(reads)
                if whole:
                    self._inexact.add(view)
            stored = self._checkpoints.save(view, analysed.frame, whole=whole, versions=versions)
            # Before its end is reported: the stages that would follow store more, and between checks of what is being
            # computed all of them may end.
            self._report_too_much(self._checkpoints.complete_bytes())
            return stored.rows, stored.bytes
        checked = self._checked(query)
        if self._once is not None:
            checked.result()
        made = self._take(self._with_written_names(analysed.frame), tag)
        checked.result()
        return self._finish(made, tag, as_written=False)

    def _remove_outputs(self, tag: str) -> None:
        """Make room for the query as written. A stage that still reads an output would store it again."""
        with self._lock:
            others = {name: thread for name, thread in self._threads.items() if name != tag and thread.is_alive()}
            if others.keys() & set(self._running.values()) - self._cancelled:
                return
        self._wait_for(others)
        try:
            self._checkpoints.release()
        except Exception as problem:  # noqa: BLE001 - the query can be computed all the same
            self._warn(f"outputs of stages could not be removed: {describe(problem)}")
        if self._starved and self._outputs:
            self._free_room()

    def _take(self, frame: DataFrame, tag: str) -> tuple[int, Any]:
        if self._once is None:
            self._raise_if_cancelled(tag)
            return self._consume(frame)
        return self._once.store(frame, lambda: self._begin_to_store(tag))

    def _begin_to_store(self, tag: str) -> None:
        """From now on only the end of the query cancels this stage."""
        with self._lock:
            self._raise_if_cancelled(tag)
            self._storing.add(tag)

    def _finish(self, made: tuple[int, Any], tag: str, as_written: bool) -> tuple[float, float]:
        """Take a result, unless its stage was cancelled meanwhile and another one computes the result."""
        with self._lock:
            if tag in self._cancelled:
                raise StoppedError("cancelled before its result was taken")
            rows, self.result = made
            self.result_is_as_written = as_written
        return float(rows), 0.0

    def _with_written_names(self, frame: DataFrame) -> DataFrame:
        """The result with the columns as written; checks that they have the same types.

        Raises:
            ResultTypeError: they have not.
        """
        types, expected = ([kind for _, kind in columns] for columns in (columns_of(frame), self._written.columns))
        if types != expected:
            raise ResultTypeError(f"the plan's result has types {', '.join(types)} instead of {', '.join(expected)}")
        if self._keeps_metadata:
            return with_columns_like(frame, self._written.analysed)
        return frame.toDF(*(name for name, _ in self._written.columns))

    def _cancel_again(self) -> None:
        """Cancel the jobs of cancelled stages. Repeated, as a stage may be between two jobs."""
        with self._lock:
            # A last stage that another one has replaced is no longer among those that run.
            alive = {tag for tag, thread in self._threads.items() if thread.is_alive()}
            tags = self._cancelled & alive.union(self._running.values())
        for tag in tags:
            self._cancel_jobs(tag)

    def _raise_if_cancelled(self, tag: str) -> None:
        with self._lock:
            if tag in self._cancelled:
                raise StoppedError("cancelled before it started")

    def _failure(self, stage: StageId, tag: str, problem: BaseException, of_plan: bool) -> Event:
        with self._lock:
            was_cancelled = tag in self._cancelled
        if was_cancelled or isinstance(problem, StoppedError):
            return StageCancelled(stage)
        if isinstance(problem, DifferentPlanError | NoSnapshotError):
            return CannotPlan(problem.cause)
        final = self._once is not None and self._once.is_over
        try:
            message, causes = message_of(problem), causes_of(problem)
        except Exception:  # noqa: BLE001 - the JVM does not respond
            return StageFailed(stage, f"Spark has stopped: {type(problem).__name__}", False, of_plan, final)
        cancelled = next((cause.message for cause in causes if CANCELLED in cause.message), None)
        if cancelled is not None:
            return QueryCancelled(cancelled)
        if self._context._jsc is None:
            message = f"Spark has stopped: {message}"
        return StageFailed(stage, message, is_transient(causes) and not final, of_plan, final)

    def _with_more_room(self, event: StageFailed, tag: str) -> Event:
        """The end of a stage that found no memory or disk left, after some was freed: it is retried once.

        Not called while the exception exists: it keeps the stage's objects alive.
        """
        with self._lock:
            is_first = event.stage not in self._starved
            self._starved.add(event.stage)
        if not (event.retry and is_first):
            return replace(event, retry=False)
        with suppress(Exception):  # The JVM does not respond.
            self._out_of_room()
        self._free_room()
        with self._lock:
            return StageCancelled(event.stage) if tag in self._cancelled else event

    def _free_room(self) -> None:
        with suppress(Exception):  # The JVM does not respond.
            free_room(self._session, self._closed.wait)

    def _watch(self) -> None:
        """Report changes in the number of executors and lost outputs; repeat cancellations.

        A check that fails is reported once and retried with growing pauses; cancellations continue meanwhile.
        """
        failures, next_check, next_outputs, collected = 0, 0.0, 0.0, 0
        while not self._closed.wait(WATCH_INTERVAL_S):
            self._cancel_again()
            # What the stages before have left, while Spark is busy with this one. Not in the user's thread: Python
            # ignores a Ctrl-C that arrives while Py4J finalises an object there.
            if (started := self._number) != collected and GARBAGE.collect():
                collected = started
            if time.monotonic() < next_check:
                continue
            try:
                if self._known_executors is None or self._executors.is_adjustable():
                    self._report_executors()
                self._report_tasks()
                if (began := time.monotonic()) >= next_outputs:
                    self._check_outputs()
                    ended = time.monotonic()
                    next_outputs = ended + min(CHECK_PAUSES * (ended - began), MAX_PAUSE_S)
                failures = 0
            except Exception as problem:  # noqa: BLE001 - the next check may succeed
                failures += 1
                next_check = time.monotonic() + min(WATCH_INTERVAL_S * 2.0 ** min(failures, 10), MAX_PAUSE_S)
                if failures == 1:
                    self._warn_of_failed_check(problem)

    def _check_outputs(self) -> None:
        self._report_growth()
        self._report_too_much_stored()
        self._report_lost_outputs()

    def _warn_of_failed_check(self, problem: Exception) -> None:
        try:
            message = message_of(problem)[:300]
        except Exception:  # noqa: BLE001 - the JVM does not respond
            message = "the JVM of the Spark driver does not respond"
        if not self._closed.is_set():
            failed = "could not check executors and stored outputs; retrying"
            self._warn(f"{failed}: {type(problem).__name__}: {message}")

    def _report_executors(self) -> None:
        executors = self._executors
        found = ExecutorsChanged(executors.count(), executors.slots(), executors.is_adjustable())
        if found != self._known_executors:
            self._known_executors = found
            self._emit(found)

    def _report_tasks(self) -> None:
        """Report how long the tasks of running stages have run."""
        now = time.monotonic()
        if now < self._samples.due_at:
            return
        with self._lock:
            running = {tag: stage for stage, tag in self._running.items() if tag not in self._cancelled}
        ran = self._samples.add(now, {tag: running_tasks(self._context, tag) for tag in running})
        if self._samples.are_to_report(now) and ran:
            self._emit(TasksRan(tuple(sorted((running[tag], seconds) for tag, seconds in ran.items()))))

    def _report_growth(self) -> None:
        with self._lock:
            running = dict(self._running)
        for view, (rows, finished) in self._checkpoints.growing(MIN_GROWTH_ROWS).items():
            with self._lock:
                stage = self._outputs[view]
                is_same = stage in running and self._running.get(stage) == running[stage]
                if not is_same or finished <= 0.0 or rows < 1.25 * self._grown.get(view, 0.0):
                    continue
                self._grown[view] = rows
            self._emit(StageGrew(stage, rows, finished))

    def _report_too_much_stored(self) -> None:
        if self._is_over_limit or time.monotonic() < self._next_limit_check:
            return
        self._next_limit_check = time.monotonic() + LIMIT_CHECK_S
        self._report_too_much(self._checkpoints.stored_bytes())

    def _report_too_much(self, stored: float) -> None:
        """Report that outputs of so many bytes are too large, once, if they are."""
        if self._is_over_limit or (cause := self._too_much(stored)) is None:
            return
        with self._lock:
            # Rows that are being stored cannot be taken back.
            if self._storing or self._is_over_limit:
                return
            self._is_over_limit = True
        self._emit(CannotPlan(cause))

    def _report_lost_outputs(self, suspected: bool = False) -> None:
        for view, reason in self._checkpoints.lost_views(suspected).items():
            with self._lock:
                with_others = view in self._inexact
            self._report_lost(view, reason, with_others)

    def _report_lost(self, view: str, reason: str, with_others: bool) -> None:
        """Report an output as lost; if computed again it may have other values, with all that was made from it."""
        with self._lock:
            stage = self._views.pop(view, None) or self._partial.pop(view, None)
            if stage is None:
                return
            made = sorted(self._made_from(view)) if with_others else []
            if with_others:
                self._versions[view] = self._versions.get(view, 0) + 1
        self._emit(CheckpointLost(stage, reason))
        for other in made:
            self._report_lost(other, f"computed from {view}, of which parts were lost", with_others)

    def _made_from(self, view: str) -> set[str]:
        """The stored outputs whose stages read a view."""
        return {other for other in self._views if views_read(self._definitions.get(other, ""), {view})}

    def _try_to_report_lost_outputs(self) -> None:
        """Report lost outputs before the failure that they caused, so that they are not read again."""
        try:
            self._report_lost_outputs(suspected=True)
        except Exception:  # noqa: BLE001 - the next check reports them
            return


class _StageThread(InheritableThread):  # type: ignore[misc]
    """A thread with the tags, job group and pool of the one that starts it.

    `died` is called if it ends before its target runs, as PySpark's part of it does when Spark has stopped meanwhile.
    """

    def __init__(self, target: Callable[..., None], died: Callable[[BaseException], None], **kwargs: Any) -> None:
        super().__init__(target, **kwargs)
        self._died = died

    def run(self) -> None:
        """Run the target; called in the thread."""
        try:
            super().run()
        except BaseException as problem:  # noqa: BLE001 - the target itself raises nothing
            self._died(problem)


class ResultTypeError(QoopError):
    """The types of a plan's result differ from those of the query as written."""
