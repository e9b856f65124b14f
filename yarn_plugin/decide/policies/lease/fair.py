"""As YARN's FairScheduler divides one queue: equal shares of the GPUs by weight, whatever the applications did before.

Progressive filling by GPUs over weight. No regard for placement: GPUs are given as listed, in order of arrival.
"""

from yarn_plugin.decide.mechanisms.gang_placement import ListedGpus
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.filling import fill
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs so that the smallest weighted shares are as large as possible."""
    allocation = Allocation(ListedGpus(problem.machines))
    granted = fill(problem.apps, allocation.free, lambda app: app.weight)
    for app in sorted(problem.apps, key=lambda one: (one.arrived_at, one.app)):
        for job in sorted(app.jobs, key=lambda one: one.id):
            allocation.give(app.app, job, granted.get((app.app, job.id), 0))
    return allocation.assignments()
