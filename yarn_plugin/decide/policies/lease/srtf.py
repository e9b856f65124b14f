"""Shortest remaining time first (thesis, section 3.6.1).

Each application reports its remaining time with the free GPUs, placed as well as can be; the one with the shortest gets
what it can use, then the rest report again. The remaining time of several jobs is the longer of that of its longest
job, and that of all their work on as many GPUs as they can use and there are. Within an application, the longest job
comes first: the application ends with its last. Ties: the earlier arrival, then the name.
"""

from yarn_plugin.decide.policies.lease.gangs import largest_size
from yarn_plugin.decide.policies.lease.order import Rank, serve_best_first
from yarn_plugin.decide.policies.lease.packed_allocation import PackedAllocation
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs by shortest remaining time."""
    allocation = PackedAllocation(problem.machines)

    def rank(app: AppStatus) -> Rank | None:
        remaining = remaining_s(app, allocation)
        return None if remaining is None else (remaining, app.arrived_at, app.app)

    def serve(app: AppStatus) -> bool:
        for job in sorted(app.jobs, key=lambda one: (-_work_s(one), one.id)):
            option = allocation.best(app.app, job)
            if option is not None:
                allocation.give(app.app, job, option.gpus)
        return False

    serve_best_first(problem.apps, rank, serve)
    return allocation.assignments()


def remaining_s(app: AppStatus, allocation: PackedAllocation) -> float | None:
    """Of an application with the GPUs that are free, in seconds; None if it can use none of them."""
    if not allocation.free:
        return None
    longest, work, useful, had, gains = 0.0, 0.0, 0, 0, False
    for job in app.jobs:
        option = allocation.best(app.app, job)
        gains = gains or option is not None
        speed = option.speed if option is not None else allocation.speed(app.app, job)
        if speed:
            longest = max(longest, _work_s(job) / speed)
        work += _work_s(job)
        now = allocation.size(app.app, job)
        had += now
        useful += max(now, largest_size(job, now + allocation.free))
    return max(longest, work / min(useful, had + allocation.free)) if gains else None


def _work_s(job: Job) -> float:
    """Its remaining work in GPU seconds."""
    return job.iterations_left * job.iteration_s
