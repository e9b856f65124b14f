"""Means over time of amounts that change."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from math import fsum, sqrt


class Contention:
    """A sum of amounts, each of which counts during an interval, as a step function of time."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]], shape: Callable[[float], float]) -> None:
        changes: dict[float, float] = {}
        for start, end, amount in intervals:
            changes[start] = changes.get(start, 0.0) + amount
            changes[end] = changes.get(end, 0.0) - amount
        self._times = sorted(changes)
        self._levels, self._areas = list[float](), [0.0]
        level = 0.0
        for place, at in enumerate(self._times):
            level += changes[at]
            self._levels.append(shape(level))
            if place + 1 < len(self._times):
                self._areas.append(self._areas[-1] + self._levels[-1] * (self._times[place + 1] - at))

    def mean(self, start: float, end: float) -> float:
        """Its average over an interval within the times that it knows."""
        return (self._area(end) - self._area(start)) / (end - start)

    def _area(self, at: float) -> float:
        place = bisect_right(self._times, at) - 1
        return self._areas[place] + self._levels[place] * (at - self._times[place])


class Spread:
    """How differently tenants progress: the standard deviation over tenants of the sum of the values of their running
    jobs, as its mean over time (after AlloX, section 5.1)."""

    def __init__(self, tenants: Collection[str]) -> None:
        self._now = dict.fromkeys(sorted(tenants), 0.0)
        self._since: float | None = None
        self._began, self._sum = 0.0, 0.0

    def add(self, at: float, tenant: str, value: float) -> None:
        """A job of a tenant runs from now on; or no longer, with a negative value."""
        if self._since is None:
            self._since = self._began = at
        elif at > self._since:
            self._sum += self._deviation() * (at - self._since)
            self._since = at
        self._now[tenant] += value

    def mean(self, at: float) -> float:
        """Until now."""
        if self._since is None or at <= self._began:
            return 0.0
        return (self._sum + self._deviation() * (at - self._since)) / (at - self._began)

    def _deviation(self) -> float:
        # `statistics.pstdev` is exact, and takes a hundred times as long.
        values = self._now.values()
        mean = fsum(values) / len(values)
        return sqrt(fsum((value - mean) ** 2 for value in values) / len(values))
