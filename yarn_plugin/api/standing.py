"""Where an application stands in its pool: in one form for pools that are shared and pools whose GPUs are leased."""

from typing import Literal

from yarn_plugin.api import wire
from yarn_plugin.api.lease_rounds import lease_rounds
from yarn_plugin.api.leases import leased_gpus
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.leases.settings import LedgerSettings
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
    if pool is None or kept is None or not isinstance(kept.state, LeaseState | LedgerState):
        return None
    gpus = leased_gpus(kept.state)
    rounds = next((one for _, one in lease_rounds(pool.name, kept.state) if app in one.members), None)
    is_known = rounds is not None or _has_claim(kept.state, app)
    if not gpus or not is_known:
        return None
    parameters = pool.parameters.settings if isinstance(pool.parameters, LedgerSettings) else pool.parameters
    asks_rho = not isinstance(parameters, LeaseSettings | AuctionSettings) or parameters.policy == THEMIS
    return wire.Standing(
        guarantee=0.0 if rounds is None else _equal_part(rounds, app) / gpus,
        entitlement=_leased(kept.state, app) / gpus,
        used=(running.used[GPU] if running is not None else 0) / gpus,
        rho=None if rounds is None else _rho(rounds, app, asks_rho),
    )


def _of_share(member: Member, now: float) -> wire.Standing:
    grant = member.share.grant
    return wire.Standing(
        guarantee=grant.guarantee_fraction,
        entitlement=grant.entitlement_fraction,
        used=grant.current,
        rho=member.rho(now),
    )


def _has_claim(state: LeaseState | LedgerState, app: str) -> bool:
    """Whether a ledger knows an application: it is known before it takes part in rounds, and without any."""
    return isinstance(state, LedgerState) and any(claim.app == app for claim in state.ledger.claims)


def _leased(state: LeaseState | LedgerState, app: str) -> int:
    """The GPUs of an application's leases that have started."""
    if isinstance(state, LeaseState):
        return sum(len(held.gpus) for held in state.leases.values() if held.lease.app == app and held.started_at)
    return sum(len(entry.gpus) for entry in state.ledger.leases.values() if entry.app == app and entry.is_started)


def _equal_part(rounds: LeaseState, app: str) -> float:
    """1/N of the GPUs that the rounds are about: what finish-time fairness compares with (Themis, thesis section
    3.4.3). Nothing else guarantees any."""
    if rounds.members[app].waits:
        return 0.0
    return sum(count for _, count in rounds.machines) / sum(not one.waits for one in rounds.members.values())


def _rho(rounds: LeaseState, app: str, asks: bool) -> float | Literal["unbounded"] | None:
    """An application's finish-time fairness in the last round. `asks`: whether rounds ask for it.

    It is unbounded if the application said that it makes no progress with the GPUs that it holds: not before it won
    them, and not to a policy that asks for its jobs alone.
    """
    member = rounds.members[app]
    if member.rho is not None or not asks or member.estimated_in is None:
        return member.rho
    held = [one for one in rounds.leases.values() if one.lease.app == app]
    return "unbounded" if all(one.round < member.estimated_in for one in held) else None
