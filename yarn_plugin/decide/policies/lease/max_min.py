"""Weighted max-min shares of the GPUs, packed.

Progressive filling by GPUs over weight, as the share policy of the same name divides other resources; the GPUs of a job
are then those that span least, the largest gangs first. Ties: the earlier arrival, then the name.
"""

from yarn_plugin.decide.mechanisms.gang_placement import PackedGpus
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.filling import fill
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs so that the smallest weighted shares are as large as possible."""
    allocation = Allocation(PackedGpus(problem.machines))
    granted = fill(problem.apps, allocation.free, lambda app: app.weight)
    gangs = [
        (-gpus, app.arrived_at, app.app, job.id, job)
        for app in problem.apps
        for job in app.jobs
        if (gpus := granted.get((app.app, job.id), 0))
    ]
    for gpus, _, app_name, _, job in sorted(gangs, key=lambda gang: gang[:4]):
        allocation.give(app_name, job, -gpus)
    return allocation.assignments()
