"""Where rounds of leases are: in pools of their own, in an auction on a ledger, and in those of virtual clusters."""

from collections.abc import Iterator

from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsState
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.ledger import LedgerState


def lease_rounds(pool: str, state: object) -> Iterator[tuple[str, LeaseState]]:
    """What a pool's controller knows of its rounds, from its state, by where they are: the pool, or a virtual cluster
    (`pool/name`). None for other controllers and allocators."""
    match state:
        case LeaseState():
            yield pool, state
        case LedgerState(allocated=LeaseState() as allocated):
            yield pool, allocated
        case LedgerState(allocated=BuddyCellsState(guests=guests)):
            for name, guest in guests.items():
                if isinstance(guest.allocated, LeaseState):
                    yield f"{pool}/{name}", guest.allocated
