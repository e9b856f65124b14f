"""Share policies, one per module, registered by name (see `yarn_plugin.decide.pools.controller.Registry`).

The contract of a share policy (tests/contract/test_share_policy.py checks every policy):

1. The guarantees of all claims together never exceed the pool's capacity in any resource, nor do the entitlements.
2. No claim is entitled to more than its demand.
3. Work-conserving: capacity stays unallocated only when every claim has all that it can use of it.
4. Deterministic: the same snapshot and policy state give the same decision.
5. Every claim gets a grant, and every grant an explanation.

A policy reads only the first alternative of a demand: choosing among alternatives is for controllers that match claims
to resources.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from yarn_plugin.decide.policies.dominant_shares import Proportions
from yarn_plugin.model.causes import Explanation
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A policy's input: the pool's capacity, and its claims in order of arrival.

    `proportions`: of claims and capacity, from earlier decisions where the caller keeps them.
    """

    capacity: Resources
    claims: tuple[Claim, ...]
    proportions: Proportions = field(default_factory=Proportions, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's output: a grant and its explanation for every application, and the policy's next state."""

    grants: dict[str, Grant]
    explanations: dict[str, Explanation]
    policy_state: Any = field(default=None)


class SharePolicy(Protocol):
    """A share policy: any module with this function.

    Its state is None, or of a type that the module's `TAGS` name for journals: {"my-policy/1": MyState}.
    """

    def decide(self, snapshot: Snapshot, policy_state: Any) -> Decision:
        """Divide the capacity among the claims."""
        ...
