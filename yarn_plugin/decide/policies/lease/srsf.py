"""Shortest remaining service first (thesis, section 3.6.1).

The application with the least remaining service, the GPU seconds of all its unfinished work, gets what it can use, then
the next. Within an application, the job with the least remaining service comes first. Ties: the earlier arrival, then
the name. No regard for placement: GPUs are given one after another, as listed.
"""

from yarn_plugin.decide.policies.lease.allocation import serve_in_turn
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs by shortest remaining service."""
    return serve_in_turn(problem, _remaining_gpu_s, _service_s)


def _remaining_gpu_s(app: AppStatus) -> float:
    return sum([_service_s(job) for job in app.jobs])


def _service_s(job: Job) -> float:
    return job.iterations_left * job.iteration_s
