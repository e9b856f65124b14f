"""Dominant resource fairness: equal dominant shares, which are shares of the GPUs (thesis, section 3.3.1).

Progressive filling: the application with the fewest GPUs gets the next step that a job of it can use. No weights and no
regard for placement: the GPUs are then given as listed, in order of arrival.
"""

from yarn_plugin.decide.policies.lease.filling import divide
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs so that the smallest dominant shares are as large as possible."""
    return divide(problem, lambda app: 1.0)
