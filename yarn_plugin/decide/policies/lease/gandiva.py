"""Gandiva: placement preferences, the highest first (thesis, section 3.6.1).

Each job reports 1 / S for the placement that makes it fastest; the job with the highest gets it, then the rest report
again. Ties: the most GPUs, for which places are rarest; then the earlier arrival, then the name. Time slicing and
packing of several jobs on one GPU are left out, as in the thesis.
"""

from yarn_plugin.decide.policies.lease.order import Rank, serve_best_first
from yarn_plugin.decide.policies.lease.packed_allocation import PackedAllocation
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs by placement preference."""
    allocation = PackedAllocation(problem.machines)

    def rank(one: tuple[AppStatus, Job]) -> Rank | None:
        app, job = one
        option = allocation.best(app.app, job)
        return None if option is None else (option.slowdown, -option.gpus, app.arrived_at, app.app, job.id)

    def serve(one: tuple[AppStatus, Job]) -> bool:
        app, job = one
        option = allocation.best(app.app, job)
        return option is not None and allocation.give(app.app, job, option.gpus) > 0

    serve_best_first([(app, job) for app in problem.apps for job in app.jobs], rank, serve)
    return allocation.assignments()
