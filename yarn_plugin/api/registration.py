"""Checks of a registration or a revision against the pools, their limits, and the running applications."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from yarn_plugin.api import wire
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.tokens import ADMIN, Principal
from yarn_plugin.decide.events import Registered
from yarn_plugin.decide.membership import home_of
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Demand, Pool, Registration
from yarn_plugin.quantities import count
from yarn_plugin.validation import one_of

Users = Mapping[str, Sequence[str]]
"""For a user of the arbiter, the YARN users whose applications are this user's; by default the same name."""


RECHECK_S = 0.1
"""Seconds between two checks for an application that was not known."""


class HasState(Protocol):
    """Has the present state."""

    @property
    def state(self) -> State:
        """The present state."""
        ...


def yarn_users(users: Users, user: str) -> tuple[str, ...]:
    """The YARN users whose applications are this user's."""
    return tuple(users.get(user, (user,)))


def to_demand(alternatives: list[wire.DemandedAmounts] | None) -> Demand | None:
    """A demand from the wire, as the model's."""
    return Demand(tuple(Resources.of(amounts) for amounts in alternatives)) if alternatives else None


def find_request(state: State, user: str, request_id: str) -> Registration | None:
    """The application that this user registered with this request."""
    return next((r for r in state.registered.values() if (r.user, r.request_id) == (user, request_id)), None)


async def check(
    arbiter: HasState,
    poll: Callable[[], Awaitable[None]],
    request: wire.Register,
    caller: Principal,
    users: Users,
) -> Registered:
    """The event for a registration, checked against the present state.

    Raises:
        Refused: 422 naming the field, 403 where the application is another user's, 409 where it is registered already,
            429 where the user has reached the limit.
    """
    pool = _pool(arbiter.state, request.pool)
    check_weight(pool, request.weight, caller)
    check_grace(pool, request.grace_s, caller)
    user, allowed = caller.name, yarn_users(users, caller.name)
    if request.yarn_app:
        running = await _running(arbiter, poll, request.yarn_app)
        if caller == ADMIN:
            user = next((one for one, names in users.items() if running.user in names), running.user)
        elif running.user not in allowed:
            raise Refused(403, "yarn_app", running.id, f"belongs to user {running.user}; use a token of that user")
        _check_running(arbiter.state, running, pool)
    existing = find_request(arbiter.state, user, request.request_id)
    if request.yarn_app and existing is None and request.yarn_app in arbiter.state.yarn_apps.values():
        raise already_registered(arbiter.state, request.yarn_app)
    if existing is None and caller != ADMIN and is_full(arbiter.state, pool, user):
        raise too_many(pool, user)
    return Registered(
        request_id=request.request_id,
        name=request.name,
        user=user,
        pool=pool.name,
        weight=request.weight,
        demand=to_demand(request.demand),
        grace=request.grace_s,
        yarn_app=request.yarn_app,
        yarn_users=None if caller == ADMIN else allowed,
        leases=(),
    )


def already_registered(state: State, yarn_app: str) -> Refused:
    """The refusal for a YARN application that is registered."""
    known = next((app for app, matched in state.yarn_apps.items() if matched == yarn_app), None)
    return Refused(409, "yarn_app", yarn_app, f"already registered as {known}; use that application")


def check_weight(pool: Pool, weight: float, caller: Principal) -> None:
    """Refuse more weight than the pool allows.

    Raises:
        Refused: 422.
    """
    if caller != ADMIN and pool.max_weight is not None and weight > pool.max_weight:
        raise Refused(422, "weight", weight, f"must be at most {pool.max_weight:g} in pool {pool.name}")


def check_grace(pool: Pool, grace_s: float | None, caller: Principal) -> None:
    """Refuse a longer grace period than the pool allows.

    Raises:
        Refused: 422.
    """
    if caller != ADMIN and grace_s is not None and pool.max_grace is not None and grace_s > pool.max_grace:
        raise Refused(422, "grace_s", grace_s, f"must be at most {pool.max_grace:g} s in pool {pool.name}")


def is_full(state: State, pool: Pool, user: str) -> bool:
    """Whether a user has reached the limit of applications in a pool."""
    limit = pool.max_apps_per_user
    registered = sum(known.pool == pool.name and known.user == user for known in state.registered.values())
    return limit is not None and registered >= limit


def too_many(pool: Pool, user: str) -> Refused:
    """The refusal for a user who has reached the limit of applications in a pool."""
    limit = count(pool.max_apps_per_user or 0, "application")
    expected = f"{user} has {limit} registered, the limit of pool {pool.name} for each user"
    return Refused(429, "pool", pool.name, f"{expected}; deregister one with DELETE /v1/apps/ID")


def _pool(state: State, name: str | None) -> Pool:
    if not name and len(state.pools) == 1:
        return state.pools[0]
    found = next((pool for pool in state.pools if pool.name == name), None)
    if found is None:
        expected = one_of((pool.name for pool in state.pools), name)
        raise Refused(422, "pool", name, expected if name else f"required; {expected}")
    return found


def _check_running(state: State, running: YarnApp, pool: Pool) -> None:
    home = home_of(state, running.id)
    if home is None or home.name != pool.name:
        expected = f"runs in queue {running.queue}, which is not in pool {pool.name} ({pool.queue})"
        raise Refused(422, "yarn_app", running.id, expected)


async def _running(arbiter: HasState, poll: Callable[[], Awaitable[None]], yarn_app: str) -> YarnApp:
    polled = asyncio.ensure_future(poll()) if yarn_app not in arbiter.state.cluster.apps else None
    # A poll on request may have to wait; the ones that are made anyway may find the application before.
    while polled and not polled.done() and yarn_app not in arbiter.state.cluster.apps:
        await asyncio.wait({polled}, timeout=RECHECK_S)
    if polled:
        polled.cancel()
    running = arbiter.state.cluster.apps.get(yarn_app)
    if running is None:
        raise Refused(
            422, "yarn_app", yarn_app, "the ResourceManager has no running application with this id; submit it first"
        )
    return running
