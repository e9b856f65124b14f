"""Frees what Python still holds in Spark's driver, as long as queries run."""

import gc
import time
from collections.abc import Callable
from threading import Lock

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
