"""The queue of opportunistic work before the allocator: weighted max-min over tenants (HiveD, section 3.2).

The paper has one sentence about it. Ours: whenever something has changed, the tenant with the fewest opportunistic
leaves for its weight is asked first, its oldest gang first; a gang that does not fit is passed over, and the next one
is tried, so that nothing idles while something fits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """An opportunistic gang that waits."""

    gang: str
    tenant: str
    leaves: int


def start_in_turn(
    waiting: Sequence[Waiting],
    held: Mapping[str, int],
    weights: Mapping[str, float],
    start: Callable[[str], bool],
) -> tuple[str, ...]:
    """Start what fits. Returns what was started, in order.

    `waiting`: oldest first. `held`: the opportunistic leaves of each tenant, 0 if absent. `weights`: positive, 1 if
    absent. `start`: starts a gang if it fits.
    """
    use = {gang.tenant: held.get(gang.tenant, 0) for gang in waiting}
    left: dict[str, list[int]] = {}
    for position, gang in enumerate(waiting):
        left.setdefault(gang.tenant, []).append(position)
    for positions in left.values():
        positions.reverse()
    started: list[str] = []
    while left:
        tenant = min(left, key=lambda name: (use[name] / weights.get(name, 1.0), left[name][-1]))
        gang = waiting[left[tenant].pop()]
        if not left[tenant]:
            del left[tenant]
        if start(gang.gang):
            use[tenant] += gang.leaves
            started.append(gang.gang)
    return tuple(started)
