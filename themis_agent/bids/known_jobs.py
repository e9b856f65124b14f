"""The duration of a phase whose jobs are known."""

import heapq
import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from themis_agent.bids.packing import fits, seats
from themis_agent.bids.phase_time import LEVELS, ByLevel, gangs
from themis_agent.bids.spread import Bins, Spread
from yarn_plugin.model.gpus import Job, Slowdown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class KnownJobs(ByLevel):
    """A phase whose jobs are known: each with its iterations left, time of an iteration, gang and slowdown."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__(jobs)
        self._jobs = sorted(jobs, key=lambda job: (-job.iterations_left * job.iteration_s, job.id))
        self._levels: dict[int, _Level] = {}

    def gangs(self, spread: Spread) -> tuple[int, dict[str, int]] | None:
        """How the jobs run to end in that time: within which level, and the GPUs of each job that runs at first.

        None: some job cannot run at all.
        """
        best = self.seconds(spread)
        if math.isinf(best):
            return None
        level = next(level for level in LEVELS if self.within(level, spread.bins[level])[0] <= best)
        return level, self._at(level).gangs(spread.bins[level])

    def within(self, level: int, bins: Bins) -> tuple[float, ...]:
        """Seconds if every job's GPUs lie together in one of these cells."""
        return (self._at(level).seconds(bins),)

    def _at(self, level: int) -> "_Level":
        if level not in self._levels:
            self._levels[level] = _Level(self._jobs, level)
        return self._levels[level]


class _Level:
    """The same phase if every job's GPUs lie together in one cell of a level."""

    def __init__(self, jobs: Sequence[Job], level: int) -> None:
        self._names = [job.id for job in jobs]
        self.widest_minimum = max(job.min_gpus for job in jobs)
        self._choices = _choices(jobs, level)
        self._lanes: dict[tuple[int, int], float] = {}
        self._with_width: dict[int, list[float]] = {}
        self._gangs_by: dict[int, list[tuple[int, int]]] = {}

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
        low, last = int(np.searchsorted(-needs, -gpus)), len(times) - 1
        if low > last:
            return None
        # Most often the number of GPUs alone decides; otherwise the time is not much longer.
        step = 1
        while not fits(bins, self._gangs(low)):
            if low == last:
                return None
            high = min(low + step, last)
            if not fits(bins, self._gangs(high)):
                low, step = high, 2 * step
                continue
            while low + 1 < high:
                middle = (low + high) // 2
                if fits(bins, self._gangs(middle)):
                    high = middle
                else:
                    low = middle
            return float(times[high])
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

    def _gangs(self, number: int) -> list[tuple[int, int]]:
        """The smallest gangs with which all jobs end by a time, by its index: (size, how many), the largest first."""
        if number not in self._gangs_by:
            columns = (self._table > self._deadlines[0][number]).sum(axis=1)
            counts = np.bincount(self._sizes[np.arange(len(columns)), columns]).tolist()
            self._gangs_by[number] = [(size, counts[size]) for size in range(len(counts) - 1, 0, -1) if counts[size]]
        return self._gangs_by[number]

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


def _choices(jobs: Sequence[Job], level: int) -> list[list[tuple[int, float]]]:
    """The gangs of each job, ascending, and the seconds that it takes with each."""
    known: dict[tuple[int, int, int, Slowdown], list[tuple[int, float]]] = {}
    found = []
    for job in jobs:
        key = job.min_gpus, job.max_gpus, job.step_gpus, job.slowdown
        if key not in known:
            known[key] = gangs(job, job.max_gpus, level)
        work = job.iterations_left * job.iteration_s
        found.append([(size, work * part) for size, part in known[key]])
    return found
