"""What a side policy sees, and what it chooses: waiting jobs, and machines of two kinds, GPUs and slots of cores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from yarn_plugin.decide.mechanisms.allox import Job, Start

GPU_KIND, SLOT_KIND = 0, 1
"""Kinds of machines: the index in a job's `times` and `shares`."""


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs, and where: the machine's index within its kind."""

    job: Job
    kind: int
    machine: int


@dataclass(frozen=True, slots=True)
class Queue:
    """A pool at one moment, `at` seconds.

    `waiting`: in order of arrival, with estimated times. `free_in`: for each kind, in how many seconds each of its
    machines is expected to be free; 0 where it is. `users`: all of the pool, those without jobs too. `alpha`,
    `overdue`: see `choose_starts`. `timeout_s`: AlloX+ prefers jobs that have waited for longer. `slots_per_gpu`:
    DRFA's average speedup, at which it counts GPUs as slots.
    """

    at: float
    waiting: tuple[Job, ...]
    running: tuple[Running, ...]
    free_in: tuple[tuple[float, ...], ...]
    users: tuple[str, ...]
    alpha: float = 0.3
    timeout_s: float = 500.0
    slots_per_gpu: float = 1.0
    overdue: tuple[str, ...] = ()

    def progress(self) -> dict[str, float]:
        """Of each user: the sum of the values of running jobs (AlloX, section 3.3.2)."""
        progress = dict.fromkeys(self.users, 0.0)
        for one in self.running:
            progress[one.job.user] = progress.get(one.job.user, 0.0) + one.job.value_on(one.kind)
        return progress


@dataclass(frozen=True, slots=True)
class Choice:
    """`starts`: jobs to start now. `preempted`: running jobs that stop before, with what they have done; each may be
    among the starts again."""

    starts: tuple[Start, ...] = ()
    preempted: tuple[str, ...] = ()


@dataclass(slots=True)
class FreeMachines:
    """The free machines of each kind, which jobs take one by one, that of the lowest index first."""

    machines: list[list[int]]
    starts: list[Start] = field(default_factory=list)

    @classmethod
    def of(cls, free_in: Sequence[Sequence[float]]) -> "FreeMachines":
        """The machines that are free now."""
        return cls([[index for index, wait in enumerate(waits) if wait == 0] for waits in free_in])

    def has(self, kind: int) -> bool:
        """Whether a machine of this kind is free."""
        return bool(self.machines[kind])

    @property
    def any(self) -> bool:
        """Whether any machine is free."""
        return any(self.machines)

    def start(self, job: Job, kind: int) -> None:
        """Start a job on the first free machine of a kind."""
        self.starts.append(Start(job.id, kind, self.machines[kind].pop(0)))

    def choice(self) -> Choice:
        """What was started."""
        return Choice(tuple(self.starts))


def sides(jobs: Sequence[Job]) -> Iterator[tuple[float, int, int, Job]]:
    """Every side of every job that is usable: seconds, the job's place in the queue, kind, job."""
    for place, job in enumerate(jobs):
        for kind, seconds in enumerate(job.times):
            if seconds is not None:
                yield seconds, place, kind, job


def fastest_kind(job: Job) -> int:
    """The side on which a job takes the least time; of equal ones, the first."""
    return min((seconds, kind) for kind, seconds in enumerate(job.times) if seconds is not None)[1]


def shortest(jobs: Sequence[Job], kind: int) -> Job | None:
    """The job with the least time on a kind; of equal ones, the first; None: no job can run there."""
    usable = [job for job in jobs if job.times[kind] is not None]
    return min(usable, key=lambda job: job.times[kind] or 0.0, default=None)
