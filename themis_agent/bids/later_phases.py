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
        found = []
        for phase in self._phases:
            rounds = -(-phase.jobs // room)
            part = self._part(level, bins, -(-phase.jobs // rounds), phase.max_gpus)
            found.append(rounds * phase.seconds_each * part)
        return tuple(found)

    def _part(self, level: int, bins: Bins, at_once: int, max_gpus: int) -> float:
        """The part of its time on one GPU that a job takes with the largest gang for which there is room so often."""
        sizes = self._gangs[level]
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if sizes[middle][0] <= max_gpus and seats(bins, sizes[middle][0]) >= at_once:
                low = middle
            else:
                high = middle - 1
        return sizes[low][1]
