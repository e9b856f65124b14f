"""Pools of Spark's fair scheduler: sessions take turns, and the first statement of a session goes first."""

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from qoop.engine.connection import java_class

POOL = "spark.scheduler.pool"
"""The setting that names the pool of a thread's jobs."""

STOPPED = (Py4JError, AttributeError, OSError)
"""What calls of Spark raise once it has stopped."""

TURN_S = 0.1
"""Seconds after which it is another session's turn."""


class Pools:
    """The pools of those sessions in which statements run. Thread-safe.

    Of pools with as few running tasks Spark takes the one whose name is the first: with fewer slots than sessions some
    would get none. These have one name. Of such it takes the first in its queue, which is another one at each turn.

    Of the stages in a pool Spark takes that of the oldest job: the last stage of the first of ten statements would wait
    for the first stages of all. So each statement has a pool in its session's. Pools have no job, and of them the one
    that was started first is the first in the queue.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context, self._jvm = spark.sparkContext, spark._jvm
        self._root: Any = self._context._jsc.sc().taskScheduler().rootPool()
        self._lock = threading.Lock()
        self._queue: deque[Any] = deque()
        self._turning = False
        self._numbers = itertools.count(1)

    def session(self) -> Any:
        """A pool for a session."""
        return self._new("session")

    def _new(self, name: str) -> Any:
        first_comes_first = java_class(self._jvm, "org.apache.spark.scheduler.SchedulingMode").FIFO()
        return java_class(self._jvm, "org.apache.spark.scheduler.Pool")(name, first_comes_first, 0, 1)

    @contextmanager
    def statement(self, session: Any) -> Iterator[None]:
        """Within this context the jobs of this thread, and of those that it starts, are those of a statement."""
        name = f"statement-{next(self._numbers)}"
        pool = self._new(name)
        with self._lock:
            is_first = session.schedulableQueue().isEmpty()
            session.addSchedulable(pool)
            if is_first:
                self._enter(session)
        try:
            self._context.setLocalProperty(POOL, name)
            yield
        finally:
            # Spark never removes a pool itself, and makes those anew that jobs name.
            with suppress(*STOPPED):
                self._context.setLocalProperty(POOL, None)
            with self._lock:
                self._leave(session, pool)

    def _enter(self, session: Any) -> None:
        self._root.addSchedulable(session)
        self._queue.append(session)
        if len(self._queue) > 1 and not self._turning:
            self._turning = True
            threading.Thread(target=self._take_turns, name="turns", daemon=True).start()

    def _leave(self, session: Any, pool: Any) -> None:
        with suppress(*STOPPED):
            session.removeSchedulable(pool)
            if session.schedulableQueue().isEmpty():
                self._queue.remove(session)
                self._root.removeSchedulable(session)

    def _take_turns(self) -> None:
        """Let the first go to the end, again and again, while there are several."""
        while True:
            time.sleep(TURN_S)
            with self._lock:
                if len(self._queue) < 2:
                    self._turning = False
                    return
                self._queue.rotate(-1)
                with suppress(*STOPPED):
                    queue = self._root.schedulableQueue()
                    # It is never missing: Spark would make pools anew for its statements' jobs.
                    queue.add(self._queue[-1])
                    queue.remove(self._queue[-1])
