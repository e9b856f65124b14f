"""Weighted max-min of dominant shares over several resources, by progressive filling."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filler:
    """One that draws on the resources.

    `weight` > 0: how fast its level rises. `shape[r]`: the fraction of resource r it takes per unit of its dominant
    share, so the largest entry is 1. `limit`: the dominant share at which it wants no more.
    """

    weight: float
    shape: tuple[float, ...]
    limit: float


def fill(fillers: Sequence[Filler], resources: int) -> list[float]:
    """The dominant share of each filler: levels rise together, by weight, until a limit or a full resource stops them.

    Each resource has capacity 1. The result is max-min fair: no share can rise without lowering one that is not
    larger by weight (002, Pseudocode 1; the filling itself is that of DRF, Ghodsi et al., NSDI 2011, section 4.2).
    O(n log n + k n r) for k distinct levels at which something stops.
    """
    shares = [0.0] * len(fillers)
    rising = sorted(range(len(fillers)), key=lambda i: fillers[i].limit / fillers[i].weight)
    left = [1.0] * resources
    level = 0.0
    speed = [sum(fillers[i].weight * fillers[i].shape[r] for i in rising) for r in range(resources)]
    while rising:
        first = fillers[rising[0]]
        to_limit = first.limit / first.weight - level
        to_full = min((left[r] / speed[r] for r in range(resources) if speed[r] > _NOTHING), default=to_limit)
        rise = max(min(to_limit, to_full), 0.0)
        level += rise
        left = [max(left[r] - rise * speed[r], 0.0) for r in range(resources)]
        full = {r for r in range(resources) if speed[r] > _NOTHING and left[r] <= _NOTHING}
        stopped = [i for i in rising if _stops(fillers[i], level, full)] or [rising[0]]
        for i in stopped:
            shares[i] = min(fillers[i].limit, level * fillers[i].weight)
            for r in range(resources):
                speed[r] -= fillers[i].weight * fillers[i].shape[r]
        gone = set(stopped)
        rising = [i for i in rising if i not in gone]
    return shares


_NOTHING = 1e-12


def _stops(filler: Filler, level: float, full: set[int]) -> bool:
    at_limit = filler.limit / filler.weight - level <= _NOTHING
    return at_limit or any(filler.shape[r] > 0 for r in full)
