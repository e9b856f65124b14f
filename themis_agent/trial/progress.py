"""Steps, losses and iteration times in the log of a training script: Keras, TensorFlow, PyTorch, Lightning. Pure."""

import re
import statistics
from collections import deque
from dataclasses import dataclass

from themis_agent.trial.wire import MAX_STEPS

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
_LOSS = re.compile(
    rf"(?:^|[\s,{{'\"(\[:])(?:train_)?loss(?:_step)?['\"]?\s*[:=]?\s*({_NUMBER})(?![\w.])", re.IGNORECASE
)
_STEP = re.compile(r"\b(?:global_?)?(?:step|iter|iteration)\b\s*[:=]?\s*\[?\s*(\d+)", re.IGNORECASE)
_KERAS_EPOCH = re.compile(r"^Epoch (\d+)/\d+$")
_KERAS = re.compile(r"^\s*(\d+)/(\d+)\s")
_BAR = re.compile(r"^Epoch (\d+):.*?\b(\d+)/(\d+) \[")
_EXAMPLES = re.compile(r"^(?:Train )?Epoch: ?\[?(\d+)\]? ?\[ *(\d+)/(\d+)")
_PER_STEP = re.compile(r"([\d.]+)\s?(us|ms|s)/(?:step|it|iter)\b")
_PER_SECOND = re.compile(r"([\d.]+)\s?(?:it/s|steps?/s(?:ec)?)\b|\bglobal_step/sec: ([\d.]+)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_MAX_ITERATION_S = 1e9


@dataclass(frozen=True, slots=True)
class Progress:
    """What a log line tells. `step` counts from the script's start; a loss may be NaN or infinite."""

    step: int | None = None
    loss: float | None = None
    iteration_s: float | None = None


class LogReader:
    """Reads one script's log, line by line. Lines with a step out of range tell nothing.

    `pattern`: read this instead of the known formats; its named groups are `step`, `loss`, `iteration_s`.
    """

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self._pattern = pattern
        self._keras_epoch = 1

    def read(self, line: str) -> Progress | None:
        """What this line tells; None: nothing."""
        found = self._by_pattern(line, self._pattern) if self._pattern is not None else self._by_format(line)
        return None if found is None or not (found.step is None or is_step(found.step)) else found

    def _by_format(self, line: str) -> Progress | None:
        if epoch := _KERAS_EPOCH.match(line):
            self._keras_epoch = int(epoch[1])
            return None
        found = Progress(self._step(line), _loss(line), _iteration_s(line))
        return None if found == Progress() else found

    def _step(self, line: str) -> int | None:
        if count := _KERAS.match(line):
            return (self._keras_epoch - 1) * int(count[2]) + int(count[1])
        if count := _BAR.match(line) or _EXAMPLES.match(line):
            return int(count[1]) * int(count[3]) + int(count[2])
        step = _STEP.search(line)
        return int(step[1]) if step else None

    def _by_pattern(self, line: str, pattern: re.Pattern[str]) -> Progress | None:
        match = pattern.search(line)
        if match is None:
            return None
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        try:
            step = int(float(groups["step"])) if "step" in groups else None
            loss, seconds = (float(groups[name]) if name in groups else None for name in ("loss", "iteration_s"))
        except (ValueError, OverflowError):
            return None
        return Progress(step, loss, seconds)


def is_step(step: int) -> bool:
    """Whether a trial can have such a step."""
    return 0 <= step < MAX_STEPS


def _loss(line: str) -> float | None:
    match = _LOSS.search(line)
    return float(match[1]) if match else None


def _iteration_s(line: str) -> float | None:
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
        """An iteration took so many seconds; ignored if that cannot be."""
        if 0 < iteration_s < _MAX_ITERATION_S:
            self._latest.append(iteration_s)

    @property
    def iteration_s(self) -> float | None:
        """Seconds; None before there are three measurements."""
        return statistics.median(self._latest) if len(self._latest) >= 3 else None
