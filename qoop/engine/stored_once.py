"""A last stage that stores rows: whatever fails, they are never stored twice."""

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from qoop.engine.failures import LOST_PART, StoppedError, causes_of

WRITE_FAILED = "TASK_WRITE_FAILED"
"""Spark's condition for a task that failed while it wrote rows; the files of all tasks are then deleted."""


class StoredOnce:
    """Calls `consume` for one attempt at a time, and for none after one that has stored rows or may have.

    `is_over`: no attempt can follow.

    Args:
        atomic: no row is stored if computing one fails.
    """

    def __init__(self, consume: Callable[[DataFrame], tuple[int, Any]], atomic: bool) -> None:
        self._consume, self._atomic = consume, atomic
        self._turn = threading.Lock()
        self.is_over = False

    def store(self, frame: DataFrame, begin: Callable[[], None]) -> tuple[int, Any]:
        """Store the rows of a frame. `begin`: called when it is this attempt's turn; may raise an exception instead.

        Raises:
            StoppedError: another attempt has stored the rows, or may have.
        """
        with self._turn:
            if self.is_over:
                raise StoppedError("another attempt has stored the rows, or may have")
            begin()
            self.is_over = True
            try:
                return self._consume(frame)
            except Exception as problem:
                self.is_over = not (self._atomic and is_of_a_row(problem))
                raise


def is_of_a_row(problem: BaseException) -> bool:
    """Whether a statement failed since computing a row failed, or writing it: for certain before any was committed."""
    return any(
        cause.is_of_a_row or WRITE_FAILED in cause.message or LOST_PART in cause.message for cause in causes_of(problem)
    )
