"""The time of an iteration, from what lines say and when they come."""

import re
import statistics
from collections import deque

from themis_agent.trial.reading.numbering import is_step

_PER_STEP = re.compile(r"(?<![\d.])(\d{1,9}(?:\.\d{0,9})?)\s?(us|ms|s)/(?:step|it|iter)\b")
_PER_SECOND = re.compile(
    r"(?<![\d.])(\d{1,9}(?:\.\d{0,9})?)\s?(?:it/s|steps?/s(?:ec)?)\b|\bglobal_step/sec: ([\d.]{1,20})"
)
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_MAX_ITERATION_S = 1e9


def iteration_s(line: str) -> float | None:
    """Seconds of an iteration, as a line says; None: it does not."""
    if "/" not in line:
        return None
    if match := _PER_STEP.search(line):
        return _positive(match[1], _UNITS[match[2]])
    if match := _PER_SECOND.search(line):
        per_second = _positive(match[1] or match[2], 1.0)
        return 1 / per_second if per_second else None
    return None


def _positive(text: str, unit: float) -> float | None:
    try:
        value = float(text) * unit
    except ValueError:
        return None
    return value if value > 0 else None


class IterationTimes:
    """The time of an iteration: the median over the latest steps. The first interval, with compilation, does not
    count.
    """

    def __init__(self, window: int = 50) -> None:
        self._latest: deque[float] = deque(maxlen=window)
        self._before: tuple[int, float] | None = None
        self._first = True

    def step(self, step: int, at: float) -> None:
        """A step was executed at this time. One that is out of range is ignored."""
        if not is_step(step):
            return
        if self._before is None or step <= self._before[0]:
            self._before = (step, at)
            return
        seconds = (at - self._before[1]) / (step - self._before[0])
        self._before = (step, at)
        if self._first:
            self._first = False
        else:
            self.measured(seconds)

    def measured(self, iteration_s: float) -> None:
        """An iteration took this many seconds; ignored if that is impossible."""
        if 0 < iteration_s < _MAX_ITERATION_S:
            self._latest.append(iteration_s)

    @property
    def iteration_s(self) -> float | None:
        """Seconds; None before there are three measurements."""
        return statistics.median(self._latest) if len(self._latest) >= 3 else None
