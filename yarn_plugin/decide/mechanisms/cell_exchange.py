"""Balanced exchange of cells between virtual clusters (an earlier version of HiveD, section 3.3, Algorithm 2).

Tenants offer cells that they do not use for an interval, and request cells beyond their own. Who has given the most
(the highest surplus) is served first, from those who have given the least. The paper leaves open, and we decide:

- A request of several cells is served as a whole or not at all; it is removed when it is served, an offer is used up
  cell by cell. Nobody is served by itself.
- The surplus counts GPU hours, and may be negative without a bound. Ties go to the name that sorts first.
- The order of tenants follows the surplus after every match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellRequest:
    """So many cells for a tenant, together."""

    tenant: str
    cells: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that is served. `givers`: the tenant that gives each cell."""

    request: CellRequest
    givers: tuple[str, ...]


def exchange(
    requests: Sequence[CellRequest], offers: Mapping[str, int], surplus: Mapping[str, float], gpu_hours: float
) -> tuple[list[Exchange], dict[str, float]]:
    """Match requests and offers of equal cells; the matches, and the surplus of each tenant after them.

    Args:
        requests: a tenant's first ones are served first.
        offers: how many cells each tenant offers.
        surplus: GPU hours that each tenant has given more than it took; 0 where absent.
        gpu_hours: those of one cell in the interval.
    """
    left, now = dict(offers), dict(surplus)
    waiting: dict[str, list[CellRequest]] = {}
    for request in requests:
        waiting.setdefault(request.tenant, []).append(request)
    found: list[Exchange] = []
    while (match := _match(waiting, left, now)) is not None:
        found.append(match)
        taker = match.request.tenant
        waiting[taker].remove(match.request)
        for giver in match.givers:
            left[giver] -= 1
            now[giver] = now.get(giver, 0.0) + gpu_hours
            now[taker] = now.get(taker, 0.0) - gpu_hours
    return found, now


def _match(
    waiting: Mapping[str, Sequence[CellRequest]], offers: Mapping[str, int], surplus: Mapping[str, float]
) -> Exchange | None:
    def by_surplus(tenant: str) -> tuple[float, str]:
        return surplus.get(tenant, 0.0), tenant

    for tenant in sorted(waiting, key=lambda name: (-surplus.get(name, 0.0), name)):
        givers = [giver for giver in sorted(offers, key=by_surplus) if giver != tenant for _ in range(offers[giver])]
        for request in waiting[tenant]:
            if request.cells <= len(givers):
                return Exchange(request, tuple(givers[: request.cells]))
    return None
