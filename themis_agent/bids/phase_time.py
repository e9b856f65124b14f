"""How long a phase of a search takes with GPUs that are spread in a given way (equation 3.2 of Themis: T_sh(i)).

How jobs share GPUs:

1. All jobs of a phase run at once, each with at least its smallest gang, if that is possible; the phase ends with the
   job that ends last, and GPUs are divided in whole ones so that this is as early as possible.
2. Otherwise as many as possible run at once, in lanes of equal width, and the others wait for their turn: longest job
   first, each in the lane where it ends first.
3. Every job stays within one slot, or every job within one machine, or one rack, or none does: whichever is fastest.
   So no job spans more than it must, and GPUs stay idle where spanning would be slower.
"""

from collections.abc import Sequence
from functools import lru_cache

from themis_agent.bids.spread import ANYWHERE, Bins, Spread
from yarn_plugin.model.gpus import Job, Slowdown

LEVELS = range(ANYWHERE + 1)


def slowdown_factor(job: Job, level: int) -> float:
    """By what factor an iteration takes longer for a job whose GPUs lie together in a cell of this level."""
    return (1.0, job.slowdown.slot, job.slowdown.machine, job.slowdown.rack)[level]


def gangs(job: Job, max_gpus: int, level: int) -> list[tuple[int, float]]:
    """The gangs of a job, ascending: (GPUs, part of the time on one GPU); without those no faster than a smaller one.

    Speed-up is perfect but for the slowdown (thesis, section 3.4.3.1). `max_gpus`: a cap, at least the smallest gang.
    """
    found: list[tuple[int, float]] = []
    for size in range(job.min_gpus, max(max_gpus, job.min_gpus) + 1, job.step_gpus):
        part = 1.0 if size == 1 else slowdown_factor(job, level) / size
        if not found or part < found[-1][1]:
            found.append((size, part))
    return found


@lru_cache(maxsize=4096)
def _useful_levels(slowdowns: frozenset[Slowdown]) -> tuple[tuple[int, ...], bool]:
    """The levels that matter to jobs with these slowdowns, and whether a larger level is never faster."""
    factors = [(1.0, one.slot, one.machine, one.rack) for one in slowdowns]
    useful = [level for level in LEVELS if level == ANYWHERE or any(one[level] != one[level + 1] for one in factors)]
    return tuple(useful), all(list(one) == sorted(one) for one in factors)


class ByLevel:
    """Durations of phases: each the best of all levels, computed once for the same cells.

    A level is left out where another one is at least as good for every job: the next larger one with the same factor,
    or the next smaller one with the same cells.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._useful, self._rising = _useful_levels(frozenset([job.slowdown for job in jobs]))
        self._known: dict[tuple[int, Bins], tuple[float, ...]] = {}
        self._least: dict[tuple[int, int], tuple[float, ...]] = {}

    def seconds(self, spread: Spread) -> float:
        """Seconds that the phases take one after the other; infinite if a job cannot run."""
        of_levels: list[tuple[float, ...]] = []
        before, all_bins = None, spread.bins
        for level in self._useful:
            bins = all_bins[level]
            if bins != before or not self._rising:
                key = level, bins
                known = self._known.get(key)
                if known is None:
                    known = self._known[key] = self.within(level, bins)
                of_levels.append(known)
            before = bins
        return sum(of_levels[0]) if len(of_levels) == 1 else sum(map(min, *of_levels))

    def least_s(self, largest: Sequence[int]) -> float:
        """The phases end no earlier with any GPUs whose cells of each level have at most so many."""
        found: list[tuple[float, ...]] = []
        for level in self._useful:
            key = level, largest[level]
            if key not in self._least:
                self._least[key] = self.least_within(*key)
            found.append(self._least[key])
        return sum(found[0]) if len(found) == 1 else sum(map(min, *found))

    def within(self, level: int, bins: Bins) -> tuple[float, ...]:
        """Seconds of each phase if every job's GPUs lie together in one of these cells."""
        raise NotImplementedError("a kind of phases must define it")

    def least_within(self, level: int, gpus: int) -> tuple[float, ...]:
        """The same in the best case, if there are as many cells as jobs, each with at most so many GPUs."""
        raise NotImplementedError("a kind of phases must define it")
