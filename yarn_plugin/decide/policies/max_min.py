"""Weighted max-min shares (QOOP section 2.3.2, Pseudocode 1).

An application's guarantee is w R / sum w: fairShare of line 11, with weights. Its entitlement adds what others leave
unused, divided by water-filling. The allocation in Pseudocode 1 (lines 4 to 7) is left to YARN's scheduler, which the
weights of the applications' queues steer.
"""

from typing import Any

from yarn_plugin.decide.mechanisms.water_filling import fill
from yarn_plugin.decide.policies import Decision, Snapshot
from yarn_plugin.decide.policies.dominant_shares import entitled_by
from yarn_plugin.model.causes import Explanation, WeightedShare
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant


def decide(snapshot: Snapshot, policy_state: Any) -> Decision:
    """Grant guarantees by weight and entitlements by water-filling."""
    capacity, proportions = snapshot.capacity, snapshot.proportions
    proportions.begin(snapshot.claims)
    fillers = [proportions.filler(claim, capacity) for claim in snapshot.claims]
    entitled = fill(fillers, len(capacity.amounts))
    total = sum(claim.weight for claim in snapshot.claims)
    guarantees = {weight: _guarantee(capacity, weight, total) for weight in {one.weight for one in snapshot.claims}}
    grants: dict[str, Grant] = {}
    explanations: dict[str, Explanation] = {}
    for claim, share in zip(snapshot.claims, entitled, strict=True):
        grants[claim.app] = grant = proportions.grant(claim, capacity, guarantees[claim.weight], share)
        explanations[claim.app] = _explanation(claim, total, len(fillers), grant)
    return Decision(grants, explanations, policy_state)


def _guarantee(capacity: Resources, weight: float, total: float) -> tuple[float, Resources]:
    """The guarantee of a weight, as a fraction and as amounts."""
    return weight / total, capacity.scaled(weight / total)


def _explanation(claim: Claim, total: float, apps: int, grant: Grant) -> WeightedShare:
    guarantee, entitlement = grant.guarantee_fraction, grant.entitlement_fraction
    return WeightedShare(claim.weight, total, apps, guarantee, entitlement, entitled_by(grant))
