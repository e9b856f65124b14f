"""Numbers, durations, sizes and counts as text for a person. Pure."""

import math

NOTHING = "–"
"""Stands for a number that there is not."""


def number(value: float | None, digits: int | None = None) -> str:
    """A number with a separator for thousands, and `digits` decimals; left out: as many as three digits need."""
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
    """A number of bytes, with its unit."""
    if value is None:
        return NOTHING
    units = ("B", "kB", "MB", "GB", "TB")
    power = min(int(math.log10(value) / 3), len(units) - 1) if value >= 1 else 0
    return f"{number(value / 1000**power)} {units[power]}"


def count(value: float, one: str, many: str | None = None) -> str:
    """A count with its noun: "1 switch", "2 switches"; `many` is the plural where it is not `one` with an s."""
    return f"{number(value)} {plural(value, one, many)}"


def plural(value: float, one: str, many: str | None = None) -> str:
    """The noun alone, in the number that `value` asks for."""
    return one if value == 1 else many or f"{one}s"
