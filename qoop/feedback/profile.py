"""A share that follows a file instead of an arbiter."""

import csv
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qoop.errors import QoopError
from qoop.replan.events import Event, ShareChanged
from yarn_plugin.errors import os_reason

MAX_WAIT_S = 3600.0
"""Seconds of one wait; Python refuses very long ones."""


class ProfileError(QoopError):
    """The profile file cannot be used."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class SharePoint:
    """From `at` seconds after the start of the query its share is `slots`."""

    at: float
    slots: float


def read_profile(path: Path) -> list[SharePoint]:
    """Read a profile: CSV lines `seconds,slots`, times ascending, the first at 0.

    Raises:
        ProfileError: the file is missing or malformed; names the line.
    """
    try:
        rows = list(csv.reader(path.read_text().splitlines()))
    except OSError as problem:
        raise ProfileError(f"--profile {str(path)!r}: {os_reason(problem)}") from None
    except UnicodeDecodeError:
        raise ProfileError(f"--profile {str(path)!r}: not valid UTF-8") from None
    points: list[SharePoint] = []
    for number, row in enumerate(rows, 1):
        if not row or row[0].startswith("#") or (number == 1 and row[0].strip() == "seconds"):
            continue
        points.append(_point(path, number, row))
        if len(points) > 1 and points[-1].at <= points[-2].at:
            raise ProfileError(
                f"--profile {str(path)!r}, line {number}: time {row[0]!r}: must be later than the line before"
            )
    if not points or points[0].at != 0:
        raise ProfileError(f"--profile {str(path)!r}: the first line must set the slots at 0 seconds, such as 0,4")
    return points


def _point(path: Path, number: int, row: list[str]) -> SharePoint:
    try:
        at, slots = (_finite(cell) for cell in row)
    except ValueError:
        raise ProfileError(
            f"--profile {str(path)!r}, line {number}: {','.join(row)!r}: must be SECONDS,SLOTS, such as 30,2"
        ) from None
    if slots <= 0:
        raise ProfileError(f"--profile {str(path)!r}, line {number}: slots {row[1]!r}: must be above 0")
    return SharePoint(at, slots)


def _finite(cell: str) -> float:
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(cell)
    return number


class ProfileFeed:
    """Emits the shares of a profile at their times, counted from `start()`."""

    def __init__(self, points: list[SharePoint]) -> None:
        self._points = points
        self._stop = threading.Event()

    @property
    def first(self) -> float:
        """The slots of the first share."""
        return self._points[0].slots

    def start(self, emit: Callable[[Event], None]) -> None:
        """Emit the first share now and the others when they are due."""
        now = time.time()
        emit(_share(self._points[0], now, f"the first share is {_slots(self._points[0])}"))
        if len(self._points) > 1:
            threading.Thread(target=self._run, args=(emit, time.monotonic()), name="profile", daemon=True).start()

    def close(self) -> None:
        """Emit no more shares."""
        self._stop.set()

    def _run(self, emit: Callable[[Event], None], started: float) -> None:
        for point in self._points[1:]:
            if self._closed_before(started + point.at):
                return
            emit(_share(point, time.time(), f"the profile sets {_slots(point)} from {point.at:g} s on"))

    def _closed_before(self, due: float) -> bool:
        """Wait until a time of the monotonic clock, however far away; True if the feed was closed meanwhile."""
        while (left := due - time.monotonic()) > 0:
            if self._stop.wait(min(left, MAX_WAIT_S)):
                return True
        return self._stop.is_set()


def _slots(point: SharePoint) -> str:
    return f"{point.slots:g} slot{'' if point.slots == 1 else 's'}"


def _share(point: SharePoint, now: float, reason: str) -> ShareChanged:
    return ShareChanged(slots=point.slots, executors=None, reason=reason, effective_at=now, why=("profile",))


def fixed_share(slots: float) -> ProfileFeed:
    """A share that never changes."""
    return ProfileFeed([SharePoint(0.0, slots)])
