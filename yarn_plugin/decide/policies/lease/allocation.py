"""The GPUs that a policy has given to jobs so far, within one decision."""

from collections.abc import Callable

from yarn_plugin.decide.mechanisms.gang_placement import Choice, ListedGpus, PackedGpus, combined
from yarn_plugin.decide.policies.lease.gangs import largest_size, next_size
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job

NONE: tuple[int, frozenset[str]] = (0, frozenset())


class Allocation:
    """Gives free GPUs to jobs, in sizes that they can use. `gpus`: the free GPUs, which are taken from it."""

    def __init__(self, gpus: ListedGpus | PackedGpus) -> None:
        self._gpus = gpus
        self._given: dict[tuple[str, str], Choice] = {}
        self._had: dict[tuple[str, str], tuple[int, frozenset[str]]] = {}

    @property
    def free(self) -> int:
        """How many GPUs are free."""
        return self._gpus.total

    @property
    def is_empty(self) -> bool:
        """Whether no GPUs are free."""
        return self._gpus.up_to(1) == 0

    def size(self, app: str, job: Job) -> int:
        """How many GPUs a job has: held and given."""
        return self._has(app, job)[0]

    def slots(self, app: str, job: Job) -> frozenset[str]:
        """The slots in which a job has GPUs."""
        return self._has(app, job)[1]

    def _has(self, app: str, job: Job) -> tuple[int, frozenset[str]]:
        has = self._had.get((app, job.id))
        if has is None:
            has = (sum([gpus for _, gpus in job.held]), frozenset([slot for slot, _ in job.held])) if job.held else NONE
        return has

    def fill(self, app: str, job: Job) -> int:
        """Give a job as many GPUs as it can use and there are; how many it got."""
        now = self.size(app, job)
        if now >= job.max_gpus:
            return 0
        return self.give(app, job, max(largest_size(job, now + self._gpus.up_to(job.max_gpus - now)) - now, 0))

    def step(self, app: str, job: Job) -> int:
        """Give a job the next step that it can use, if there are as many GPUs; how many it got."""
        now = self.size(app, job)
        larger = next_size(job, now)
        if larger is None or self._gpus.up_to(larger - now) < larger - now:
            return 0
        return self.give(app, job, larger - now)

    def give(self, app: str, job: Job, gpus: int) -> int:
        """Give a job so many GPUs, at most `free`; how many it got."""
        if gpus:
            now, slots = self._has(app, job)
            taken = self._gpus.take(gpus, slots)
            self._given.setdefault((app, job.id), []).extend(taken)
            self._had[app, job.id] = now + gpus, slots.union([slot for slot, _ in taken])
        return gpus

    def assignments(self) -> tuple[Assignment, ...]:
        """What was given, sorted by application and job."""
        return tuple(Assignment(app, job, combined(self._given[app, job])) for app, job in sorted(self._given))


def serve_in_turn(
    problem: LeaseProblem,
    app_rank: Callable[[AppStatus], float] = lambda app: 0.0,
    job_rank: Callable[[Job], float] = lambda job: 0.0,
) -> tuple[Assignment, ...]:
    """Give each application what it can use, the one with the smallest rank first, and so each of its jobs. GPUs are
    given as listed. Ties: the earlier arrival, then the name."""
    allocation = Allocation(ListedGpus(problem.machines))
    for app in sorted(problem.apps, key=lambda one: (app_rank(one), one.arrived_at, one.app)):
        if allocation.is_empty:
            break
        for job in sorted(app.jobs, key=lambda one: (job_rank(one), one.id)):
            allocation.fill(app.app, job)
    return allocation.assignments()
