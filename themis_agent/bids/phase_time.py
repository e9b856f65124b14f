"""How long a phase of a search takes with GPUs that are spread in a given way (equation 3.2 of Themis: T_sh(i)).

How jobs share GPUs:

1. All jobs of a phase run at once, each with at least its smallest gang, if that is possible; the phase ends with the
   job that ends last, and GPUs are divided in whole ones so that this is as early as possible.
2. Otherwise as many as possible run at once, in lanes of equal width, and the others wait for their turn: longest job
   first, each in the lane where it ends first.
3. Every job stays within one slot, or every job within one machine, or one rack, or none does: whichever is fastest.
   So no job spans more than it must, and GPUs stay idle where spanning would be slower.
"""

import heapq
import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from themis_agent.bids.packing import fits, seats
from themis_agent.bids.spread import ANYWHERE, Bins, Spread
from yarn_plugin.model.gpus import Job

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVELS = range(ANYWHERE + 1)


class PhaseTime(Protocol):
    """The duration of a phase for any spread of GPUs."""

    def seconds(self, spread: Spread) -> float:
        """Seconds until its last job ends; infinite if a job cannot run."""
        ...


def slowdown_factor(job: Job, level: int) -> float:
    """By what factor an iteration takes longer for a job whose GPUs lie together in a cell of this level."""
    return (1.0, job.slowdown.slot, job.slowdown.machine, job.slowdown.rack)[level]


def gang_sizes(job: Job, max_gpus: int) -> range:
    """The numbers of GPUs that it can use, up to a cap that is at least its smallest gang."""
    return range(job.min_gpus, max(max_gpus, job.min_gpus) + 1, job.step_gpus)


def seconds_with(job: Job, seconds: float, size: int, level: int) -> float:
    """How long it takes on so many GPUs: perfect speed-up, but for the slowdown (thesis, section 3.4.3.1)."""
    return seconds if size == 1 else seconds * slowdown_factor(job, level) / size


class _ByLevel:
    """The best of all levels, each computed once for the same cells.

    `factors`: of each job at each level. A level is left out where another one is at least as good for every job: the
    next larger one with the same factor, or the next smaller one with the same cells.
    """

    def __init__(self, factors: Sequence[Sequence[float]]) -> None:
        self._useful = [
            level for level in LEVELS if level == ANYWHERE or any(one[level] != one[level + 1] for one in factors)
        ]
        self._rising = all(list(one) == sorted(one) for one in factors)
        self._known: dict[tuple[int, Bins], float] = {}

    def seconds(self, spread: Spread) -> float:
        """Seconds until the last job ends; infinite if a job cannot run."""
        best, before = math.inf, None
        for level in self._useful:
            bins = spread.bins[level]
            if bins == before and self._rising:
                continue
            before = bins
            key = level, bins
            if key not in self._known:
                self._known[key] = self._within(level, bins)
            best = min(best, self._known[key])
        return best

    def _within(self, level: int, bins: Bins) -> float:
        """Seconds if every job's GPUs lie together in one of these cells."""
        raise NotImplementedError


class LikeJobs(_ByLevel):
    """A phase of equal jobs: `count` times `job`, each with `seconds_each` of work on one GPU, at most `max_gpus`."""

    def __init__(self, job: Job, count: int, seconds_each: float, max_gpus: int) -> None:
        super().__init__([[slowdown_factor(job, level) for level in LEVELS]])
        self._count = count
        self._smallest = job.min_gpus
        self._choices = [_improving(job, seconds_each, max_gpus, level) for level in LEVELS]

    def _within(self, level: int, bins: Bins) -> float:
        room = seats(bins, self._smallest)
        if room == 0:
            return math.inf
        rounds = -(-self._count // room)
        at_once = -(-self._count // rounds)
        most = sum([size * cells for size, cells in bins]) // at_once
        for size, seconds in reversed(self._choices[level]):
            if size <= most and seats(bins, size) >= at_once:
                return rounds * seconds
        return math.inf


class KnownJobs(_ByLevel):
    """A phase whose jobs are known: each with its iterations left, time of an iteration, gang and slowdown."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__([[slowdown_factor(job, level) for level in LEVELS] for job in jobs])
        self._jobs = sorted(jobs, key=lambda job: (-job.iterations_left * job.iteration_s, job.id))
        self._levels: dict[int, _Level] = {}

    def gangs(self, spread: Spread) -> tuple[int, dict[str, int]] | None:
        """How the jobs run to end in that time: within which level, and the GPUs of each job that runs at first.

        None: some job cannot run at all.
        """
        best = self.seconds(spread)
        if math.isinf(best):
            return None
        level = next(level for level in LEVELS if self._within(level, spread.bins[level]) <= best)
        return level, self._at(level).gangs(spread.bins[level])

    def _within(self, level: int, bins: Bins) -> float:
        return self._at(level).seconds(bins)

    def _at(self, level: int) -> "_Level":
        if level not in self._levels:
            self._levels[level] = _Level(self._jobs, level)
        return self._levels[level]


class _Level:
    """The same phase if every job's GPUs lie together in one cell of a level."""

    def __init__(self, jobs: Sequence[Job], level: int) -> None:
        self._names = [job.id for job in jobs]
        self.widest_minimum = max(job.min_gpus for job in jobs)
        self._choices = [_improving(job, job.iterations_left * job.iteration_s, job.max_gpus, level) for job in jobs]
        self._lanes: dict[tuple[int, int], float] = {}
        self._with_width: dict[int, list[float]] = {}

    def seconds(self, bins: Bins) -> float:
        """Seconds until the last job ends; infinite if a job cannot run."""
        if sum([size * cells for size, cells in bins]) < self.widest_minimum:
            return math.inf
        deadline = self._deadline(bins)
        return self._in_turns(bins) if deadline is None else deadline

    def gangs(self, bins: Bins) -> dict[str, int]:
        """The GPUs of each job that runs at first."""
        deadline = self._deadline(bins)
        if deadline is not None:
            columns = (self._table > deadline).sum(axis=1)
            return dict(zip(self._names, self._sizes[np.arange(len(columns)), columns].tolist(), strict=True))
        lanes, width = self._lanes_of(bins)
        first = list(zip(self._names, self._choices, strict=True))[:lanes]
        return {name: next(size for size, _ in reversed(choices) if size <= width) for name, choices in first}

    def _deadline(self, bins: Bins) -> float | None:
        """The earliest time by which all jobs can end if all run at once; None: they cannot."""
        gpus = sum([size * cells for size, cells in bins])
        times, needs = self._deadlines
        low = int(np.searchsorted(-needs, -gpus))
        if low == len(times) or not fits(bins, self._gangs(times[-1])):
            return None
        high = len(times) - 1
        while low < high:
            middle = (low + high) // 2
            if fits(bins, self._gangs(times[middle])):
                high = middle
            else:
                low = middle + 1
        return float(times[low])

    @cached_property
    def _deadlines(self) -> tuple[Floats, Ints]:
        """Every time at which the last job may end if all run at once, ascending, and how many GPUs that needs."""
        earliest = max(choices[-1][1] for choices in self._choices)
        times = np.unique([seconds for choices in self._choices for _, seconds in choices])
        times = times[times >= earliest]
        # Below the time of a choice, a job needs the next larger one.
        growth = sorted(
            (seconds, after - before)
            for choices in self._choices
            for (before, seconds), (after, _) in pairwise(choices)
        )
        ends = np.array([seconds for seconds, _ in growth])
        missing = np.concatenate([np.cumsum([gpus for _, gpus in reversed(growth)], dtype=np.int64)[::-1], [0]])
        smallest = sum(choices[0][0] for choices in self._choices)
        return times, smallest + missing[np.searchsorted(ends, times, side="right")]

    def _gangs(self, deadline: float) -> list[tuple[int, int]]:
        """The smallest gangs with which all jobs end by then: (size, how many), the largest first."""
        columns = (self._table > deadline).sum(axis=1)
        counts = np.bincount(self._sizes[np.arange(len(columns)), columns]).tolist()
        return [(size, counts[size]) for size in range(len(counts) - 1, 0, -1) if counts[size]]

    @cached_property
    def _table(self) -> Floats:
        """Seconds of each job with each of its choices; padded with 0."""
        table = np.zeros((len(self._choices), max(map(len, self._choices))))
        for row, choices in zip(table, self._choices, strict=True):
            row[: len(choices)] = [seconds for _, seconds in choices]
        return table

    @cached_property
    def _sizes(self) -> Ints:
        """The GPUs of each of these choices."""
        sizes = np.zeros(self._table.shape, dtype=np.int64)
        for row, choices in zip(sizes, self._choices, strict=True):
            row[: len(choices)] = [size for size, _ in choices]
        return sizes

    def _in_turns(self, bins: Bins) -> float:
        """Seconds if jobs wait for each other: lanes as wide as the largest of the smallest gangs, or wider."""
        lanes, width = self._lanes_of(bins)
        if lanes == 0:
            return math.inf
        if width not in self._with_width:
            self._with_width[width] = sorted(
                (next(time for size, time in reversed(choices) if size <= width) for choices in self._choices),
                reverse=True,
            )
        if (lanes, width) not in self._lanes:
            self._lanes[lanes, width] = longest_first(self._with_width[width], lanes)
        return self._lanes[lanes, width]

    def _lanes_of(self, bins: Bins) -> tuple[int, int]:
        """How many lanes there are, and their width."""
        lanes = seats(bins, self.widest_minimum)
        gpus = sum([size * cells for size, cells in bins])
        wider = (size for size in reversed(self._all_sizes) if size * lanes <= gpus and seats(bins, size) >= lanes)
        return lanes, next(wider, self.widest_minimum)

    @cached_property
    def _all_sizes(self) -> list[int]:
        """The gangs that some job can use and every job fits in, ascending."""
        sizes = {size for choices in self._choices for size, _ in choices}
        return sorted(size for size in sizes if size >= self.widest_minimum)


def longest_first(seconds: Sequence[float], lanes: int) -> float:
    """When the last job ends if each goes to the lane that is free first; `seconds` in descending order.

    The rule "longest processing time first": Graham, "Bounds on multiprocessing timing anomalies", 1969.
    """
    ends = [0.0] * min(lanes, len(seconds))
    for one in seconds:
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)


def _improving(job: Job, seconds: float, max_gpus: int, level: int) -> list[tuple[int, float]]:
    """The gangs of a job, (GPUs, seconds), ascending, without those that are no faster than a smaller one."""
    found: list[tuple[int, float]] = []
    for size in gang_sizes(job, max_gpus):
        with_gang = seconds_with(job, seconds, size, level)
        if not found or with_gang < found[-1][1]:
            found.append((size, with_gang))
    return found
