"""Tagged Spark jobs: each stage has a tag of its own, by which its jobs are cancelled and measured."""

import itertools
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from qoop.engine.connection import java_class

POOL, DESCRIPTION = "spark.scheduler.pool", "spark.job.description"


def session_tag(session: SparkSession) -> str | None:
    """The tag by which `interruptAll` of a session finds its jobs; None in other versions of Spark."""
    try:
        return str(session._jsparkSession.sessionJobTag())
    except Py4JError:
        return None


def has_tags(session: SparkSession) -> bool:
    """Whether the user has given the session tags to interrupt its queries by; True if that cannot be known."""
    try:
        return bool(session.getTags())
    except (Py4JError, AttributeError):
        return True


@contextmanager
def tagged(context: SparkContext, tags: Iterable[str], description: str) -> Iterator[None]:
    """Within this context, jobs started by this thread, which does nothing else, carry the tags.

    They run in a fair-scheduler pool of their own, unless the user has set one for the thread that runs the query.
    """
    # The JVM's thread for this one ends with it, so nothing has to be taken back.
    with _own_pool() as pool:
        for tag in tags:
            context.addJobTag(tag)
        if not context.getLocalProperty(POOL):
            context.setLocalProperty(POOL, pool)
        given = context.getLocalProperty(DESCRIPTION)
        context.setLocalProperty(DESCRIPTION, f"{given} ({description})" if given else description)
        yield


@contextmanager
def tagged_beside(context: SparkContext, tag: str) -> Iterator[None]:
    """Within this context, jobs started by this thread, which is the user's, carry the tag beside the user's own."""
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)


@contextmanager
def settings_of(session: SparkSession) -> Iterator[None]:
    """Within this context, plans and tasks of RDDs that this thread computes know the settings of a session.

    Some expressions ask for a setting when they are prepared or evaluated. Spark does this for a frame's action
    (SparkSession.withActive, SQLExecution.withSQLConfPropagated), but not for its RDD.
    """
    jvm: Any = session._jvm
    context: Any = session.sparkContext._jsc.sc()
    sessions = java_class(jvm, "org.apache.spark.sql.classic.SparkSession")
    before, active = context.getLocalProperties(), sessions.getActiveSession()
    properties, pool = before.clone(), before.getProperty(POOL)
    settings = session._jsparkSession.sessionState().conf().getAllConfs()
    properties.putAll(java_class(jvm, "scala.jdk.javaapi.CollectionConverters").asJava(settings))
    if pool is not None:
        properties.setProperty(POOL, pool)
    try:
        sessions.setActiveSession(session._jsparkSession)
        context.setLocalProperties(properties)
        yield
    finally:
        context.setLocalProperties(before)
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


def only_ctrl_c_interrupts() -> bool:
    """Whether nothing but Ctrl-C can raise an exception in this thread while it waits for Spark.

    Py4J takes what other signal handlers raise, as those of alarms do, for failures of Spark, and its jobs go on.
    """
    if threading.current_thread() is not threading.main_thread():
        return True
    own = signal.getsignal(signal.SIGINT)
    usual = own is signal.default_int_handler or str(getattr(own, "__module__", "")).startswith("pyspark.")
    others = signal.valid_signals() - {signal.SIGINT}
    return usual and not any(callable(signal.getsignal(number)) for number in others)


_pools_lock = threading.Lock()
_pools: set[int] = set()
"""The numbers of the pools in use. They are reused, as Spark never removes a pool."""


@contextmanager
def _own_pool() -> Iterator[str]:
    with _pools_lock:
        number = next(free for free in itertools.count(1) if free not in _pools)
        _pools.add(number)
    try:
        yield f"qoop-{number}"
    finally:
        with _pools_lock:
            _pools.discard(number)


class TaskTime(NamedTuple):
    """The total run time of tasks, and the time from the start of the first to the end of the last, without pauses in
    which there was none to run; in seconds, None if Spark no longer has them, or not yet."""

    core_seconds: float | None
    computing_seconds: float | None


def core_seconds(context: SparkContext, tag: str, last_job: bool = False) -> float | None:
    """The total run time of all tasks under a tag, or of its last job; None if Spark no longer has it."""
    return task_time(context, tag, last_job).core_seconds


def task_time(context: SparkContext, tag: str, last_job: bool = False) -> TaskTime:
    """The time of the tasks under a tag, or of its last job."""
    try:
        scala = context._jsc.sc()
        store = scala.statusStore()
        jobs = sorted(scala.statusTracker().getJobIdsForTag(tag))[-1 if last_job else 0 :]
        stages = {stage for job in jobs for stage in str(store.job(job).stageIds().mkString(" ")).split()}
        tasks = [one for stage in stages for one in _tasks(store, int(stage))]
        spans = [_span(found) for found, _ in tasks]
        known = [span for span in spans if span is not None]
        return TaskTime(sum(ran for _, ran in tasks), _covered(known) if len(known) == len(spans) else None)
    except Exception:  # noqa: BLE001 - a stage that has finished must not fail because it cannot be measured
        return TaskTime(None, None)


def _tasks(store: Any, stage: int) -> list[tuple[Any, float]]:
    """What Spark has of a stage of its own, and the run time of its tasks in seconds; empty if it had none."""
    try:
        found = store.lastStageAttempt(stage)
        ran = float(found.executorRunTime()) / 1000.0
    except Py4JError:
        # A stage that was skipped, or that Spark has dropped from its records.
        return []
    return [(found, ran)] if ran else []


def _span(stage: Any) -> tuple[float, float] | None:
    """When the first task of a stage of Spark's started, and when it ended; None if it has not ended."""
    try:
        times = (stage.firstTaskLaunchedTime().get(), stage.completionTime().get())
        begin, end = (float(time.getTime()) / 1000.0 for time in times)
    except Py4JError:
        return None
    return begin, end


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The time that is covered by at least one of these spans."""
    total, until = 0.0, -inf
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


_active_jobs: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def is_idle(context: SparkContext) -> bool:
    """Whether no job runs; True if that cannot be known."""
    try:
        if context not in _active_jobs:
            _active_jobs[context] = context._jsc.sc().dagScheduler().activeJobs()
        return int(_active_jobs[context].size()) == 0
    except (Py4JError, AttributeError):
        # A context that has stopped has no JVM any more.
        return True
