"""What a simulation of training applications measured, and the figures made of it (Themis, thesis, section 3.6.1)."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from statistics import fmean, median

from yarn_plugin.simulation.outcome import Holding, jain


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job that ran. Times in seconds; `ended_at` None: it never ended.

    `group`: its application in the workload, also where each job bids for itself. `iterations_s`: GPU seconds of its
    iterations on GPUs that are not spread. `gpu_s`: GPU seconds held. `busy_gpu_s`: of these, those spent computing.
    """

    group: str
    job: str
    arrived_at: float
    ended_at: float | None
    max_gpus: int
    iterations_s: float
    gpu_s: float
    busy_gpu_s: float
    moves: int = 0

    @property
    def ideal_s(self) -> float:
        """Seconds alone on as many well placed GPUs as it can use."""
        return self.iterations_s / self.max_gpus


@dataclass(frozen=True, slots=True)
class Round:
    """A round of allocation. `bidders`: applications that sent a bid with at least one row."""

    number: int
    at: float
    asked: int = 0
    offered: int = 0
    bidders: int = 0


class Contention:
    """A sum of amounts, each of which counts during an interval, as a step function of time."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]], shape: Callable[[float], float]) -> None:
        changes: dict[float, float] = {}
        for start, end, amount in intervals:
            changes[start] = changes.get(start, 0.0) + amount
            changes[end] = changes.get(end, 0.0) - amount
        self._times = sorted(changes)
        self._levels, self._areas = list[float](), [0.0]
        level = 0.0
        for place, at in enumerate(self._times):
            level += changes[at]
            self._levels.append(shape(level))
            if place + 1 < len(self._times):
                self._areas.append(self._areas[-1] + self._levels[-1] * (self._times[place + 1] - at))

    def mean(self, start: float, end: float) -> float:
        """Its average over an interval within the times that it knows."""
        return (self._area(end) - self._area(start)) / (end - start)

    def _area(self, at: float) -> float:
        place = bisect_right(self._times, at) - 1
        return self._areas[place] + self._levels[place] * (at - self._times[place])


@dataclass(frozen=True)
class TrainingOutcome:
    """A whole simulation. `gpus`: of the pool. `holdings`: empty unless they were recorded."""

    gpus: int
    jobs: tuple[JobOutcome, ...]
    rounds: tuple[Round, ...] = ()
    holdings: tuple[Holding, ...] = ()
    ended_at: float = 0.0
    unfinished: int = 0

    @cached_property
    def ended(self) -> tuple[tuple[JobOutcome, float], ...]:
        """The jobs that ended, with their ends."""
        return tuple((job, job.ended_at) for job in self.jobs if job.ended_at is not None)

    @cached_property
    def job_rhos(self) -> tuple[float, ...]:
        """The finish-time fairness of every job that ended: its completion time, divided by its ideal time times the
        average over its life of max(1, what unfinished jobs can use / the GPUs of the pool)."""
        demand = Contention(
            ((job.arrived_at, self._end(job), job.max_gpus) for job in self.jobs),
            lambda gpus: max(1.0, gpus / self.gpus),
        )
        return tuple(
            (end - job.arrived_at) / (job.ideal_s * demand.mean(job.arrived_at, end)) for job, end in self.ended
        )

    @cached_property
    def app_rhos(self) -> tuple[tuple[str, float], ...]:
        """The finish-time fairness of every application that ended (Themis, thesis, equation 3.2).

        Its time alone on the pool is its jobs' work divided by the GPUs that all of them can use, at most all of the
        pool; `N_avg` is the time-weighted number of applications in the pool during its life.
        """
        apps = self._apps
        number = Contention(((first, end, 1.0) for first, end, _ in apps.values()), lambda count: count)
        return tuple(
            (name, (end - first) / (self._alone_s(jobs) * number.mean(first, end)))
            for name, (first, end, jobs) in apps.items()
            if all(job.ended_at is not None for job in jobs)
        )

    @cached_property
    def app_times(self) -> tuple[float, ...]:
        """Seconds from arrival to end of every application that ended."""
        return tuple(
            end - first for first, end, jobs in self._apps.values() if all(job.ended_at is not None for job in jobs)
        )

    @property
    def makespan(self) -> float:
        """Seconds from the first arrival to the last end."""
        if not self.ended:
            return 0.0
        return max(end for _, end in self.ended) - min(job.arrived_at for job in self.jobs)

    @property
    def gpu_s(self) -> float:
        """GPU seconds that jobs held."""
        return sum(job.gpu_s for job in self.jobs)

    @property
    def placement_score(self) -> float:
        """The mean of 1 / slowdown over all GPU seconds in which jobs computed; 1 if no job was ever spread."""
        busy = sum(job.busy_gpu_s for job in self.jobs)
        return sum(job.iterations_s for job in self.jobs) / busy if busy else 1.0

    @cached_property
    def _apps(self) -> dict[str, tuple[float, float, tuple[JobOutcome, ...]]]:
        """Of every application: its arrival, its end, its jobs."""
        found = {}
        for name, group in groupby(sorted(self.jobs, key=lambda job: job.group), key=lambda job: job.group):
            jobs = tuple(group)
            found[name] = min(job.arrived_at for job in jobs), max(self._end(job) for job in jobs), jobs
        return found

    def _alone_s(self, jobs: Sequence[JobOutcome]) -> float:
        usable = min(self.gpus, sum(job.max_gpus for job in jobs))
        return sum(job.iterations_s for job in jobs) / usable

    def _end(self, job: JobOutcome) -> float:
        return self.ended_at if job.ended_at is None else job.ended_at


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a simulation; times in minutes, as workloads of training applications have them.

    `max_rho`, `median_rho`, `jain`: of the jobs' finish-time fairness. `max_rho_app`: of the applications'. Jobs that
    did not end have none.
    """

    max_rho: float | None
    median_rho: float | None
    max_rho_app: float | None
    jain: float | None
    avg_jct_job: float | None
    avg_jct_app: float | None
    makespan: float
    gpu_time: float
    placement_score: float
    rounds: int
    mean_bidders: float | None


def figures(outcome: TrainingOutcome) -> Figures:
    """The figures of a simulation."""
    rhos, bidders = outcome.job_rhos, [one.bidders for one in outcome.rounds if one.offered]
    return Figures(
        max_rho=max(rhos, default=None),
        median_rho=median(rhos) if rhos else None,
        max_rho_app=max((rho for _, rho in outcome.app_rhos), default=None),
        jain=jain(rhos) if rhos else None,
        avg_jct_job=fmean(end - job.arrived_at for job, end in outcome.ended) / 60 if outcome.ended else None,
        avg_jct_app=fmean(outcome.app_times) / 60 if outcome.app_times else None,
        makespan=outcome.makespan / 60,
        gpu_time=outcome.gpu_s / 60,
        placement_score=outcome.placement_score,
        rounds=len(outcome.rounds),
        mean_bidders=fmean(bidders) if bidders else None,
    )
