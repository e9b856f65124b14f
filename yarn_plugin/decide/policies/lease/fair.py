"""As YARN's FairScheduler divides one queue: equal shares of the GPUs by weight, whatever the applications did before.

Progressive filling by GPUs over weight. No regard for placement: GPUs are given as listed, in order of arrival.
"""

from yarn_plugin.decide.policies.lease.filling import divide
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


def allocate(problem: LeaseProblem) -> tuple[Assignment, ...]:
    """Give free GPUs so that the smallest weighted shares are as large as possible."""
    return divide(problem, lambda app: app.weight)
