"""First in, first out, as a leaf queue of YARN's CapacityScheduler serves its applications.

The application that arrived first is entitled to all that it can use, the next to what that leaves, and so on. What
cannot be taken away is the same as what it may hold now: guarantee and entitlement are one.
"""

from typing import Any

from yarn_plugin.decide.policies import Decision, Snapshot
from yarn_plugin.decide.policies.dominant_shares import in_turn
from yarn_plugin.model.causes import Explanation, WeightedShare
from yarn_plugin.model.share import Grant


def decide(snapshot: Snapshot, policy_state: Any) -> Decision:
    """Serve applications in order of arrival."""
    capacity, proportions = snapshot.capacity, snapshot.proportions
    proportions.begin(snapshot.claims)
    fillers = [proportions.filler(claim, capacity) for claim in snapshot.claims]
    shares = in_turn(fillers, [1.0] * len(capacity.amounts))
    total = sum(claim.weight for claim in snapshot.claims)
    grants: dict[str, Grant] = {}
    explanations: dict[str, Explanation] = {}
    for claim, share in zip(snapshot.claims, shares, strict=True):
        whole = proportions.grant(claim, capacity, (share, capacity), share)
        grants[claim.app] = Grant(whole.current, share, whole.entitlement, share, whole.entitlement)
        explanations[claim.app] = WeightedShare(claim.weight, total, len(fillers), share, share, "guarantee")
    return Decision(grants, explanations, policy_state)
