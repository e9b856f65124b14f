"""What a simulation of jobs measured, and how long its jobs waited beside private clusters (HiveD, OSDI '20, section
5.2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, fsum, sqrt
from statistics import fmean

from yarn_plugin.simulation.outcome import Holding

LATER_S = 60.0
"""A job that waits so much longer than in a private cluster counts."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job. `ended_at` None: it never ended. `alternative`: the one that it ended with. `run_s`: how long it ran then.
    `preempted`: how often it lost what it had; `lost_gpu_s`: what it held until then, in vain."""

    number: int
    tenant: str
    gpus: int
    arrived_at: float
    ended_at: float | None
    alternative: int
    run_s: float
    preempted: int = 0
    lost_gpu_s: float = 0.0

    @property
    def completion_s(self) -> float | None:
        """From its arrival to its end (JCT); None if it has not ended."""
        return None if self.ended_at is None else self.ended_at - self.arrived_at

    @property
    def wait_s(self) -> float | None:
        """The part of it in which it did not run, or in vain; None if it has not ended."""
        return None if self.completion_s is None else self.completion_s - self.run_s


@dataclass(frozen=True, slots=True)
class JobsOutcome:
    """A whole simulation. `capacity`: GPUs, or machines where jobs also run on cores. `busy_s`: the sum of the seconds
    for which each was leased. `inputs`: how many the controller was given. `progress_spread`: see `Spread`. `nodes`:
    their number; `blocked`, `holdings`: see `CellMap`."""

    jobs: tuple[JobOutcome, ...]
    capacity: int
    busy_s: float
    ended_at: float
    inputs: int = 0
    progress_spread: float = 0.0
    nodes: int = 0
    blocked: tuple[tuple[float, int], ...] = ()
    holdings: tuple[Holding, ...] = ()

    @property
    def fragmentation(self) -> float:
        """The mean fraction of nodes that could not take a guaranteed job of all their GPUs, from the first arrival to
        the last end (HiveD, OSDI '20, section 5.2): nodes that are fully used count, too."""
        began = min((job.arrived_at for job in self.jobs), default=0.0)
        span = self.nodes * (self.ended_at - began)
        return sum(change * (self.ended_at - at) for at, change in self.blocked) / span if span else 0.0

    @property
    def utilisation(self) -> float:
        """The mean fraction that was leased, from the first arrival to the last end."""
        began = min((job.arrived_at for job in self.jobs), default=0.0)
        span = self.capacity * (self.ended_at - began)
        return self.busy_s / span if span else 0.0

    @property
    def ended(self) -> tuple[JobOutcome, ...]:
        """The jobs that have ended."""
        return tuple(job for job in self.jobs if job.ended_at is not None)

    @property
    def waits(self) -> list[float]:
        """Of the jobs that have ended."""
        return [job.wait_s for job in self.jobs if job.wait_s is not None]

    @property
    def times(self) -> list[float]:
        """The completion times of the jobs that have ended."""
        return [job.completion_s for job in self.jobs if job.completion_s is not None]

    @staticmethod
    def together(parts: Sequence["JobsOutcome"]) -> "JobsOutcome":
        """Several clusters as one."""
        return JobsOutcome(
            tuple(sorted((job for part in parts for job in part.jobs), key=lambda job: job.number)),
            sum(part.capacity for part in parts),
            sum(part.busy_s for part in parts),
            max((part.ended_at for part in parts), default=0.0),
            sum(part.inputs for part in parts),
            nodes=sum(part.nodes for part in parts),
            blocked=tuple(sorted(change for part in parts for change in part.blocked)),
            holdings=tuple(holding for part in parts for holding in part.holdings),
        )


class Spread:
    """How differently tenants progress: the standard deviation over tenants of the sum of the values of their running
    jobs, as its mean over time (after AlloX, section 5.1)."""

    def __init__(self, tenants: Collection[str]) -> None:
        self._now = dict.fromkeys(sorted(tenants), 0.0)
        self._since: float | None = None
        self._began, self._sum = 0.0, 0.0

    def add(self, at: float, tenant: str, value: float) -> None:
        """A job of a tenant runs from now on; or no longer, with a negative value."""
        if self._since is None:
            self._since = self._began = at
        elif at > self._since:
            self._sum += self._deviation() * (at - self._since)
            self._since = at
        self._now[tenant] += value

    def mean(self, at: float) -> float:
        """Until now."""
        if self._since is None or at <= self._began:
            return 0.0
        return (self._sum + self._deviation() * (at - self._since)) / (at - self._began)

    def _deviation(self) -> float:
        # `statistics.pstdev` is exact, and takes a hundred times as long.
        values = self._now.values()
        mean = fsum(values) / len(values)
        return sqrt(fsum((value - mean) ** 2 for value in values) / len(values))


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the jobs that ended. `worst_percent_s`: the mean completion time of the longest percent of them.

    Beside private clusters: `later` jobs waited more than a minute longer, `later_s` in all, `worst_later_s` at most.
    None where there is nothing to compare with.
    """

    jobs: int
    unfinished: int
    mean_completion_s: float | None
    worst_percent_s: float | None
    mean_wait_s: float | None
    preempted: int
    lost_gpu_s: float
    later: int | None = None
    later_s: float | None = None
    worst_later_s: float | None = None


def figures(jobs: Sequence[JobOutcome], private: Mapping[int, JobOutcome] | None) -> Figures:
    """The figures of some jobs. `private`: the same jobs in private clusters, by number."""
    times = sorted(job.completion_s for job in jobs if job.completion_s is not None)
    waits = [job.wait_s for job in jobs if job.wait_s is not None]
    later = None if private is None else _later(jobs, private)
    return Figures(
        jobs=len(times),
        unfinished=len(jobs) - len(times),
        mean_completion_s=fmean(times) if times else None,
        worst_percent_s=fmean(times[-ceil(len(times) / 100) :]) if times else None,
        mean_wait_s=fmean(waits) if waits else None,
        preempted=sum(job.preempted > 0 for job in jobs),
        lost_gpu_s=sum(job.lost_gpu_s for job in jobs),
        later=None if later is None else len(later),
        later_s=None if later is None else sum(later),
        worst_later_s=None if later is None else max(later, default=0.0),
    )


def _later(jobs: Iterable[JobOutcome], private: Mapping[int, JobOutcome]) -> list[float]:
    """By how many seconds jobs waited longer, of those that waited more than a minute longer."""
    found = []
    for job in jobs:
        alone = private[job.number].wait_s
        if job.wait_s is not None and alone is not None and job.wait_s - alone > LATER_S:
            found.append(job.wait_s - alone)
    return found
