"""Finish times and finish-time fairness (Themis, thesis section 3.4.3, equations 3.1 and 3.2)."""

import math
from functools import lru_cache

from themis_agent.bids.phase_time import KnownJobs, LikeJobs, PhaseTime
from themis_agent.bids.spread import Spread
from themis_agent.search.work import Bracket, Work
from yarn_plugin.model.gpus import Job

SIGNIFICANT_DIGITS = 9
"""Of a rho: what differs less is equal, on every machine."""


def median_job(jobs: tuple[Job, ...]) -> Job:
    """The job that stands for those of phases to come: the upper median by the time of an iteration, ties by id.

    Thesis, section 3.4.3.3: of 100 and 120 seconds its example takes 120.
    """
    return sorted(jobs, key=lambda job: (job.iteration_s, job.id))[len(jobs) // 2]


def ideal_s(work: Work, contention: float, cluster_gpus: int) -> float:
    """T_id: the finish time in an own, equal part of the cluster, seconds from arrival.

    T_cluster = B / min(R_C, app_demand_max), times N_avg. `cluster_gpus` 0: unknown, no bound.
    """
    usable = min(cluster_gpus, work.max_gpus) if cluster_gpus else work.max_gpus
    return work.budget_gpu_s / max(usable, 1) * contention


def round_rho(rho: float) -> float | None:
    """A rho as it is sent; None: unbounded."""
    return float(f"{rho:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(rho) else None


class FinishTime:
    """The finish time of an application for any spread of GPUs, if it keeps them to its end (T_sh)."""

    def __init__(self, work: Work) -> None:
        self._brackets = [_phases(bracket) for bracket in work.brackets if bracket.jobs]
        self.remaining_s = lru_cache(maxsize=None)(self._remaining_s)

    def _remaining_s(self, spread: Spread) -> float:
        if len(self._brackets) > 1:
            raise NotImplementedError("several brackets")
        return sum(phase.seconds(spread) for phases in self._brackets for phase in phases)


def _phases(bracket: Bracket) -> list[PhaseTime]:
    median = median_job(bracket.jobs)
    known: list[PhaseTime] = [KnownJobs(bracket.jobs)]
    return known + [
        LikeJobs(median, phase.jobs, phase.iterations * median.iteration_s, phase.max_gpus) for phase in bracket.phases
    ]
