"""Dominant resource fairness: equal dominant shares, which are shares of the GPUs (thesis, section 3.3.1).

Progressive filling: the application with the fewest GPUs gets the next step that a job of it can use. No weights and no
regard for placement: the GPUs are then given as listed, in order of arrival.
"""

from yarn_plugin.decide.mechanisms.gang_placement import ListedGpus
from yarn_plugin.decide.policies.lease.allocation import Allocation
from yarn_plugin.decide.policies.lease.filling import fill
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs so that the smallest dominant shares are as large as possible."""
    allocation = Allocation(ListedGpus(problem.machines))
    granted = fill(problem.apps, allocation.free, lambda app: 1.0)
    for app in sorted(problem.apps, key=lambda one: (one.arrived_at, one.app)):
        for job in sorted(app.jobs, key=lambda one: one.id):
            allocation.give(app.app, job, granted.get((app.app, job.id), 0))
    return allocation.assignments()
