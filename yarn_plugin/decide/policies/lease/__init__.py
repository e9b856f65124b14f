"""Policies that lease GPUs without an auction, one per module: the baselines of Themis (thesis, section 3.6.1).

The contract (tests/contract/test_lease_policy.py checks every policy):

1. Assignments never exceed the free GPUs of any slot, and name jobs of the problem, each at most once.
2. A job ends up with a number of GPUs that it can use: min, min + step, ... up to max; jobs only gain GPUs.
3. Work-conserving: GPUs stay free only when no job can use as many as are left, or, for a policy that regards
   placement, when they would make no job faster.
4. Deterministic: equal problems give equal assignments, in whatever order applications and jobs are listed.
"""

from collections.abc import Mapping
from typing import Protocol

from yarn_plugin.decide.policies.lease import (
    drf,
    fair,
    fifo,
    gandiva,
    gandiva_greedy,
    max_min,
    optimus,
    slaq,
    srsf,
    srtf,
    tiresias,
)
from yarn_plugin.decide.policies.leasing import Assignment, LeaseProblem


class LeasePolicy(Protocol):
    """A lease policy: any module with this function."""

    def allocate(self, problem: LeaseProblem) -> tuple[Assignment, ...]:
        """Free GPUs for jobs."""
        ...


LEASE_POLICIES: Mapping[str, LeasePolicy] = {
    "gandiva": gandiva,
    "gandiva_greedy": gandiva_greedy,
    "tiresias": tiresias,
    "optimus": optimus,
    "slaq": slaq,
    "srtf": srtf,
    "srsf": srsf,
    "drf": drf,
    "max_min": max_min,
    "fifo": fifo,
    "fair": fair,
}
"""The built-in policies by name."""
