"""The durations of phases whose jobs are not known yet: a number of equal jobs each."""

import math
from bisect import bisect_right
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
        self._phases = phases
        largest = max((phase.max_gpus for phase in phases), default=0)
        self._gangs = [tuple(zip(*gangs(like, largest, level), strict=True)) for level in LEVELS]

    def within(self, level: int, bins: Bins) -> tuple[float, ...]:
        """Seconds of each phase if every job's GPUs lie together in one of these cells.

        All jobs at once if there is room for so many of the smallest gangs, otherwise in as few rounds as possible;
        with the largest gang for which there is room.
        """
        sizes, parts = self._gangs[level]
        # Below 0, so that they ascend.
        rooms = [-seats(bins, size) for size in sizes if bins and size <= bins[-1][0]]
        if not rooms:
            return (math.inf,) * len(self._phases)
        found = []
        for phase in self._phases:
            rounds = -(phase.jobs // rooms[0])
            at_once = -(-phase.jobs // rounds)
            most = min(bisect_right(rooms, -at_once), bisect_right(sizes, phase.max_gpus))
            found.append(rounds * phase.seconds_each * parts[max(most - 1, 0)])
        return tuple(found)

    def least_within(self, level: int, gpus: int) -> tuple[float, ...]:
        """The same in the best case, if there are as many cells as jobs, each with at most so many GPUs."""
        sizes, parts = self._gangs[level]
        if gpus < sizes[0]:
            return (math.inf,) * len(self._phases)
        most = [bisect_right(sizes, min(gpus, phase.max_gpus)) for phase in self._phases]
        return tuple(
            phase.seconds_each * parts[max(last - 1, 0)] for phase, last in zip(self._phases, most, strict=True)
        )
