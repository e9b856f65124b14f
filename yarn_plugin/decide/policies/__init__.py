"""Policies: one file, one policy, found by its name.

A policy of shares keeps this contract (tests/contract/test_share_policy.py holds every policy to it):

1. Guarantees and entitlements of all claims together never exceed the pool's capacity, in any resource.
2. Nobody is entitled to more than it can use.
3. Work-conserving: something stays undivided only when everyone has all that it can use of it.
4. The same snapshot and policy state give the same decision.
5. Every claim gets a grant, and every grant a reason that a person can read.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant

POLICIES = ("max_min",)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a policy sees of its pool: capacity, and the claims in the order in which applications arrived."""

    capacity: Resources
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy decided: a grant and a reason for every application, and what it wants to remember."""

    grants: dict[str, Grant]
    reasons: dict[str, str]
    policy_state: Any = field(default=None)


class SharePolicy(Protocol):
    """Who gets how much. A module with this function is a policy of shares."""

    def decide(self, snapshot: Snapshot, policy_state: Any) -> Decision:
        """Divide the capacity among the claims."""
        ...


def find(name: str) -> SharePolicy:
    """The policy of this name.

    Raises:
        BadInputError: there is none.
    """
    if name not in POLICIES:
        raise BadInputError("policy", name, f"choose one of {', '.join(POLICIES)}")
    return cast(SharePolicy, import_module(f"{__name__}.{name}"))
