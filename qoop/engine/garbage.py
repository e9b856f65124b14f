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
    broadcast, stays in the JVM until Python's collector has run; and that counts objects, not what they hold there.
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

CLEANING_S = 0.5
"""Seconds that Spark has to remove what a collection has found to be unused."""


def free_memory(spark: SparkSession) -> None:
    """Have the driver free all that ended queries have left; takes a second or more.

    Spark removes what was broadcast when Java's collector has found that nothing uses it any more, and the memory is
    free after the next collection. Java makes room for neither before it reports that there is no memory left.
    """
    if gc.isenabled():
        gc.collect()
    system = java_class(spark._jvm, "java.lang.System")
    for _ in range(2):
        system.gc()
        time.sleep(CLEANING_S)
