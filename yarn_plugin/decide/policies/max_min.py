"""Weighted max-min shares (QOOP section 2.3.2, Pseudocode 1).

An application's guarantee is w R / sum w: fairShare of line 11, with weights. Its entitlement adds what others leave
unused, divided by water-filling. The allocation in Pseudocode 1 (lines 4 to 7) is left to YARN's scheduler, which the
weights of the applications' queues steer.
"""

from typing import Any, Literal

from yarn_plugin.decide.mechanisms.water_filling import Filler, fill
from yarn_plugin.decide.policies import Decision, Snapshot
from yarn_plugin.model.causes import Explanation, WeightedShare
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant


def decide(snapshot: Snapshot, policy_state: Any) -> Decision:
    """Grant guarantees by weight and entitlements by water-filling."""
    capacity = snapshot.capacity
    names = [name for name, _ in capacity]
    fillers = [_filler(claim, capacity, names) for claim in snapshot.claims]
    entitled = fill(fillers, len(names))
    total = sum(claim.weight for claim in snapshot.claims)
    guarantees = {weight: _guarantee(capacity, weight, total) for weight in {one.weight for one in snapshot.claims}}
    grants: dict[str, Grant] = {}
    explanations: dict[str, Explanation] = {}
    for claim, filler, share in zip(snapshot.claims, fillers, entitled, strict=True):
        grants[claim.app] = grant = _grant(claim, capacity, guarantees[claim.weight], filler, share)
        explanations[claim.app] = _explanation(claim, total, len(fillers), grant)
    return Decision(grants, explanations, policy_state)


def _guarantee(capacity: Resources, weight: float, total: float) -> tuple[float, Resources]:
    """The guarantee of a weight, as a fraction and as amounts."""
    return weight / total, capacity.scaled(weight / total)


def _filler(claim: Claim, capacity: Resources, names: list[str]) -> Filler:
    if claim.demand is None:
        return Filler(claim.weight, (1.0,) * len(names), 1.0)
    wanted = claim.demand.alternatives[0]
    fractions = [wanted[name] / capacity[name] for name in names]
    limit = max(fractions, default=0.0)
    shape = tuple(fraction / limit for fraction in fractions) if limit > 0 else (0.0,) * len(names)
    return Filler(claim.weight, shape, min(limit, 1.0))


def _grant(
    claim: Claim, capacity: Resources, guarantee: tuple[float, Resources], filler: Filler, share: float
) -> Grant:
    parts = [
        (name, whole)
        for (name, amount), part in zip(capacity.amounts, filler.shape, strict=True)
        if (whole := int(amount * share * part + 1e-6))
    ]
    return Grant(
        current=claim.used.dominant_fraction(capacity),
        guarantee_fraction=guarantee[0],
        guarantee=guarantee[1],
        entitlement_fraction=share,
        entitlement=Resources(tuple(parts)),
    )


def _explanation(claim: Claim, total: float, apps: int, grant: Grant) -> WeightedShare:
    guarantee, entitlement = grant.guarantee_fraction, grant.entitlement_fraction
    by: Literal["guarantee", "others-want-less", "own-demand"] = "guarantee"
    if entitlement > guarantee + 1e-9:
        by = "others-want-less"
    elif entitlement < guarantee - 1e-9:
        by = "own-demand"
    return WeightedShare(claim.weight, total, apps, guarantee, entitlement, by)
