"""Pools of Spark's fair scheduler: sessions share slots equally, and the first statement of a session goes first."""

import itertools
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

_numbers = itertools.count(1)


class SessionPool:
    """The pool of a session, in which each statement that runs has one of its own. Thread-safe.

    In a pool alone Spark would take the stage whose job is the oldest: of ten statements the last stage of the first
    would wait for the first stages of all. Pools in a pool have no job, and so are taken in the order of their start.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context, self._jvm = spark.sparkContext, spark._jvm
        root: Any = self._context._jsc.sc().taskScheduler().rootPool()
        self._root, self._pool = root, self._new(f"session-{next(_numbers)}")
        root.addSchedulable(self._pool)

    def _new(self, name: str) -> Any:
        first_comes_first = java_class(self._jvm, "org.apache.spark.scheduler.SchedulingMode").FIFO()
        return java_class(self._jvm, "org.apache.spark.scheduler.Pool")(name, first_comes_first, 0, 1)

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Within this context the jobs of this thread, and of those that it starts, are those of a statement."""
        name = f"statement-{next(_numbers)}"
        pool = self._new(name)
        self._pool.addSchedulable(pool)
        self._context.setLocalProperty(POOL, name)
        try:
            yield
        finally:
            with suppress(*STOPPED):
                # Spark never removes a pool itself, and makes those anew that jobs name.
                self._context.setLocalProperty(POOL, None)
                self._pool.removeSchedulable(pool)

    def close(self) -> None:
        """Remove it."""
        with suppress(*STOPPED):
            self._root.removeSchedulable(self._pool)
