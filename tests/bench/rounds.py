"""How many rounds a comparison of two engines needs: until the ratio of their times is known closely enough."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t

CONFIDENCE = 0.95
HALF_WIDTH = 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """The ratio of two engines' times: the geometric mean of the rounds' ratios, and its confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """By what fraction the ratio may be larger."""
        return self.high / self.mean - 1

    @property
    def is_resolved(self) -> bool:
        return self.half_width <= HALF_WIDTH


def interval(ratios: Sequence[float]) -> Interval:
    """The interval of a ratio, by Student's t on the logarithms; unbounded after less than two rounds."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(mean), 0.0, math.inf)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@dataclass(frozen=True, slots=True)
class Rounds:
    """When to stop: after `most` rounds at the latest, or when they took `max_seconds`; but not before `fewest`.

    Rounds shorter than `min_seconds` count as parts of one: queries that take a fraction of a second vary most.
    """

    fewest: int
    most: int
    min_seconds: float = 0.0
    max_seconds: float = math.inf

    def are_enough(self, ratios: Sequence[float], seconds: float) -> bool:
        """Whether no further round is needed, or allowed, after rounds that took so many seconds."""
        if len(ratios) < self.fewest:
            return False
        if seconds >= self.max_seconds or (len(ratios) >= self.most and seconds >= self.most * self.min_seconds):
            return True
        return interval(ratios).is_resolved
