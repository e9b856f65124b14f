"""Where an application stands in its pool: in one form for pools that are shared and pools whose GPUs are leased."""

from yarn_plugin.api import wire
from yarn_plugin.decide.leases.state import Ledger
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.pools.lease.settings import THEMIS, LeaseSettings
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.ledger import LedgerState
from yarn_plugin.decide.pools.share import Member
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import GPU


def standing(state: State, app: str, running: YarnApp | None, now: float) -> wire.Standing | None:
    """The standing of an application (the arbiter's id, or YARN's if it is unregistered) at `now`, the arbiter's time.

    None: it has none yet, or the pool's controller is of another kind.
    """
    member = state.members.get(app)
    if member is not None:
        return _of_share(member, now)
    pool = home_of(state, app)
    kept = state.pool_states.get(pool.name) if pool is not None else None
    if pool is not None and kept is not None and isinstance(kept.state, LeaseState):
        settings = pool.parameters if isinstance(pool.parameters, LeaseSettings) else LeaseSettings()
        return _of_leases(settings, kept.state, app, running)
    if kept is not None and isinstance(kept.state, LedgerState):
        return _of_ledger(kept.state.ledger, app, running)
    return None


def _of_share(member: Member, now: float) -> wire.Standing:
    grant = member.share.grant
    return wire.Standing(
        guarantee=grant.guarantee_fraction,
        entitlement=grant.entitlement_fraction,
        used=grant.current,
        rho=member.rho(now),
    )


def _of_leases(settings: LeaseSettings, state: LeaseState, app: str, running: YarnApp | None) -> wire.Standing | None:
    """The guarantee is 1/N of the GPUs: what finish-time fairness compares with (Themis, thesis section 3.4.3)."""
    member, gpus = state.members.get(app), sum(count for _, count in state.machines)
    if member is None or not gpus:
        return None
    leased = sum(len(held.gpus) for held in state.leases.values() if held.lease.app == app and held.started_at)
    active = sum(not one.waits for one in state.members.values())
    return wire.Standing(
        guarantee=0.0 if member.waits else 1.0 / active,
        entitlement=leased / gpus,
        used=(running.used[GPU] if running is not None else 0) / gpus,
        rho=member.rho if member.rho is not None else "unbounded" if _is_unbounded(settings, state, app) else None,
    )


def _of_ledger(ledger: Ledger, app: str, running: YarnApp | None) -> wire.Standing | None:
    """An allocator guarantees nothing by itself."""
    gpus = sum(node.gpus for node in ledger.nodes.values())
    if not gpus or not any(claim.app == app for claim in ledger.claims):
        return None
    leased = sum(len(entry.gpus) for entry in ledger.leases.values() if entry.app == app and entry.is_started)
    used = running.used[GPU] if running is not None else 0
    return wire.Standing(guarantee=0.0, entitlement=leased / gpus, used=used / gpus, rho=None)


def _is_unbounded(settings: LeaseSettings, state: LeaseState, app: str) -> bool:
    """Whether an application said that it makes no progress with the GPUs that it holds: not before it won them, and
    not to a policy that asks for its jobs alone."""
    estimated_in = state.members[app].estimated_in
    if settings.policy != THEMIS or estimated_in is None:
        return False
    return all(held.round < estimated_in for held in state.leases.values() if held.lease.app == app)
