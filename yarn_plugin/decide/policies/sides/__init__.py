"""Policies that choose which waiting jobs start, and on which side: on a GPU or on a slot of cores. One per module.

AlloX and the baselines of its evaluation (AlloX, sections 2.2 and 5.1.1). The contract
(tests/contract/test_side_policy.py checks every policy):

1. A job starts at most once, only where it can run, and on a machine that is free or that a preempted job leaves.
2. Only jobs that run are preempted; all policies but `srpt` preempt none.
3. Deterministic: equal queues give equal choices.
4. No deadlock: where no job runs, some job starts.
"""

from collections.abc import Mapping
from typing import Protocol

from yarn_plugin.decide.policies.sides import (
    allox,
    allox_plus,
    best_fit,
    drfa,
    drff,
    drfs,
    equal_share,
    jsq_plus,
    sjf_plus,
    srpt,
)
from yarn_plugin.decide.policies.sides.queue import Choice, Queue


class SidePolicy(Protocol):
    """A side policy: any module with this function."""

    def choose(self, queue: Queue) -> Choice:
        """What to start now."""
        ...


SIDE_POLICIES: Mapping[str, SidePolicy] = {
    "allox": allox,
    "allox_plus": allox_plus,
    "srpt": srpt,
    "sjf": sjf_plus,
    "sjf_plus": sjf_plus,
    "jsq_plus": jsq_plus,
    "bf": best_fit,
    "es": equal_share,
    "drff": drff,
    "drfs": drfs,
    "drfa": drfa,
}
"""The built-in policies by name. The authors' simulator has SJF+ as SJF."""
