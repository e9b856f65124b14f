"""What an application leases now, for those that begin to listen or have missed messages about it."""

from collections.abc import Sequence

from yarn_plugin.api import wire
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.told import told, told_cells
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.pools.lease.derived import Inventories
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.ledger import LedgerState, cells_of_pool
from yarn_plugin.decide.state import State
from yarn_plugin.model.share import Lease, Pool
from yarn_plugin.model.topology import Topology

_NO_CELLS = Topology()


def leased_gpus(state: object) -> int | None:
    """The usable GPUs of a pool that leases cells, from its controller's state; None if it is of another kind."""
    match state:
        case LeaseState():
            return sum(count for _, count in state.machines)
        case LedgerState():
            return sum(node.gpus for node in state.ledger.nodes.values())
        case _:
            return None


def leases(state: State, app: str, seq: int, offset: float, inventories: Inventories) -> wire.Leases | None:
    """The leases of an application (the arbiter's id) that have begun; None where its pool leases nothing.

    `seq`: of a decision that the state includes. `offset`: added to the arbiter's time for wall-clock times.
    `inventories`: the caller's.
    """
    pool = home_of(state, app)
    kept = state.pool_states.get(pool.name) if pool is not None else None
    if pool is None or kept is None:
        return None
    match kept.state:
        case LeaseState():
            mine = _of_rounds(state, pool, kept.state, app, offset, inventories)
        case LedgerState():
            mine = _of_ledger(state, pool, kept.state, app, offset)
        case _:
            return None
    return wire.Leases(id=f"{pool.name}@{seq}", app=app, pool=pool.name, seq=seq, leases=mine)


def _of_rounds(
    state: State, pool: Pool, leased: LeaseState, app: str, offset: float, inventories: Inventories
) -> list[wire.Lease]:
    settings = pool.parameters if isinstance(pool.parameters, LeaseSettings) else LeaseSettings()
    known = inventories.of(state.cells or _NO_CELLS, settings)
    mine = [held for held in leased.leases.values() if held.lease.app == app and held.started_at is not None]
    return [_lease(known.located(held.lease), held.leaving, held.by, offset) for held in mine]


def _of_ledger(state: State, pool: Pool, leased: LedgerState, app: str, offset: float) -> list[wire.Lease]:
    assert isinstance(pool.parameters, LedgerSettings)
    cells = cells_of_pool(state.cells or Topology(), pool.parameters)
    mine = [one for one in leased.ledger.leases.values() if one.app == app and one.is_started]
    return [_lease(told(one, cells), told_cells(one, one.leased.leaving), one.leased.by, offset) for one in mine]


def _lease(lease: Lease, leaving: Sequence[str], by: float | None, offset: float) -> wire.Lease:
    return wire.Lease(
        id=lease.id,
        job=lease.job,
        holdings=[wire.Holding.model_validate(one, from_attributes=True) for one in lease.holdings],
        until=None if lease.until is None else lease.until + offset,
        revoked=list(leaving),
        vacate_by=None if by is None else by + offset,
        kind=lease.kind,
    )
