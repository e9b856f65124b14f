"""Where an application stands in its pool: in one form for pools that are shared and pools whose GPUs are leased."""

from typing import Literal

from yarn_plugin.api import wire
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.pools.lease.state import LeaseState
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
    if kept is not None and isinstance(kept.state, LeaseState):
        return _of_leases(kept.state, app, running)
    return None


def _of_share(member: Member, now: float) -> wire.Standing:
    grant = member.share.grant
    return wire.Standing(
        guarantee=grant.guarantee_fraction,
        entitlement=grant.entitlement_fraction,
        used=grant.current,
        rho=member.rho(now),
    )


def _of_leases(state: LeaseState, app: str, running: YarnApp | None) -> wire.Standing | None:
    """The guarantee is 1/N of the GPUs: what finish-time fairness compares with (Themis, thesis section 3.4.3)."""
    member, gpus = state.members.get(app), sum(count for _, count in state.machines)
    if member is None or not gpus:
        return None
    leased = sum(len(held.gpus) for held in state.leases.values() if held.lease.app == app and held.started_at)
    active = sum(not one.waits for one in state.members.values())
    rho: float | Literal["unbounded"] | None = member.rho
    if rho is None and member.estimated_in is not None:
        rho = "unbounded"
    return wire.Standing(
        guarantee=0.0 if member.waits else 1.0 / active,
        entitlement=leased / gpus,
        used=(running.used[GPU] if running is not None else 0) / gpus,
        rho=rho,
    )
