"""Policies: one file, one policy, found by its name (see `yarn_plugin.decide.pools.controller.Registry`).

A policy of shares keeps this contract (tests/contract/test_share_policy.py holds every policy to it):

1. Guarantees and entitlements of all claims together never exceed the pool's capacity, in any resource.
2. Nobody is entitled to more than it can use.
3. Work-conserving: something stays undivided only when everyone has all that it can use of it.
4. The same snapshot and policy state give the same decision.
5. Every claim gets a grant, and every grant an explanation.

Of a claim's demand it reads the first alternative only: which of several somebody is to have is for controllers that
match claims to resources.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from yarn_plugin.model.causes import Explanation
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a policy sees of its pool: capacity, and the claims in the order in which applications arrived."""

    capacity: Resources
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy decided: a grant and its explanation for every application, and what it wants to remember."""

    grants: dict[str, Grant]
    explanations: dict[str, Explanation]
    policy_state: Any = field(default=None)


class SharePolicy(Protocol):
    """Who gets how much. A module with this function is a policy of shares.

    What it remembers is None, or of a type that the module's `TAGS` names for journals: {"my-policy/1": MyState}.
    """

    def decide(self, snapshot: Snapshot, policy_state: Any) -> Decision:
        """Divide the capacity among the claims."""
        ...
