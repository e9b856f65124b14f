"""Max-min of dominant shares between groups, weighted max-min within each, by progressive filling."""

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from yarn_plugin.decide.mechanisms.water_filling import EPSILON, Filler


def fill_groups(groups: Sequence[Sequence[Filler]], resources: int) -> list[list[float]]:
    """The dominant share of each filler of each group. Each resource has capacity 1.

    The totals of all groups rise together, a total being the sum of the dominant shares of a group's fillers; within a
    group, levels rise together by weight. A filler stops at its limit or when a resource that it uses is exhausted; the
    rest of its group goes on in its place, so that nothing is left over that someone can use. How many fillers a group
    has does not matter to the others. O(n log n + n r).
    """
    filling = [_Group(group, resources) for group in groups]
    due = _due(filling)
    left, reached = [1.0] * resources, 0.0
    speed = _speed(filling, resources)
    while due:
        at, number = due[0]
        to_full = min((left[r] / speed[r] for r in range(resources) if speed[r] > EPSILON), default=math.inf)
        rise = max(min(at - reached, to_full), 0.0)
        reached += rise
        left = [max(left[r] - rise * speed[r], 0.0) for r in range(resources)]
        full = [r for r in range(resources) if speed[r] > EPSILON and left[r] <= EPSILON]
        if full:
            for group in filling:
                group.stop_users_of(full, reached)
            due, speed = _due(filling), _speed(filling, resources)
        else:
            heappop(due)
            group = filling[number]
            before = group.speed
            group.stop_next(reached)
            speed = [speed[r] - before[r] + group.speed[r] for r in range(resources)]
            if group.rising:
                heappush(due, (group.due_at, number))
    return [group.shares for group in filling]


def _due(groups: Sequence["_Group"]) -> list[tuple[float, int]]:
    """A heap of the rising groups by when one of their fillers reaches its limit."""
    due = [(group.due_at, number) for number, group in enumerate(groups) if group.rising]
    heapify(due)
    return due


def _speed(groups: Sequence["_Group"], resources: int) -> list[float]:
    """How fast each resource is used up."""
    return [sum(group.speed[r] for group in groups) for r in range(resources)]


class _Group:
    """`shares`: of its fillers, once they have stopped. `rising`: the others, who reaches its limit first comes last.
    `speed`: how much it uses of each resource per unit of its total."""

    def __init__(self, fillers: Sequence[Filler], resources: int) -> None:
        self.shares = [0.0] * len(fillers)
        self._fillers = fillers
        self._limits = [filler.limit / filler.weight for filler in fillers]
        self.rising = sorted(range(len(fillers)), key=self._limits.__getitem__, reverse=True)
        self._level, self._total = 0.0, 0.0
        self._weight = sum(filler.weight for filler in fillers)
        self._use = [sum(filler.weight * filler.shape[r] for filler in fillers) for r in range(resources)]

    @property
    def speed(self) -> list[float]:
        return [use / self._weight for use in self._use] if self.rising else [0.0] * len(self._use)

    @property
    def due_at(self) -> float:
        """The total at which its next filler reaches its limit."""
        return self._total + (self._limits[self.rising[-1]] - self._level) * self._weight

    def stop_next(self, total: float) -> None:
        """At this total of the rising groups, stop the next filler, and all that reach their limits with it."""
        self._rise_to(total)
        first = len(self.rising) - 1
        while first and self._limits[self.rising[first - 1]] - self._level <= EPSILON:
            first -= 1
        self._stop(self.rising[first:], self.rising[:first])

    def stop_users_of(self, full: Sequence[int], total: float) -> None:
        """At this total, stop the fillers that use one of these resources."""
        if self.rising:
            self._rise_to(total)
            stopped = [i for i in self.rising if any(self._fillers[i].shape[r] > 0 for r in full)]
            self._stop(stopped, [i for i in self.rising if all(self._fillers[i].shape[r] == 0 for r in full)])

    def _rise_to(self, total: float) -> None:
        self._level += (total - self._total) / self._weight
        self._total = total

    def _stop(self, stopped: Sequence[int], rising: list[int]) -> None:
        for i in stopped:
            filler = self._fillers[i]
            self.shares[i] = min(filler.limit, self._level * filler.weight)
            self._weight -= filler.weight
            self._use = [use - filler.weight * part for use, part in zip(self._use, filler.shape, strict=True)]
        self.rising = rising
