"""Frees what Python still holds in Spark's driver, as long as queries run."""

import gc
import time
from collections.abc import Callable
from threading import Lock

from pyspark.sql import SparkSession

from qoop.engine.connection import java_class

MAX_SHARE = 0.02
"""The part of the time that may go into collections, during which no other thread of Python runs."""


class Garbage:
    """Collects Python's garbage once in a while; for all queries of a process.

    Py4J's objects refer to themselves, so what they stand for, such as executed plans with all that they have
    broadcast, stays in the JVM until Python's collector has run. How often it runs by itself depends on the number of
    Python's objects, not on what they hold in the JVM.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._turn, self._next = clock, Lock(), 0.0

    def collect(self) -> bool:
        """Collect it, unless that was done lately or the user has switched it off; whether it was done."""
        if not gc.isenabled() or not self._turn.acquire(blocking=False):
            return False
        try:
            began = self._clock()
            if began < self._next:
                return False
            gc.collect()
            ended = self._clock()
            self._next = ended + (ended - began) / MAX_SHARE
            return True
        finally:
            self._turn.release()


GARBAGE = Garbage()

CLEANING_S = 1.2
"""Seconds in which Py4J tells the JVM what Python has freed, and Spark drops what Java has found to be unused."""


def free_room(spark: SparkSession, wait: Callable[[float], bool | None] = time.sleep) -> None:
    """Have Spark free what ended queries have left; takes some seconds, or ends when `wait` returns True.

    Spark drops a broadcast, and the files of a shuffle, only after a Java collection has found them unused, so only the
    next one frees the memory of a broadcast, which may be too late for the query that needs it.
    """
    if gc.isenabled():
        gc.collect()
    system = java_class(spark._jvm, "java.lang.System")
    for _ in range(2):
        if wait(CLEANING_S):
            return
        system.gc()
