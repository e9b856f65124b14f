"""Progressive filling with gangs: the next step always goes to the application with the fewest GPUs for its weight."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from yarn_plugin.decide.mechanisms.gang_placement import ListedGpus
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.gangs import next_size
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job

Granted = dict[tuple[str, str], int]
"""How many GPUs a job (application, id) gets in addition to those that it holds."""


def divide(problem: LeaseProblem, weight: Callable[[AppStatus], float]) -> tuple[Assignment, ...]:
    """Fill progressively by weight; the GPUs are then given as listed, in order of arrival."""
    allocation = Allocation(ListedGpus(problem.machines))
    granted = fill(problem.apps, allocation.free, weight)
    for app in sorted(problem.apps, key=lambda one: (one.arrived_at, one.app)):
        for job in sorted(app.jobs, key=lambda one: one.id):
            allocation.give(app.app, job, granted.get((app.app, job.id), 0))
    return allocation.assignments()


def fill(apps: Sequence[AppStatus], free: int, weight: Callable[[AppStatus], float]) -> Granted:
    """Divide `free` GPUs: max-min fair over what the applications hold and get, in the steps that their jobs can use.

    Within an application, the job with the fewest GPUs comes next. Ties: the earlier arrival, then the name.
    """
    granted: Granted = {}
    queue = [_Filling(app, weight(app)) for app in apps]
    heapify(queue)
    while queue and free:
        app = heappop(queue)
        step = app.take_step(free)
        if step is None:
            continue
        job, gpus = step
        free -= gpus
        granted[app.name, job] = granted.get((app.name, job), 0) + gpus
        heappush(queue, app)
    return granted


class _Filling:
    """An application that is being given GPUs; smaller means next."""

    def __init__(self, app: AppStatus, weight: float) -> None:
        self.name, self._arrived_at, self._weight = app.app, app.arrived_at, weight
        self._jobs: list[tuple[int, str, Job]] = [(sum([n for _, n in job.held]), job.id, job) for job in app.jobs]
        self._gpus = sum(held for held, _, _ in self._jobs)
        heapify(self._jobs)

    def __lt__(self, other: "_Filling") -> bool:
        return self._order() < other._order()

    def _order(self) -> tuple[float, float, str]:
        return self._gpus / self._weight, self._arrived_at, self.name

    def take_step(self, free: int) -> tuple[str, int] | None:
        """The job to get its next step, and how many GPUs; None if no job can use any. Jobs that cannot drop out: the
        free GPUs only become fewer."""
        while self._jobs:
            now, name, job = heappop(self._jobs)
            larger = next_size(job, now)
            if larger is None or larger - now > free:
                continue
            heappush(self._jobs, (larger, name, job))
            self._gpus += larger - now
            return name, larger - now
        return None
