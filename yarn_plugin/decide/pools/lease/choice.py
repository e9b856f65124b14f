"""Who is offered the GPUs of a round."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """An application before a round. `rho`: its finish-time fairness, None if unbounded. `is_known`: it has answered in
    this or an earlier round. `waited`: seconds since its arrival. `ideal`: `T_id` in seconds, None if not known.
    `is_ahead`: it has had more than its part (see `service`)."""

    app: str
    rho: float | None
    is_known: bool
    waited: float
    ideal: float | None = None
    is_ahead: bool = False


def worst_first(standings: Sequence[Standing]) -> list[str]:
    """The applications by finish-time fairness, the worst first.

    Unbounded ones come first, by wait / `T_id` (if that is not known: the mean of those known). Those that never
    answered come last: they would occupy the places of applications that want GPUs. Before these come those that are
    ahead.
    """
    known = [one.ideal for one in standings if one.ideal]
    mean = sum(known) / len(known) if known else 1.0

    def key(one: Standing) -> tuple[bool, bool, bool, float, str]:
        urgency = one.waited / (one.ideal or mean) if one.rho is None else one.rho
        return not one.is_known, one.is_ahead, one.rho is not None, -urgency, one.app

    return [one.app for one in sorted(standings, key=key)]


def bidders(ranked: Sequence[str], f: float, most: int | None = None) -> tuple[str, ...]:
    """The worst max(1, ceil((1 - f) N)) of N applications (thesis, section 3.4.2.2), at most `most`."""
    # A little less than the exact product: (1 - 0.8) * 5 must not become 2.
    count = max(1, math.ceil((1 - f) * len(ranked) - 1e-9))
    return tuple(ranked[: count if most is None else min(count, most)])


def bidders_of_users(
    ranked: Sequence[str], users: Mapping[str, str], f: float, each: int, most: int | None = None
) -> tuple[str, ...]:
    """The same of N users, by their worst application: of each the worst `each` applications.

    `users`: by application.
    """
    worst = bidders(list(dict.fromkeys(users[app] for app in ranked)), f)
    chosen, count = list[str](), Counter[str]()
    for app in ranked:
        if users[app] in worst and count[users[app]] < each:
            chosen.append(app)
            count[users[app]] += 1
    return tuple(chosen[:most])
