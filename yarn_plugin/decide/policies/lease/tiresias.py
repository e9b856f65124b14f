"""Tiresias: least attained service (thesis, section 3.6.1).

The application with the fewest GPU seconds so far gets what it can use, then the next. Within an application, the job
with the fewest GPU seconds comes first. Service counts in whole microseconds, so that the rounding of sums decides
nothing. Ties: the earlier arrival, then the name. Taken from the thesis' description: no queues with thresholds as in
Tiresias itself, no weights, and no regard for placement: GPUs are given as listed.
"""

from yarn_plugin.decide.policies.lease.allocation import serve_in_turn
from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.model.gpus import Job


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs by least attained service."""
    return serve_in_turn(problem, _service_us, _service_us)


def _service_us(one: AppStatus | Job) -> int:
    return round(one.attained_gpu_s * 1e6)
