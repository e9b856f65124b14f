"""What an application leases now, for those that begin to listen or have missed messages about it."""

from yarn_plugin.api import wire
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.pools.lease.derived import Inventories
from yarn_plugin.decide.pools.lease.inventory import Inventory
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.lease.state import Held, LeaseState
from yarn_plugin.decide.state import State
from yarn_plugin.model.topology import Topology

_NO_CELLS = Topology()


def leases(state: State, app: str, seq: int, offset: float, inventories: Inventories) -> wire.Leases | None:
    """The leases of an application (the arbiter's id) that have begun; None where its pool leases nothing.

    `seq`: of a decision that the state includes. `offset`: added to the arbiter's time for wall-clock times.
    `inventories`: the caller's.
    """
    pool = home_of(state, app)
    kept = state.pool_states.get(pool.name) if pool is not None else None
    if pool is None or kept is None or not isinstance(kept.state, LeaseState):
        return None
    settings = pool.parameters if isinstance(pool.parameters, LeaseSettings) else LeaseSettings()
    known = inventories.of(state.cells or _NO_CELLS, settings)
    mine = [held for held in kept.state.leases.values() if held.lease.app == app and held.started_at is not None]
    return wire.Leases(
        id=f"{pool.name}@{seq}",
        app=app,
        pool=pool.name,
        seq=seq,
        leases=[_lease(held, known, offset) for held in mine],
    )


def _lease(held: Held, known: Inventory, offset: float) -> wire.Lease:
    lease = known.located(held.lease)
    return wire.Lease(
        id=lease.id,
        job=lease.job,
        holdings=[wire.Holding.model_validate(one, from_attributes=True) for one in lease.holdings],
        until=None if lease.until is None else lease.until + offset,
        revoked=list(held.leaving),
        vacate_by=None if held.by is None else held.by + offset,
    )
