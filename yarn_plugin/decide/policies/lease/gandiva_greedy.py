"""Gandiva as in the simulator of Themis' authors: GPU by GPU, to the job that it makes fastest.

The next step of GPUs, as listed, goes to the job for which GPUs / S is highest with it; then the next. A job that has
some is preferred even if these are far away, so gangs are spread: the "greedy locally optimal packing decisions" of
section 3.6.2 of the thesis, where `gandiva` finds a place for a whole gang. Ties: the fewest GPUs, then the earlier
arrival, then the name.
"""

from collections.abc import Iterator

from yarn_plugin.decide.mechanisms.gang_placement import ListedGpus, Places, slowdown_factor
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.gangs import next_size
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job, Slowdown

Candidate = tuple[float, str, str, Job]
"""Arrival, application, id of the job, and the job."""

Rank = tuple[float, int, float, str, str]


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs one step after another."""
    gpus, places = ListedGpus(problem.machines), Places(problem.machines)
    allocation = Allocation(gpus)
    waiting = _Waiting(problem)

    def rank(one: Candidate) -> Rank | None:
        arrived_at, app, job_id, job = one
        now = allocation.size(app, job)
        larger = next_size(job, now)
        if larger is None or larger - now > allocation.free:
            return None
        slots = allocation.slots(app, job).union([slot for slot, _ in gpus.peek(larger - now)])
        return (-larger / slowdown_factor(job.slowdown, places.span_of(slots)), now, arrived_at, app, job_id)

    while allocation.free:
        ranked = [(place, one) for one in waiting.candidates() if (place := rank(one)) is not None]
        if not ranked:
            break
        _, (_, app, _, job) = chosen = min(ranked, key=lambda pair: pair[0])
        allocation.step(app, job)
        waiting.started(chosen[1], next_size(job, allocation.size(app, job)) is not None)
    return allocation.assignments()


class _Waiting:
    """Jobs that may get GPUs. Those without any differ in their first step and in their slowdown alone: of equal ones
    only the first in order can be next."""

    def __init__(self, problem: LeaseProblem) -> None:
        self._running: list[Candidate] = []
        self._fresh: dict[tuple[int, Slowdown], list[Candidate]] = {}
        for app in problem.apps:
            for job in app.jobs:
                one = (app.arrived_at, app.app, job.id, job)
                kin = self._fresh.setdefault((job.min_gpus, job.slowdown), [])
                if not job.held:
                    kin.append(one)
                elif next_size(job, sum([gpus for _, gpus in job.held])) is not None:
                    self._running.append(one)
        for kin in self._fresh.values():
            kin.sort(key=lambda one: one[:3], reverse=True)

    def candidates(self) -> Iterator[Candidate]:
        """Those of which one is next."""
        yield from self._running
        yield from (kin[-1] for kin in self._fresh.values() if kin)

    def started(self, candidate: Candidate, can_grow: bool) -> None:
        """A candidate has got GPUs."""
        kin = self._fresh[candidate[3].min_gpus, candidate[3].slowdown]
        if kin and kin[-1] is candidate:
            kin.pop()
        else:
            self._running.remove(candidate)
        if can_grow:
            self._running.append(candidate)
