"""The journal's own time, which changes of the machine's clock do not affect."""

import time
from collections.abc import Callable
from typing import Protocol

MAX_DOWNTIME = 3600.0
"""Seconds: the maximum by which the journal's time advances between two processes."""


class Clock(Protocol):
    """Gives the time of a journal."""

    def resume(self, at: float, wall: float) -> None:
        """Continue from the last record's journal time and wall time."""
        ...

    def now(self) -> float:
        """The journal's time, in seconds."""
        ...

    def wall(self) -> float:
        """Wall time, seconds since the epoch: for display, never for decisions."""
        ...


class JournalClock:
    """Time that starts as the machine's, advances by the monotonic clock, and continues across restarts.

    Downtime is measured by the machine's clock, limited to 0 to MAX_DOWNTIME in case that clock was set meanwhile.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._started_at, self._started = wall(), monotonic()

    def resume(self, at: float, wall: float) -> None:
        """Continue from the last record's journal time and wall time."""
        downtime = min(max(self._wall() - wall, 0.0), MAX_DOWNTIME)
        self._started_at, self._started = at + downtime, self._monotonic()

    def now(self) -> float:
        """The journal's time, in seconds."""
        return self._started_at + self._monotonic() - self._started

    def wall(self) -> float:
        """Wall time, seconds since the epoch."""
        return self._wall()
