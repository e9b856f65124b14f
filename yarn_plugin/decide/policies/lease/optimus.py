"""Optimus: throughput scaling, the highest first (thesis, section 3.6.1).

Each job reports its throughput with its next step of GPUs, placed as well as can be, over its throughput now; the job
with the highest ratio gets the step, then the rest report again. The ratio of a job without GPUs has no bound: such
jobs come first, the one with the least GPU time so far before the others, so that they take turns. Other ties: the
earlier arrival, then the name. A step that makes a job no faster is not taken, so GPUs may stay free.
"""

from math import inf

from yarn_plugin.decide.policies.lease.order import Rank, serve_best_first
from yarn_plugin.decide.policies.lease.packed_allocation import PackedAllocation
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs by throughput scaling."""
    allocation = PackedAllocation(problem.machines)

    def rank(one: tuple[AppStatus, Job]) -> Rank | None:
        app, job = one
        step = allocation.next_step(app.app, job)
        if step is None:
            return None
        now = allocation.speed(app.app, job)
        scaling = step.speed / now if now else inf
        served = 0.0 if now else job.attained_gpu_s
        return (-scaling, served, app.arrived_at, app.app, job.id) if scaling > 1 else None

    def serve(one: tuple[AppStatus, Job]) -> bool:
        app, job = one
        return allocation.step(app.app, job) > 0

    serve_best_first([(app, job) for app in problem.apps for job in app.jobs], rank, serve)
    return allocation.assignments()
