"""The time of a journal: its own, so that whatever is done to the machine's clock, no timer is early or late."""

import time
from collections.abc import Callable
from typing import Protocol

MAX_DOWNTIME = 3600.0
"""Seconds by which time goes on, at most, while nobody writes the journal."""


class Clock(Protocol):
    """Gives the time of a journal."""

    def resume(self, at: float, wall: float) -> None:
        """Go on from the last record: its time in the journal, and on the wall."""
        ...

    def now(self) -> float:
        """The journal's time, in seconds."""
        ...

    def wall(self) -> float:
        """The time on the wall, seconds since the epoch: to be shown, never to be decided by."""
        ...


class JournalClock:
    """Time that begins as the machine's, is advanced by the monotonic clock, and continues over restarts.

    While the process was down, time went on by what the machine's clock says, within 0 and an hour: a clock that was
    set in between is not believed further.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._began_at, self._began = wall(), monotonic()

    def resume(self, at: float, wall: float) -> None:
        """Go on from the last record: its time in the journal, and on the wall."""
        downtime = min(max(self._wall() - wall, 0.0), MAX_DOWNTIME)
        self._began_at, self._began = at + downtime, self._monotonic()

    def now(self) -> float:
        """The journal's time, in seconds."""
        return self._began_at + self._monotonic() - self._began

    def wall(self) -> float:
        """The time on the wall, seconds since the epoch."""
        return self._wall()
