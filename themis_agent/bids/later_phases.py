"""The durations of phases whose jobs are not known yet: a number of equal jobs each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from themis_agent.bids.packing import seats
from themis_agent.bids.phase_time import LEVELS, ByLevel, gangs
from themis_agent.bids.spread import Bins
from yarn_plugin.model.gpus import Job


@dataclass(frozen=True, slots=True)
class LikeJobs:
    """A phase of `jobs` equal jobs, each with `seconds_each` of work on one GPU and at most `max_gpus`."""

    jobs: int
    seconds_each: float
    max_gpus: int


class LaterPhases(ByLevel):
    """Phases one after the other, all of jobs like one."""

    def __init__(self, like: Job, phases: Sequence[LikeJobs]) -> None:
        super().__init__([like])
        self._phases, self._smallest = phases, like.min_gpus
        largest = max((phase.max_gpus for phase in phases), default=0)
        self._gangs = [gangs(like, largest, level) for level in LEVELS]

    def within(self, level: int, bins: Bins) -> tuple[float, ...]:
        """Seconds of each phase if every job's GPUs lie together in one of these cells.

        All jobs at once if there is room for so many of the smallest gangs, otherwise in as few rounds as possible;
        with the largest gang for which there is room.
        """
        room = seats(bins, self._smallest)
        if room == 0:
            return (math.inf,) * len(self._phases)
        sizes = self._gangs[level]
        seats_of: dict[int, int] = {}
        found = []
        for phase in self._phases:
            rounds = -(-phase.jobs // room)
            at_once = -(-phase.jobs // rounds)
            low, high = 0, len(sizes) - 1
            while low < high:
                middle = (low + high + 1) // 2
                size = sizes[middle][0]
                if size not in seats_of:
                    seats_of[size] = seats(bins, size)
                if size <= phase.max_gpus and seats_of[size] >= at_once:
                    low = middle
                else:
                    high = middle - 1
            found.append(rounds * phase.seconds_each * sizes[low][1])
        return tuple(found)

    def least_within(self, level: int, gpus: int) -> tuple[float, ...]:
        """The same in the best case, if there are as many cells as jobs, each with at most so many GPUs."""
        if gpus < self._smallest:
            return (math.inf,) * len(self._phases)
        smallest, *larger = self._gangs[level]
        return tuple(
            phase.seconds_each
            * min([smallest[1], *(part for size, part in larger if size <= min(gpus, phase.max_gpus))])
            for phase in self._phases
        )
