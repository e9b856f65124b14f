"""Frames that Spark keeps persisted. All sessions of an application share one cache."""

import threading
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from qoop.engine.connection import java_class
from qoop.engine.session import frame_of, java_message

CATALYST, TYPES = "org.apache.spark.sql.catalyst", "org.apache.spark.sql.types.DataTypes"

WAIT_S = 0.5
"""Seconds to wait until frames are unpersisted."""


def unlike_others(frame: DataFrame) -> DataFrame:
    """The frame with a condition that no other has; it is always true, and Spark drops it as it optimises the plan.

    Spark reads a persisted frame wherever a plan contains the same one, also in the user's own queries. Such a query
    would fail with the stage that computes the frame, if that is cancelled meanwhile.
    """
    jvm: Any = frame.sparkSession._jvm
    text = java_class(jvm, "org.apache.spark.unsafe.types.UTF8String").fromString(uuid4().hex)
    literal = java_class(jvm, f"{CATALYST}.expressions.Literal")(text, java_class(jvm, TYPES).StringType)
    condition = java_class(jvm, f"{CATALYST}.expressions.IsNotNull")(literal)
    plan = java_class(jvm, f"{CATALYST}.plans.logical.Filter")(condition, frame._jdf.queryExecution().analyzed())
    return frame_of(frame.sparkSession, plan)


def persist(frame: DataFrame) -> bool:
    """Persist a frame on the executors; False if it was persisted already: then its owner unpersists it."""
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        return False
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    return True


def define_view(view: str, frame: DataFrame) -> None:
    """Let a temporary view read a frame from now on.

    A view of that name is dropped before, by a method that changes nothing else: when Spark replaces a view, it also
    drops the persisted frames that read one of its name, in all sessions, and stages of all queries are named alike.
    """
    frame.sparkSession._jsparkSession.sessionState().catalog().dropTempView(view)
    frame.createOrReplaceTempView(view)


def unpersist(frame: Any) -> None:
    """Unpersist a frame (a Java object), as `unpersist_all`."""
    problem = unpersist_all([frame])
    if problem is not None:
        raise problem


def unpersist_all(frames: Collection[Any], to_the_end: bool = False) -> Exception | None:
    """Unpersist all frames (Java objects), even if some fail; returns the first failure.

    Unless it shall be waited for to the end, what takes long goes on after this has returned None: Spark first waits
    until all other persisted frames, those of other queries too, have finished their shuffles.
    """
    global _late
    if not frames:
        return None
    ended: Future[Exception | None] = Future()
    _waiting.put((frames, ended))
    _start_once()
    if to_the_end:
        return ended.result()
    if _late is not None and not _late.done():
        return None
    try:
        return ended.result(WAIT_S)
    except TimeoutError:
        _late = ended
        return None


_late: "Future[Exception | None] | None" = None
"""What was waited for in vain the last time: until it ends there is no use in waiting for what comes after it."""

_waiting: SimpleQueue[tuple[Collection[Any], "Future[Exception | None]"]] = SimpleQueue()
_starting = threading.Lock()
_thread: threading.Thread | None = None


def _start_once() -> None:
    global _thread
    with _starting:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_unpersist_waiting, name="qoop-unpersist", daemon=True)
            _thread.start()


def _unpersist_waiting() -> None:
    """Unpersist one frame after another.

    Spark takes the frames that are made from one out of its cache, plans them again and puts them back. One that
    another thread unpersisted meanwhile would not be found, be put back afterwards, and stay for ever.
    """
    while True:
        # Nothing of the last frames stays in this loop while it waits.
        _unpersist_next(*_waiting.get())


def _unpersist_next(frames: Collection[Any], ended: "Future[Exception | None]") -> None:
    first: Exception | None = None
    for frame in frames:
        try:
            frame.unpersist(False)
        except Exception as problem:  # noqa: BLE001 - one failure must not stop the others
            first = first or problem
    ended.set_result(first)


def unpersist_with(owner: object, frames: list[Any], warn: Callable[[str], None] = lambda line: None) -> None:
    """Unpersist frames (Java objects) when `owner` is garbage-collected.

    In a thread of its own: the owner may be collected during a call to Java, when no other call can be made.
    """

    def release() -> None:
        problem = unpersist_all(frames, to_the_end=True)
        # If the JVM does not respond, Spark has stopped and nothing is stored any more.
        if isinstance(problem, Py4JJavaError):
            warn(f"stage outputs could not be released: {java_message(problem)}")

    def on_collected() -> None:
        threading.Thread(target=release, name="qoop-unpersist", daemon=True).start()

    weakref.finalize(owner, on_collected).atexit = False
