"""Between claims and the dominant shares that water-filling divides."""

from collections.abc import Collection, Sequence
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


class Proportions:
    """What follows from claims and a capacity, kept while both are the same objects: most are at the next decision.

    Owned by whoever asks a policy again and again. Decisions do not depend on it.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Claim, Resources, Filler, float]] = {}
        self._entitled: dict[str, tuple[Filler, Resources, float, Resources]] = {}

    def begin(self, claims: Collection[Claim]) -> None:
        """These claims follow."""
        if len(self._known) > 2 * len(claims):
            self._known.clear()
            self._entitled.clear()

    def of(self, claim: Claim, capacity: Resources) -> tuple[Filler, float]:
        """A claim as a consumer of fractions of the capacity, and its current dominant share."""
        known = self._known.get(claim.app)
        if known is None or known[0] is not claim or known[1] is not capacity:
            filler, current = filler_of(claim, capacity), claim.used.dominant_fraction(capacity)
            known = self._known[claim.app] = claim, capacity, filler, current
        return known[2], known[3]

    def filler(self, claim: Claim, capacity: Resources) -> Filler:
        """A claim as a consumer of fractions of the capacity."""
        return self.of(claim, capacity)[0]

    def grant(self, claim: Claim, capacity: Resources, guarantee: tuple[float, Resources], share: float) -> Grant:
        """The grant of a guarantee (as a fraction and as amounts) and an entitlement to a dominant share."""
        filler, current = self.of(claim, capacity)
        known = self._entitled.get(claim.app)
        if known is None or known[0] is not filler or known[2] != share or known[1] is not capacity:
            known = self._entitled[claim.app] = filler, capacity, share, _entitlement(capacity, filler, share)
        return Grant(current, guarantee[0], guarantee[1], share, known[3])


def _entitlement(capacity: Resources, filler: Filler, share: float) -> Resources:
    parts = []
    for (name, amount), part in zip(capacity.amounts, filler.shape, strict=True):
        if whole := int(amount * share * part + 1e-6):
            parts.append((name, whole))
    return Resources(tuple(parts))


def in_turn(fillers: Sequence[Filler], room: Sequence[float], shares: Sequence[float] = ()) -> list[float]:
    """The dominant share of each filler, if the first gets all that it can use of the room (a fraction of each
    resource), then the next. `shares`: what they have already, which they keep."""
    left, found = list(room), []
    for place, filler in enumerate(fillers):
        has = shares[place] if shares else 0.0
        fits = [max(free, 0.0) / part for free, part in zip(left, filler.shape, strict=True) if part > 0]
        more = min([filler.limit - has, *fits])
        left = [free - more * part for free, part in zip(left, filler.shape, strict=True)]
        found.append(has + more)
    return found


def used_by(fillers: Sequence[Filler], shares: Sequence[float], resources: int) -> list[float]:
    """The fraction of each resource that these dominant shares are."""
    return [
        sum(share * filler.shape[r] for filler, share in zip(fillers, shares, strict=True)) for r in range(resources)
    ]


def entitled_by(grant: Grant) -> Literal["guarantee", "others-want-less", "own-demand"]:
    """What determines the entitlement."""
    guarantee, entitlement = grant.guarantee_fraction, grant.entitlement_fraction
    if entitlement > guarantee + 1e-9:
        return "others-want-less"
    return "own-demand" if entitlement < guarantee - 1e-9 else "guarantee"
