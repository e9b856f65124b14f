"""First in, first out, as a queue of YARN without preemption gives GPUs out.

The application that arrived first gets what it can use, then the next. Within an application, jobs in the order of
their names. A job that does not fit is passed over, since its application may have smaller ones. No regard for
placement: GPUs are given as listed.
"""

from yarn_plugin.decide.policies.lease.allocation import serve_in_turn
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs in order of arrival."""
    return serve_in_turn(problem)
