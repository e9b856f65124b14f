"""Figures as people read them, and axes with round numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

NOTHING = "–"


def number(value: float | None, digits: int | None = None) -> str:
    """A figure with thousands apart; with as many decimals as asked for, else as three digits need."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if digits is None:
        size = abs(value)
        digits = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}".replace("-", "−")


def seconds(value: float | None) -> str:
    """A duration in seconds, with its unit."""
    return NOTHING if value is None else f"{number(value)} s"


def size(value: float | None) -> str:
    """An amount of bytes, with its unit."""
    if value is None:
        return NOTHING
    units = ("B", "kB", "MB", "GB", "TB")
    power = min(int(math.log10(value) / 3), len(units) - 1) if value >= 1 else 0
    return f"{number(value / 1000**power)} {units[power]}"


def count(value: int, one: str, many: str | None = None) -> str:
    """A count with its noun: "1 switch", "2 switches"."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most` of them, apart as people count."""
    if not high > low:
        return [low]
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = (1, 2, 2.5, 5, 10) if power >= 10 else (1, 2, 5, 10)
    step = next(step * power for step in steps if step * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def labels(marks: Sequence[float], factor: float = 1.0) -> list[str]:
    """The figures of an axis, all with as many decimals as the finest needs."""
    shown = [round(factor * mark, 9) for mark in marks]
    digits = max((len(f"{value:.9f}".rstrip("0").partition(".")[2]) for value in shown), default=0)
    return [number(value, digits) for value in shown]


def ceiling(value: float, most: int) -> float:
    """The smallest round number that an axis of about `most` ticks can end with and hold `value`."""
    if not value > 0:
        return 1.0
    step = ticks(0.0, value, most)
    apart = step[1] - step[0] if len(step) > 1 else value
    return math.ceil(value / apart - 1e-9) * apart


@dataclass(frozen=True, slots=True)
class Scale:
    """From figures to places on a drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a figure; figures beyond the ends are put there."""
        if self.high <= self.low:
            return self.start
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)
