"""Weighted max-min of dominant shares over several resources, by progressive filling."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filler:
    """A consumer of the resources.

    `weight` > 0: the speed at which its level rises. `shape[r]`: its use of resource r per unit of its dominant share;
    the largest entry is 1. `limit`: its maximum dominant share.
    """

    weight: float
    shape: tuple[float, ...]
    limit: float


def fill(fillers: Sequence[Filler], resources: int) -> list[float]:
    """The dominant share of each filler: levels rise together, by weight, until a limit or an exhausted resource.

    Each resource has capacity 1. The result is max-min fair: no share can rise without lowering one that is not larger
    by weight (QOOP section 2.3.2, Pseudocode 1; the filling itself is that of DRF, Ghodsi et al., NSDI 2011, section
    4.2). O(n log n + n r): fillers reach their limits in sorted order, and each resource is exhausted once.
    """
    shares = [0.0] * len(fillers)
    limits = [filler.limit / filler.weight for filler in fillers]
    rising = sorted(range(len(fillers)), key=limits.__getitem__)
    first = 0
    left = [1.0] * resources
    level = 0.0
    speeds = [[filler.weight * part for part in filler.shape] for filler in fillers]
    speed = [sum([speeds[i][r] for i in rising]) for r in range(resources)]
    while first < len(rising):
        to_limit = limits[rising[first]] - level
        to_full = min((left[r] / speed[r] for r in range(resources) if speed[r] > EPSILON), default=to_limit)
        rise = max(min(to_limit, to_full), 0.0)
        level += rise
        left = [max(left[r] - rise * speed[r], 0.0) for r in range(resources)]
        full = [r for r in range(resources) if speed[r] > EPSILON and left[r] <= EPSILON]
        at_limit = first
        while at_limit < len(rising) and limits[rising[at_limit]] - level <= EPSILON:
            at_limit += 1
        stopped = rising[first:at_limit]
        if full:
            rising, stopped = _split(fillers, rising[at_limit:], full, stopped)
            first = 0
        else:
            first = at_limit
        if not stopped:
            stopped = [rising[first]]
            first += 1
        for i in stopped:
            shares[i] = min(fillers[i].limit, level * fillers[i].weight)
            for r, of_filler in enumerate(speeds[i]):
                speed[r] -= of_filler
    return shares


EPSILON = 1e-12
"""Less than this, in parts of the capacity, is nothing."""


def _split(
    fillers: Sequence[Filler], rising: Sequence[int], full: Sequence[int], stopped: list[int]
) -> tuple[list[int], list[int]]:
    """Those that keep rising although these resources are exhausted, and all that stop now."""
    rising_on: list[int] = []
    for i in rising:
        (stopped if any(fillers[i].shape[r] > 0 for r in full) else rising_on).append(i)
    return rising_on, stopped
