"""Means over paired seeds, with intervals by Student's t."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5% quantiles of Student's t for 1 to 10 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the 95% interval of it; None with a single seed."""

    mean: float
    low: float | None
    high: float | None


def t_quantile(freedom: int) -> float:
    """The 97.5% quantile of Student's t; beyond the table to within 0.5%."""
    return _T_95[freedom - 1] if freedom <= len(_T_95) else 1.96 + 2.5 / freedom


def interval(values: Sequence[float]) -> Interval:
    """Of at least one value per seed: differences or ratios within a seed are paired already."""
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)
