"""Runs what the planner commands on Spark, and reports what came of it."""

import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.checkpoints import Checkpoints
from qoop.engine.executors import Executors, ExecutorTarget
from qoop.engine.jobs import core_seconds, tagged
from qoop.engine.session import AsWritten, columns_of
from qoop.errors import QoopError
from qoop.plans.plan import StageId
from qoop.replan.events import (
    CheckpointLost,
    Event,
    ExecutorsChanged,
    QueryCancelled,
    StageCancelled,
    StageFailed,
    StageFinished,
)

WATCH_EVERY = 0.3
"""Seconds between looks at executors, kept outputs, and cancelled stages."""

LONGEST_PAUSE = 10.0
"""Seconds between looks at most, while they fail."""

END_WITHIN = 20.0
"""Seconds that stopped stages have to end in when the query is over."""


class SparkEngine:
    """Stages of one query as tagged Spark actions, each in a thread of its own.

    Args:
        session: the query's own session (`query_session`).
        written: the query as written; run in one piece where that is asked for.
        checkpoints: where outputs are kept.
        goal: takes the frame that is the result, as part of the last stage; returns its rows.
        tell: takes the events; called from several threads.
        warn: takes lines for the user; called from several threads.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        written: AsWritten,
        checkpoints: Checkpoints,
        goal: Callable[[DataFrame], int],
        tell: Callable[[Event], None],
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._session, self._name, self._written, self._checkpoints = session, name, written, checkpoints
        self._goal, self._tell, self._warn = goal, tell, warn
        self._context = session.sparkContext
        self._executors = Executors(self._context)
        self._target = ExecutorTarget(self._executors, name, warn)
        self._lock = threading.Lock()
        self._running: dict[StageId, str] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._cancelled: set[str] = set()
        self._views: dict[str, StageId] = {}
        self._number = 0
        self._closed = threading.Event()
        self._count: int | None = None
        threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True).start()

    def start(self, stage: StageId, query: str, view: str | None, attempt: int) -> None:
        """Run a query in a thread of its own and keep its output as `view`; None: it is the result.

        Its jobs have the tags, the job group and the pool of the thread that runs the query, so that whoever cancels
        those cancels the query.
        """
        with self._lock:
            self._number += 1
            tag = f"{self._name}-{self._number}"
            self._running[stage] = tag
        args = (stage, query, view, attempt, tag)
        try:
            thread = InheritableThread(self._run, args=args, name=tag, daemon=True)
            thread.start()
        except Exception as problem:  # noqa: BLE001 - Spark has stopped: PySpark then fails in many ways
            self._ended(stage, tag, StageFailed(stage, f"Spark has stopped: {_message(problem)}", retry=False))
            return
        with self._lock:
            self._threads = {name: one for name, one in self._threads.items() if one.is_alive()} | {tag: thread}

    def cancel(self, stages: tuple[StageId, ...]) -> None:
        """Stop stages; each tells when it has stopped. One that is no longer there has told its end already."""
        with self._lock:
            self._cancelled |= {tag for stage in stages if (tag := self._running.get(stage)) is not None}
        self._stop_cancelled()

    def set_executors(self, target: int, by: float) -> None:
        """Have so many executors, as far as the cluster gives them, the surplus gone by `by`. Returns at once."""
        self._target.want(target, by)

    def close(self) -> None:
        """Stop what runs and wait until it has stopped: afterwards nothing is computed or kept any more."""
        self._closed.set()
        self._target.close()
        with self._lock:
            self._cancelled |= set(self._running.values())
            threads = dict(self._threads)
        deadline = time.monotonic() + END_WITHIN
        while any(thread.is_alive() for thread in threads.values()) and time.monotonic() < deadline:
            for tag, thread in threads.items():
                if thread.is_alive() and not self._cancel_jobs(tag):
                    return
            for thread in threads.values():
                thread.join(0.05)

    def _cancel_jobs(self, tag: str) -> bool:
        """Stop the jobs under a tag; False where that cannot be asked for, as when Spark itself has stopped."""
        try:
            self._context.cancelJobsWithTag(tag)
        except Exception:  # noqa: BLE001 - PySpark without a context fails in many ways; a stage is asked to stop again
            return False
        return True

    def _run(self, stage: StageId, query: str, view: str | None, attempt: int, tag: str) -> None:
        began = time.monotonic()
        try:
            with tagged(self._context, tag, f"{self._name} {view or 'result'}"):
                rows, size = self._compute(query, view, attempt, tag)
            seconds = time.monotonic() - began
            event: Event = StageFinished(stage, rows, size, seconds, core_seconds(self._context, tag))
        except BaseException as problem:  # noqa: BLE001 - a stage that ended untold would leave the query waiting for ever
            event = self._failure(stage, tag, problem)
        if isinstance(event, StageFinished) and view is not None:
            with self._lock:
                self._views[view] = stage
        self._ended(stage, tag, event)

    def _ended(self, stage: StageId, tag: str, event: Event) -> None:
        with self._lock:
            if self._running.get(stage) == tag:
                del self._running[stage]
        self._tell(event)

    def _compute(self, query: str, view: str | None, attempt: int, tag: str) -> tuple[float, float]:
        self._stop_if_cancelled(tag)
        if query == self._written.text:
            return float(self._goal(self._written.frame())), 0.0
        frame = self._session.sql(query)
        if view is not None:
            kept = self._checkpoints.keep(view, frame, attempt)
            return kept.rows, kept.bytes
        return float(self._goal(self._checked(frame))), 0.0

    def _checked(self, frame: DataFrame) -> DataFrame:
        """The result under the names as written; its types must be those as written too."""
        types, expected = [kind for _, kind in columns_of(frame)], self._written.columns
        if types != [kind for _, kind in expected]:
            raise ResultTypeError(f"the plan's result has types {types}, the query as written {expected}")
        return frame.toDF(*(name for name, _ in expected))

    def _stop_cancelled(self) -> None:
        """Stop the jobs of cancelled stages, again and again until the stages have ended: between two jobs of a stage
        there is nothing to stop."""
        with self._lock:
            tags = self._cancelled.intersection(self._running.values())
        for tag in tags:
            self._cancel_jobs(tag)

    def _stop_if_cancelled(self, tag: str) -> None:
        with self._lock:
            if tag in self._cancelled:
                raise StoppedError("cancelled before it began")

    def _failure(self, stage: StageId, tag: str, problem: BaseException) -> Event:
        with self._lock:
            was_cancelled = tag in self._cancelled
        if was_cancelled:
            return StageCancelled(stage)
        try:
            message, causes = _message(problem), _causes(problem)
        except Exception:  # noqa: BLE001 - Java has gone with its exception
            return StageFailed(stage, f"Spark has stopped: {type(problem).__name__}", retry=False)
        cancelled = next((cause for cause in causes if CANCELLED in cause), None)
        if cancelled is not None:
            return QueryCancelled(cancelled)
        return StageFailed(stage, message, any(sign in cause for sign in TRANSIENT for cause in causes))

    def _watch(self) -> None:
        """Stop what is cancelled; tell when executors come or go, and when kept outputs are lost with them.

        A look that fails is repeated, less and less often, and told once; stages are stopped all the while.
        """
        failures, look_at = 0, 0.0
        while not self._closed.wait(WATCH_EVERY):
            self._stop_cancelled()
            if time.monotonic() < look_at:
                continue
            try:
                self._look()
                failures = 0
            except Exception as problem:  # noqa: BLE001 - the next look may succeed
                failures += 1
                look_at = time.monotonic() + min(WATCH_EVERY * 2.0 ** min(failures, 10), LONGEST_PAUSE)
                if failures == 1:
                    self._watch_failed(problem)

    def _look(self) -> None:
        if self._executors.adjustable():
            self._tell_executors()
        self._tell_lost()

    def _watch_failed(self, problem: Exception) -> None:
        try:
            said = _message(problem)[:300]
        except Exception:  # noqa: BLE001 - Java has gone with its exception
            said = "Java does not answer"
        if not self._closed.is_set():
            what = "executors and kept outputs could not be looked at; trying again"
            self._warn(f"{what}: {type(problem).__name__}: {said}")

    def _tell_executors(self) -> None:
        count = len(self._executors.present())
        if count != self._count:
            self._count = count
            self._tell(ExecutorsChanged(count))

    def _tell_lost(self) -> None:
        for view, reason in self._checkpoints.lost().items():
            with self._lock:
                stage = self._views.pop(view, None)
            if stage is not None:
                self._tell(CheckpointLost(stage, reason))


class ResultTypeError(QoopError):
    """A plan's result does not have the types of the query as written."""


class StoppedError(QoopError):
    """A stage was cancelled before it started anything."""


def _message(problem: BaseException) -> str:
    """What went wrong, in one line, without Java's stack."""
    text = str(problem.java_exception.getMessage()) if isinstance(problem, Py4JJavaError) else str(problem)
    return _line(text)


def _line(text: str) -> str:
    return " ".join(text.split("\n\nDriver stacktrace:")[0].split())[:1000]


MOST_CAUSES = 20

TRANSIENT = (
    "ExecutorLostFailure",
    "FetchFailed",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "FileNotFoundException",
    "PATH_NOT_FOUND",
    "Could not read",
    "Connection refused",
    "Connection reset",
    "exited caused by one of the running tasks",
    "Master removed our application",
    "OutOfMemoryError",
)
"""Signs that it was the cluster that failed, not the query: then the stage is tried again."""


CANCELLED = "SPARK_JOB_CANCELLED"
"""Somebody who is not the planner stopped a stage: the user's program, or the user in Spark's web pages."""


def _causes(problem: BaseException) -> list[str]:
    """All that went wrong, a line each: where several jobs make a stage, Spark wraps what happened to one of them."""
    java = getattr(problem, "java_exception", None) or getattr(problem, "_origin", None)
    said = [_message(problem)]
    todo = [java] if java is not None else []
    while todo and len(said) < MOST_CAUSES:
        one = todo.pop()
        said.append(_line(str(one.toString())))
        todo += [cause for cause in (one.getCause(), *one.getSuppressed()) if cause is not None]
    return said
