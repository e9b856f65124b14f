"""What a simulation measured: its applications or jobs, and the cluster over time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import ceil

from yarn_plugin.simulation.over_time import Contention


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of an application or a job; times in seconds. `ended_at` None: it never ended.

    `group`: of an application, its own; of a job, its tenant; of a training job, its application in the workload, also
    where each job bids for itself.
    `alone_s`: how long it takes if nothing delays it: an application on the whole cluster, a job with the alternative
    that it ended with, a training job on as many well placed GPUs as it can use.
    `number`: its place in the workload. `started_at`: when its master started; None if it never did.
    `gpus`: those that it holds; of a training job, those that it can use.
    `iterations_s`: GPU seconds of its iterations on GPUs that are not spread. `gpu_s`: GPU seconds held; of these,
    `busy_gpu_s` were spent computing. `moves`: how often its GPUs changed. `alternative`: the one that it ended with.
    `preempted`: how often it lost what it had, and `lost_gpu_s` what it held until then, in vain.
    `figures`: an application's own metrics.
    """

    name: str
    group: str
    arrived_at: float
    ended_at: float | None
    alone_s: float
    number: int = 0
    user: str = ""
    weight: float = 1.0
    started_at: float | None = None
    gpus: int = 0
    iterations_s: float = 0.0
    gpu_s: float = 0.0
    busy_gpu_s: float = 0.0
    moves: int = 0
    alternative: int = 0
    preempted: int = 0
    lost_gpu_s: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def completion_s(self) -> float | None:
        """Seconds from arrival to end (job completion time, JCT); None if it has not ended."""
        return None if self.ended_at is None else self.ended_at - self.arrived_at

    @property
    def slowdown(self) -> float | None:
        """The completion time relative to running alone."""
        return None if self.completion_s is None else self.completion_s / max(self.alone_s, 1e-9)

    @property
    def wait_s(self) -> float | None:
        """The part of the completion time in which a job did not run, or in vain; None if it has not ended."""
        return None if self.completion_s is None else self.completion_s - self.alone_s


@dataclass(frozen=True, slots=True)
class Usage:
    """The fraction of the cluster's dominant resource that each group of applications uses from a time on."""

    at: float
    fractions: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """A GPU leased to an application (`group`: its name in the workload) without a break."""

    gpu: str
    app: str
    group: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Round:
    """A round of allocation. `bidders`: applications that sent a bid with at least one row."""

    number: int
    at: float
    asked: int = 0
    offered: int = 0
    bidders: int = 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a simulation; what its kind does not measure is left at its default.

    `inputs`: how many the arbiter, or the pool's controller, was given. `unfinished`: how many of those that arrived
    never ended: applications, jobs or bidders.
    `gpus`: of the pool; where jobs also run on cores, machines. `busy_s`: the sum of the seconds for which each of them
    was leased. `holdings`: who held which GPU, if that was recorded.
    `usage`: fractions in the order of `groups`. `rounds`: of a pool whose GPUs are leased in rounds.
    `nodes`: their number; `blocked`: see `CellMap`. `progress_spread`: see `Spread`.
    """

    jobs: tuple[JobOutcome, ...]
    ended_at: float = 0.0
    inputs: int = 0
    unfinished: int = 0
    gpus: int = 0
    busy_s: float = 0.0
    holdings: tuple[Holding, ...] = ()
    groups: tuple[str, ...] = ()
    usage: tuple[Usage, ...] = ()
    shares_sent: int = 0
    weights_written: int = 0
    containers_signalled: int = 0
    rounds: tuple[Round, ...] = ()
    nodes: int = 0
    blocked: tuple[tuple[float, int], ...] = ()
    progress_spread: float = 0.0

    @staticmethod
    def together(parts: Sequence["Outcome"]) -> "Outcome":
        """Several clusters of jobs as one."""
        return Outcome(
            tuple(sorted((job for part in parts for job in part.jobs), key=lambda job: job.number)),
            max((part.ended_at for part in parts), default=0.0),
            sum(part.inputs for part in parts),
            sum(part.unfinished for part in parts),
            sum(part.gpus for part in parts),
            sum(part.busy_s for part in parts),
            tuple(holding for part in parts for holding in part.holdings),
            nodes=sum(part.nodes for part in parts),
            blocked=tuple(sorted(change for part in parts for change in part.blocked)),
        )

    @cached_property
    def ended(self) -> tuple[JobOutcome, ...]:
        """Those that have ended."""
        return tuple(job for job in self.jobs if job.ended_at is not None)

    def ended_in(self, group: str) -> tuple[JobOutcome, ...]:
        """Those of a group that have ended."""
        return tuple(job for job in self.ended if job.group == group)

    @property
    def times(self) -> list[float]:
        """The completion times of those that have ended."""
        return [job.completion_s for job in self.jobs if job.completion_s is not None]

    @property
    def waits(self) -> list[float]:
        """Of those that have ended."""
        return [job.wait_s for job in self.jobs if job.wait_s is not None]

    @property
    def utilisation(self) -> float:
        """The mean fraction of the cluster in use; of cells, the mean fraction that was leased, from the first arrival
        to the last end."""
        if not self.usage:
            span = self.gpus * (self.ended_at - self._began_at)
            return self.busy_s / span if span else 0.0
        spans = list(zip(self.usage, [*self.usage[1:], Usage(max(self.ended_at, self.usage[-1].at), ())], strict=True))
        seconds = sum(end.at - start.at for start, end in spans)
        return sum(sum(start.fractions) * (end.at - start.at) for start, end in spans) / seconds if seconds else 0.0

    @property
    def fragmentation(self) -> float:
        """The mean fraction of nodes that could not take a guaranteed job of all their GPUs, from the first arrival to
        the last end (HiveD, OSDI '20, section 5.2): nodes that are fully used count, too."""
        span = self.nodes * (self.ended_at - self._began_at)
        return sum(change * (self.ended_at - at) for at, change in self.blocked) / span if span else 0.0

    @property
    def makespan(self) -> float:
        """Seconds from the first arrival to the last end."""
        return max((job.ended_at or 0.0 for job in self.ended), default=self._began_at) - self._began_at

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
    def job_rhos(self) -> tuple[float, ...]:
        """The finish-time fairness of every job that ended: its completion time, divided by its time alone times the
        average over its life of max(1, what unfinished jobs can use / the GPUs of the pool)."""
        demand = Contention(
            ((job.arrived_at, self._end(job), job.gpus) for job in self.jobs),
            lambda gpus: max(1.0, gpus / self.gpus),
        )
        return tuple(
            (self._end(job) - job.arrived_at) / (job.alone_s * demand.mean(job.arrived_at, self._end(job)))
            for job in self.ended
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

    @cached_property
    def _apps(self) -> dict[str, tuple[float, float, tuple[JobOutcome, ...]]]:
        """Of every application: its arrival, its end, its jobs."""
        found = {}
        for name, group in groupby(sorted(self.jobs, key=lambda job: job.group), key=lambda job: job.group):
            jobs = tuple(group)
            found[name] = min(job.arrived_at for job in jobs), max(self._end(job) for job in jobs), jobs
        return found

    @property
    def _began_at(self) -> float:
        return min((job.arrived_at for job in self.jobs), default=0.0)

    def _alone_s(self, jobs: Sequence[JobOutcome]) -> float:
        return sum(job.iterations_s for job in jobs) / min(self.gpus, sum(job.gpus for job in jobs))

    def _end(self, job: JobOutcome) -> float:
        return self.ended_at if job.ended_at is None else job.ended_at


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything.

    Jain, Chiu and Hawe, DEC-TR-301 (1984).
    """
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0


def quantile(values: Iterable[float], fraction: float) -> float:
    """The smallest value that at least this fraction of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(ceil(fraction * len(ordered)) - 1, 0)]
