"""Frames that Spark keeps persisted, changed by one thread at a time.

To drop a persisted frame, Spark takes those that are made from it out of its cache, plans them again and puts them
back. One that another thread drops meanwhile is not found, is put back afterwards, and stays for ever.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from qoop.engine.session import java_message

WAIT_S = 5.0
"""Seconds to wait for another thread: Spark may hang as it plans a frame, and the end of other queries must not."""

_changes = threading.Lock()
"""Held while what is persisted changes; all sessions of an application share one cache."""


@contextmanager
def _alone() -> Iterator[None]:
    held = _changes.acquire(timeout=WAIT_S)
    try:
        yield
    finally:
        if held:
            _changes.release()


def persist(frame: DataFrame) -> bool:
    """Persist a frame on the executors; False if it was persisted already: then its owner unpersists it."""
    with _alone():
        level = frame.storageLevel
        if level.useMemory or level.useDisk:
            return False
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        return True


def unpersist(frame: Any) -> None:
    """Unpersist a frame (a Java object), without waiting for it."""
    with _alone():
        frame.unpersist(False)


def define_view(view: str, frame: DataFrame) -> None:
    """Let a temporary view read a frame from now on.

    A view of that name is dropped before, by a method that changes nothing else: when Spark replaces a view, it also
    drops the persisted frames that read one of its name, in all sessions, and stages of all queries are named alike.
    """
    with _alone():
        frame.sparkSession._jsparkSession.sessionState().catalog().dropTempView(view)
        frame.createOrReplaceTempView(view)


def unpersist_all(frames: Iterable[Any]) -> Exception | None:
    """Unpersist all frames (Java objects), even if some fail; returns the first failure."""
    first: Exception | None = None
    with _alone():
        for frame in frames:
            try:
                frame.unpersist(False)
            except Exception as problem:  # noqa: BLE001 - one failure must not stop the others
                first = first or problem
    return first


def unpersist_with(owner: object, frames: list[Any], warn: Callable[[str], None] = lambda line: None) -> None:
    """Unpersist frames (Java objects) when `owner` is garbage-collected.

    In a thread of its own: the owner may be collected during a call to Java, when no other call can be made.
    """

    def release() -> None:
        problem = unpersist_all(frames)
        # If the JVM does not respond, Spark has stopped and nothing is stored any more.
        if isinstance(problem, Py4JJavaError):
            warn(f"stage outputs could not be released: {java_message(problem)}")

    def on_collected() -> None:
        threading.Thread(target=release, name="qoop-unpersist", daemon=True).start()

    weakref.finalize(owner, on_collected).atexit = False
