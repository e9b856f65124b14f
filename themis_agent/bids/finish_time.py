"""Finish times and finish-time fairness (Themis, thesis section 3.4.3, equations 3.1 and 3.2)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from themis_agent.bids.brackets import Need, Shares
from themis_agent.bids.candidates import Wants
from themis_agent.bids.known_jobs import KnownJobs
from themis_agent.bids.later_phases import LaterPhases, LikeJobs
from themis_agent.bids.models import Models, Speeds
from themis_agent.bids.phase_time import ByLevel
from themis_agent.bids.spread import Place, Spread, parts_of
from themis_agent.search.work import Bracket, Work
from yarn_plugin.model.gpus import Job, Slowdown

SIGNIFICANT_DIGITS = 9
"""Of a rho: what differs less is equal, on every machine."""


def median_job(jobs: Sequence[Job]) -> Job:
    """The job that stands for those of phases to come: the upper median by the time of an iteration, ties by id.

    Thesis, section 3.4.3.3: of 100 and 120 seconds its example takes 120.
    """
    return sorted(jobs, key=lambda job: (job.iteration_s, job.id))[len(jobs) // 2]


def cluster_s(work: Work, cluster_gpus: int) -> float:
    """T_cluster: seconds with the whole cluster to itself, B / min(R_C, app_demand_max).

    `cluster_gpus` 0: unknown, no bound.
    """
    usable = min(cluster_gpus, work.max_gpus) if cluster_gpus else work.max_gpus
    return work.budget_gpu_s / max(usable, 1)


def ideal_s(work: Work, contention: float, cluster_gpus: int) -> float:
    """T_id: the finish time in an own, equal part of the cluster, seconds from arrival: T_cluster times N_avg."""
    return cluster_s(work, cluster_gpus) * contention


def rounded(rho: float) -> float | None:
    """A rho as it is sent; None: unbounded."""
    return float(f"{rho:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(rho) else None


class FinishTime:
    """How long an application takes with any set of GPUs that it keeps to its end (T_sh without what has passed).

    `speeds`: of its jobs on models of GPUs.

    Times that have been computed are kept: make another one when the work has changed.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.speeds = Speeds([job for bracket in work.brackets for job in bracket.jobs])
        self._on: dict[Models, FinishTime] = {}
        self._brackets = [_BracketTime(bracket) for bracket in work.brackets if bracket.jobs]
        self._known: dict[Spread, float] = {}
        self._least: dict[tuple[int, ...], float] = {}

    @cached_property
    def _shares(self) -> Shares:
        return Shares([bracket.need for bracket in self._brackets])

    @cached_property
    def _largest_gang(self) -> int:
        return max([bracket.largest_gang for bracket in self._brackets], default=0)

    @property
    def wants(self) -> Wants:
        """What matters about the GPUs of an offer."""
        brackets = self._brackets
        slowdowns = {slowdown for bracket in brackets for slowdown in bracket.slowdowns}
        largest = self._largest_gang
        return Wants(
            usable=sum(bracket.need.max_gpus for bracket in brackets),
            gangs=tuple(sorted({size for bracket in brackets for size in bracket.gangs})),
            largest_gang=largest,
            slots=largest > 1 and any(one.slot != 1.0 for one in slowdowns),
            machines=largest > 1 and any((one.slot, one.machine, one.rack) != (1.0, 1.0, 1.0) for one in slowdowns),
            racks=largest > 1 and any(one.rack != one.machine for one in slowdowns),
        )

    @property
    def running(self) -> KnownJobs | None:
        """The unfinished jobs of the present phase; None if there are none, or several brackets."""
        return self._brackets[0].running if len(self._brackets) == 1 else None

    def remaining_s(self, places: Sequence[Place]) -> float:
        """Seconds from now to the end with the GPUs in these places; infinite if a job cannot run; 0 without work."""
        if not self.speeds.matter:
            return self.remaining_with(Spread.of(places))
        ranked = [(self.speeds.rank(place.model), place) for place in places if place.gpus]
        return min(
            self.remaining_on(used, Spread.of(place for rank, place in ranked if rank in used))
            for used in self.speeds.limits(rank for rank, _ in ranked)
        )

    def remaining_on(self, used: Models, spread: Spread) -> float:
        """The same for GPUs of these models alone."""
        if not self.speeds.matter:
            return self.remaining_with(spread)
        common = self.speeds.common(used)
        if common is not None:
            return self.remaining_with(spread) / common
        if used not in self._on:
            brackets = [
                replace(bracket, jobs=self.speeds.scaled(bracket.jobs, used)) for bracket in self._work.brackets
            ]
            self._on[used] = FinishTime(replace(self._work, brackets=tuple(brackets)))
        return self._on[used].remaining_with(spread)

    def remaining_with(self, spread: Spread) -> float:
        """The same for GPUs of any models that are as fast as each other, whose spread is known."""
        known = self._known.get(spread)
        if known is None:
            known = self._known[spread] = self._computed(spread)
        return known

    def least_s(self, largest: Sequence[int]) -> float:
        """No GPUs whose cells of each level have at most so many take less time, nor do more of them.

        0 if some models are faster than others.
        """
        if self.speeds.matter:
            return 0.0
        # Jobs do not care how many more GPUs a cell has than the largest gang.
        key = tuple([min(gpus, self._largest_gang) for gpus in largest])
        if key not in self._least:
            self._least[key] = max([bracket.least_s(key) for bracket in self._brackets], default=0.0)
        return self._least[key]

    def _computed(self, spread: Spread) -> float:
        if len(self._brackets) == 1:
            return self._brackets[0].seconds(spread)
        shares = self._shares.of(spread.gpus)
        if shares is None:
            return sum(bracket.seconds(spread) for bracket in self._brackets)
        order = sorted(range(len(shares)), key=lambda index: -shares[index])
        parts = parts_of(spread, [shares[index] for index in order])
        return max([self._brackets[index].seconds(part) for index, part in zip(order, parts, strict=True)], default=0.0)


class _BracketTime:
    """How long one bracket takes: the sum of its phases."""

    def __init__(self, bracket: Bracket) -> None:
        self._bracket = bracket
        self.jobs = tuple(job for job in bracket.jobs if job.iterations_left > 0)
        self.running = KnownJobs(self.jobs) if self.jobs else None
        self._phases: list[ByLevel] = [self.running] if self.running else []
        if bracket.phases:
            median = self._median
            later = [LikeJobs(one.jobs, one.iterations * median.iteration_s, one.max_gpus) for one in bracket.phases]
            self._phases.append(LaterPhases(median, later))
        self._known: dict[Spread, float] = {}

    @cached_property
    def _median(self) -> Job:
        return median_job(self._bracket.jobs)

    @cached_property
    def need(self) -> Need:
        jobs, phases = self._bracket.jobs, self._bracket.phases
        work = sum(job.iterations_left * job.iteration_s for job in self.jobs)
        work += sum(phase.jobs * phase.iterations * self._median.iteration_s for phase in phases)
        demands = [sum(job.max_gpus for job in self.jobs), *(phase.jobs * phase.max_gpus for phase in phases)]
        return Need(work, max(job.min_gpus for job in jobs), max(demands))

    @cached_property
    def slowdowns(self) -> set[Slowdown]:
        return {job.slowdown for job in self._bracket.jobs}

    @cached_property
    def gangs(self) -> set[int]:
        caps = [phase.max_gpus for phase in self._bracket.phases]
        kinds = self.running.kinds if self.running else []
        return {self._median.min_gpus, *caps, *(size for job in kinds for size in (job.min_gpus, job.max_gpus))}

    @cached_property
    def largest_gang(self) -> int:
        return max(self.gangs)

    def seconds(self, spread: Spread) -> float:
        known = self._known.get(spread)
        if known is None:
            known = self._known[spread] = sum([phase.seconds(spread) for phase in self._phases])
        return known

    def least_s(self, largest: Sequence[int]) -> float:
        return sum([phase.least_s(largest) for phase in self._phases])
