"""Checking a registration or a revision against the pools, their limits, and what is running."""

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

Users = Mapping[str, Sequence[str]]
"""For a user of the arbiter, the YARN users whose applications are this user's; left out: the one of the same name."""


class Knowing(Protocol):
    """Shows what is known now."""

    @property
    def state(self) -> State:
        """What is known now."""
        ...


def yarn_users(users: Users, user: str) -> tuple[str, ...]:
    """The YARN users whose applications are this user's."""
    return tuple(users.get(user, (user,)))


def to_demand(alternatives: list[wire.Demanded] | None) -> Demand | None:
    """What was asked for, as a noun."""
    return Demand(tuple(Resources.of(amounts) for amounts in alternatives)) if alternatives else None


def find_request(state: State, user: str, request_id: str) -> Registration | None:
    """The application that this user registered with this request."""
    return next((r for r in state.registered.values() if (r.user, r.request_id) == (user, request_id)), None)


async def check(
    arbiter: Knowing, look: Callable[[], Awaitable[None]], request: wire.Register, asking: Principal, users: Users
) -> Registered:
    """The event for a request, checked against what is known.

    Raises:
        Refused: 422 naming the field, 403 where the application is somebody else's, 409 where it is registered, 429
            where the user has as many as may be.
    """
    pool = _pool(arbiter.state, request.pool)
    check_weight(pool, request.weight, asking)
    if asking != ADMIN and request.grace_s is not None and pool.max_grace is not None:
        most = pool.max_grace
        if request.grace_s > most:
            raise Refused(422, "grace_s", request.grace_s, f"at most {most:g} s in pool {pool.name}")
    user, allowed = asking.name, yarn_users(users, asking.name)
    if request.yarn_app:
        running = await _running(arbiter, look, request.yarn_app)
        if asking == ADMIN:
            user = next((one for one, names in users.items() if running.user in names), running.user)
        elif running.user not in allowed:
            raise Refused(403, "yarn_app", running.id, f"it is {running.user}'s; a token of that user is needed")
        _check_running(arbiter.state, running, pool)
    mine = find_request(arbiter.state, user, request.request_id)
    if request.yarn_app and mine is None and request.yarn_app in arbiter.state.yarn_apps.values():
        raise Refused(409, "yarn_app", request.yarn_app, "it is registered already")
    if mine is None and asking != ADMIN and is_full(arbiter.state, pool, user):
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
        yarn_users=None if asking == ADMIN else allowed,
    )


def check_weight(pool: Pool, weight: float, asking: Principal) -> None:
    """Refuse more weight than the pool allows.

    Raises:
        Refused: 422.
    """
    if asking != ADMIN and pool.max_weight is not None and weight > pool.max_weight:
        raise Refused(422, "weight", weight, f"at most {pool.max_weight:g} in pool {pool.name}")


def is_full(state: State, pool: Pool, user: str) -> bool:
    """Whether a user has as many applications in a pool as may be."""
    most = pool.max_apps_per_user
    held = sum(known.pool == pool.name and known.user == user for known in state.registered.values())
    return most is not None and held >= most


def too_many(pool: Pool, user: str) -> Refused:
    """The refusal for a user who has as many applications as may be."""
    expected = f"{user} has {pool.max_apps_per_user} applications registered, as many as pool {pool.name} allows a user"
    return Refused(429, "pool", pool.name, f"{expected}; deregister one with DELETE /v1/apps/ID")


def _pool(state: State, name: str | None) -> Pool:
    if not name and len(state.pools) == 1:
        return state.pools[0]
    found = next((pool for pool in state.pools if pool.name == name), None)
    if found is None:
        raise Refused(422, "pool", name, f"name one of the pools: {', '.join(pool.name for pool in state.pools)}")
    return found


def _check_running(state: State, running: YarnApp, pool: Pool) -> None:
    home = home_of(state, running.id)
    if home is None or home.name != pool.name:
        expected = f"it runs in queue {running.queue}, which is not in pool {pool.name} ({pool.queue})"
        raise Refused(422, "yarn_app", running.id, expected)


async def _running(arbiter: Knowing, look: Callable[[], Awaitable[None]], yarn_app: str) -> YarnApp:
    if yarn_app not in arbiter.state.cluster.apps:
        await look()
    running = arbiter.state.cluster.apps.get(yarn_app)
    if running is None:
        raise Refused(422, "yarn_app", yarn_app, "the ResourceManager has no unfinished application of this id")
    return running
