"""Between claims and the dominant shares that water-filling divides."""

from typing import Literal

from yarn_plugin.decide.mechanisms.water_filling import Filler
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant


def filler_of(claim: Claim, capacity: Resources) -> Filler:
    """A claim as a consumer of fractions of the capacity."""
    names = [name for name, _ in capacity]
    if claim.demand is None:
        return Filler(claim.weight, (1.0,) * len(names), 1.0)
    wanted = claim.demand.alternatives[0]
    fractions = [wanted[name] / capacity[name] for name in names]
    limit = max(fractions, default=0.0)
    shape = tuple(fraction / limit for fraction in fractions) if limit > 0 else (0.0,) * len(names)
    return Filler(claim.weight, shape, min(limit, 1.0))


def grant_of(
    claim: Claim, capacity: Resources, guarantee: tuple[float, Resources], filler: Filler, share: float
) -> Grant:
    """The grant of a guarantee (as a fraction and as amounts) and an entitlement to a dominant share."""
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


def entitled_by(grant: Grant) -> Literal["guarantee", "others-want-less", "own-demand"]:
    """What determines the entitlement."""
    guarantee, entitlement = grant.guarantee_fraction, grant.entitlement_fraction
    if entitlement > guarantee + 1e-9:
        return "others-want-less"
    return "own-demand" if entitlement < guarantee - 1e-9 else "guarantee"
