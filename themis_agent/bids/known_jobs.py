"""The duration of a phase whose jobs are known."""

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

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
        self._jobs = sorted(jobs, key=lambda job: (-job.iterations_left * job.iteration_s, job.id))
        alike: dict[tuple[int, int, int, Slowdown], list[int]] = {}
        for row, job in enumerate(self._jobs):
            alike.setdefault((job.min_gpus, job.max_gpus, job.step_gpus, job.slowdown), []).append(row)
        self._alike = [(self._jobs[rows[0]], rows) for rows in alike.values()]
        super().__init__(self.kinds)
        self._levels: dict[int, _Level | _FixedGangs] = {}
        self._works = [job.iterations_left * job.iteration_s for job in self._jobs]
        self._one_by_one = all(job.min_gpus == 1 for job in self.kinds)
        self._in_turns: dict[int, float] = {}

    def seconds(self, spread: Spread) -> float:
        """See `ByLevel`. Jobs that wait for each other on one GPU each do not care where the GPUs are."""
        gpus = spread.gpus
        if not self._one_by_one or not 0 < gpus < len(self._jobs):
            return super().seconds(spread)
        if gpus not in self._in_turns:
            self._in_turns[gpus] = longest_first(self._works, gpus)
        return self._in_turns[gpus]

    @property
    def kinds(self) -> list[Job]:
        """One job of each gang and slowdown."""
        return [job for job, _ in self._alike]

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

    def least_within(self, level: int, gpus: int) -> tuple[float, ...]:
        """The same in the best case, if there are as many cells as jobs, each with at most so many GPUs."""
        longest_s = 0.0
        # The first of equal jobs is the longest.
        for job, _ in self._alike:
            parts = [part for size, part in gangs(job, job.max_gpus, level) if size <= gpus]
            longest_s = max(longest_s, job.iterations_left * job.iteration_s * parts[-1] if parts else math.inf)
        return (longest_s,)

    def _at(self, level: int) -> "_Level | _FixedGangs":
        if level not in self._levels:
            self._levels[level] = (_FixedGangs if self._are_fixed else _Level)(self._jobs, self._alike, level)
        return self._levels[level]

    @cached_property
    def _are_fixed(self) -> bool:
        return all(job.min_gpus + job.step_gpus > job.max_gpus for job, _ in self._alike)


class _FixedGangs:
    """See `_Level`: the same where every job can use one number of GPUs alone, so that there is nothing to choose."""

    def __init__(self, jobs: Sequence[Job], alike: Sequence[tuple[Job, list[int]]], level: int) -> None:
        self._jobs = jobs
        counts: dict[int, int] = {}
        self._parts: list[tuple[list[int], float]] = []
        for one, rows in alike:
            [(size, part)] = gangs(one, one.max_gpus, level)
            counts[size] = counts.get(size, 0) + len(rows)
            self._parts.append((rows, part))
        # The first of equal jobs is the longest.
        self._longest = max([self._time(rows[0], part) for rows, part in self._parts])
        self._gangs = sorted(counts.items(), reverse=True)
        self._widest, self._needed = self._gangs[0][0], sum([size * count for size, count in self._gangs])
        self._with_lanes: dict[int, float] = {}

    def _time(self, row: int, part: float) -> float:
        return self._jobs[row].iterations_left * self._jobs[row].iteration_s * part

    def seconds(self, bins: Bins) -> float:
        """Seconds until the last job ends; infinite if a job cannot run."""
        gpus = sum([size * cells for size, cells in bins])
        if gpus < self._widest:
            return math.inf
        if self._run_at_once(gpus, bins):
            return self._longest
        lanes = seats(bins, self._widest)
        if lanes == 0:
            return math.inf
        if lanes not in self._with_lanes:
            seconds = [self._time(row, part) for rows, part in self._parts for row in rows]
            self._with_lanes[lanes] = longest_first(sorted(seconds, reverse=True), lanes)
        return self._with_lanes[lanes]

    def gangs(self, bins: Bins) -> dict[str, int]:
        """The GPUs of each job that runs at first."""
        gpus = sum([size * cells for size, cells in bins])
        first = len(self._jobs) if self._run_at_once(gpus, bins) else seats(bins, self._widest)
        return {job.id: job.min_gpus for job in self._jobs[:first]}

    def _run_at_once(self, gpus: int, bins: Bins) -> bool:
        return gpus >= self._needed and fits(bins, self._gangs)


class _Level:
    """The same phase if every job's GPUs lie together in one cell of a level.

    Of each job, in a row of `_sizes` and `_table`: the gangs that it can use, ascending, and the seconds that it takes
    with each; `_last`: the column of its largest. A shorter row ends in gangs of 0 GPUs. `alike`: the rows of equal
    gangs and slowdowns, with one job of each.
    """

    def __init__(self, jobs: Sequence[Job], alike: Sequence[tuple[Job, list[int]]], level: int) -> None:
        self._names = [job.id for job in jobs]
        self.widest_minimum = max(job.min_gpus for job, _ in alike)
        self._sizes, self._table, self._last = _choices(jobs, alike, level)
        self._rows = np.arange(len(jobs))
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
            return dict(zip(self._names, self._sizes[self._rows, columns].tolist(), strict=True))
        lanes, width = self._lanes_of(bins)
        first = self._sizes[self._rows[:lanes], self._columns_within(width)[:lanes]]
        return dict(zip(self._names[:lanes], first.tolist(), strict=True))

    def _deadline(self, bins: Bins) -> float | None:
        """The earliest time by which all jobs can end if all run at once; None: they cannot."""
        gpus = sum([size * cells for size, cells in bins])
        times, needs = self._deadlines
        low, last = bisect_left(needs, -gpus), len(times) - 1
        if low > last:
            return None
        if len(bins) == 1 and bins[0][1] == 1:
            # All fits into one cell.
            return times[low]
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
            return times[high]
        return times[low]

    @cached_property
    def _deadlines(self) -> tuple[list[float], list[int]]:
        """Every time at which the last job may end if all run at once, ascending, and how many GPUs that needs, as
        numbers below 0, so that they ascend too."""
        earliest = self._table[self._rows, self._last].max()
        times = np.unique(self._table[self._table >= earliest])
        # Below the time of a choice, a job needs the next larger one.
        growing = self._sizes[:, 1:] > 0
        ends, more = self._table[:, :-1][growing], np.diff(self._sizes, axis=1)[growing]
        order = np.argsort(ends)
        missing = np.concatenate([np.cumsum(more[order][::-1])[::-1], [0]])
        needs = self._sizes[:, 0].sum() + missing[np.searchsorted(ends[order], times, side="right")]
        return times.tolist(), (-needs).tolist()

    def _gangs(self, number: int) -> list[tuple[int, int]]:
        """The smallest gangs with which all jobs end by a time, by its index: (size, how many), the largest first."""
        if number not in self._gangs_by:
            columns = (self._table > self._deadlines[0][number]).sum(axis=1)
            counts = np.bincount(self._sizes[self._rows, columns]).tolist()
            self._gangs_by[number] = [(size, counts[size]) for size in range(len(counts) - 1, 0, -1) if counts[size]]
        return self._gangs_by[number]

    def _in_turns(self, bins: Bins) -> float:
        """Seconds if jobs wait for each other: lanes as wide as the largest of the smallest gangs, or wider."""
        lanes, width = self._lanes_of(bins)
        if lanes == 0:
            return math.inf
        if width not in self._with_width:
            seconds = self._table[self._rows, self._columns_within(width)]
            self._with_width[width] = np.sort(seconds)[::-1].tolist()
        if (lanes, width) not in self._lanes:
            self._lanes[lanes, width] = longest_first(self._with_width[width], lanes)
        return self._lanes[lanes, width]

    def _columns_within(self, width: int) -> Ints:
        """The column of each job's largest gang up to a width, in which every job's smallest fits."""
        columns: Ints = ((self._sizes > 0) & (self._sizes <= width)).sum(axis=1) - 1
        return columns

    def _lanes_of(self, bins: Bins) -> tuple[int, int]:
        """How many lanes there are, and their width."""
        lanes = seats(bins, self.widest_minimum)
        gpus = sum([size * cells for size, cells in bins])
        wider = (size for size in reversed(self._all_sizes) if size * lanes <= gpus and seats(bins, size) >= lanes)
        return lanes, next(wider, self.widest_minimum)

    @cached_property
    def _all_sizes(self) -> list[int]:
        """The gangs that some job can use and every job fits in, ascending."""
        sizes: list[int] = np.unique(self._sizes[self._sizes >= self.widest_minimum]).tolist()
        return sizes


def longest_first(seconds: Sequence[float], lanes: int) -> float:
    """When the last job ends if each goes to the lane that is free first; `seconds` in descending order.

    The rule "longest processing time first": Graham, "Bounds on multiprocessing timing anomalies", 1969.
    """
    ends = list(seconds[:lanes][::-1])
    for one in seconds[lanes:]:
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)


def _choices(jobs: Sequence[Job], alike: Sequence[tuple[Job, list[int]]], level: int) -> tuple[Ints, Floats, Ints]:
    """The gangs of each job, ascending, the seconds that it takes with each, and the column of its last one."""
    works = np.array([job.iterations_left * job.iteration_s for job in jobs])
    known = [(rows, gangs(job, job.max_gpus, level)) for job, rows in alike]
    columns = max(len(choices) for _, choices in known)
    sizes, table = np.zeros((len(jobs), columns), dtype=np.int64), np.zeros((len(jobs), columns))
    last = np.zeros(len(jobs), dtype=np.int64)
    for rows, choices in known:
        last[rows] = len(choices) - 1
        sizes[rows, : len(choices)] = [size for size, _ in choices]
        table[rows, : len(choices)] = np.multiply.outer(works[rows], [part for _, part in choices])
    return sizes, table, last
