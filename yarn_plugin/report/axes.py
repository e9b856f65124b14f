"""Axes of values that are not time: linear, logarithmic, or a few choices."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from yarn_plugin.report.figure import labels, ticks

Value = bool | int | float | str

MAX_CHOICES = 12
"""Choices with a label of their own."""


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`; or, if there are any, over `choices`, at even distances."""

    label: str
    low: float = 0.0
    high: float = 1.0
    is_log: bool = False
    choices: tuple[str, ...] = ()

    def share(self, value: Value) -> float:
        """Where a value is, from 0 to 1."""
        if self.choices:
            return (self.choices.index(str(value)) + 0.5) / len(self.choices)
        number = min(max(float(value), self.low), self.high)
        if self.high <= self.low:
            return 0.5
        if self.is_log:
            return math.log(number / self.low) / math.log(self.high / self.low)
        return (number - self.low) / (self.high - self.low)

    def marks(self, most: int) -> list[tuple[float, str]]:
        """(where, label) of about so many values."""
        if self.choices:
            every = -(-len(self.choices) // min(most + 2, MAX_CHOICES))
            return [(self.share(one), one) for one in self.choices[::every]]
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(-(-(last - first + 1) // most), 1)
            found = [10.0**power for power in range(first, last + 1, every)] or [self.low, self.high]
            return [(self.share(one), f"{one:g}") for one in found]
        found = ticks(self.low, self.high, most)
        return [(self.share(one), name) for one, name in zip(found, labels(found), strict=True)]


def axis_of(label: str, values: Iterable[float]) -> Axis:
    """An axis with room for these values; logarithmic if they are positive and differ much."""
    known = sorted(values)
    low, high = known[0], known[-1]
    if low == high:
        return Axis(label, low - 0.5, high + 0.5)
    if low > 0 and high / low >= 100:
        return Axis(label, low, high, is_log=True)
    room = 0.04 * (high - low)
    return Axis(label, low - room, high + room)
