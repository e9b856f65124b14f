"""The members of a pool, their claims, and the capacity to divide.

Whose an application is, is one name: the user of the token that registered it, who is the tenant of its claims unless
its jobs name another one that the configuration lets this user name. YARN may run it as another user; which YARN users
are whose, the configuration says too. Checked where a request arrives; here the names are taken as they were recorded.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice

from yarn_plugin.decide.jobs import by_application, claims_of, demand_together
from yarn_plugin.decide.policies import Snapshot
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import State
from yarn_plugin.model.causes import Causes
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import Resources, total_of
from yarn_plugin.model.share import Claim, Demand, Pool, Registration
from yarn_plugin.model.topology import Topology


def home_of(state: State, app: str) -> Pool | None:
    """The pool of an application, given the arbiter's id, or YARN's if it is unregistered.

    A registered application belongs to the pool that it registered in, wherever it runs; an unregistered one to the
    deepest pool whose subtree contains its queue. None if the application or its pool is gone, or outside all pools.
    """
    registration = state.registered.get(app)
    if registration is not None:
        return next((pool for pool in state.pools if pool.name == registration.pool), None)
    running = state.cluster.apps.get(app)
    return pool_of(state, running.queue) if running is not None else None


def pool_of(state: State, queue: str) -> Pool | None:
    """The deepest pool whose subtree contains this queue."""
    found = None
    for pool in state.pools:
        if pool.contains(queue) and (found is None or len(pool.queue) > len(found.queue)):
            found = pool
    return found


def snapshot(state: State, pool: Pool, now: float) -> Snapshot:
    """The policy's view of a pool: its capacity, and one claim for each application."""
    seen = _snapshot(state, pool, now)
    return Snapshot(seen.capacity, by_application(seen.claims, pool.resources))


def _snapshot(state: State, pool: Pool, now: float) -> Snapshot:
    """The pool's capacity and claims, those of an application's jobs next to each other."""
    arrived = sorted(_claims(state, pool, now), key=lambda arrived: arrived[0])
    other = total_of(app.used for app in outside(state, pool, {claims[0].app for _, claims in arrived}))
    return Snapshot(capacity_of(state, pool, other), tuple(claim for _, claims in arrived for claim in claims))


def view_of(state: State, pool: Pool, now: float, seq: int, causes: Causes) -> View:
    """The controller's view of a pool at input number `seq`, with all parts; `views` keeps it up to date."""
    seen = _snapshot(state, pool, now)
    known = state.enforcement
    apps = dict.fromkeys(claim.app for claim in seen.claims)
    below = pool.queue + "."
    return View(
        seq=seq,
        causes=causes,
        capacity=seen.capacity,
        topology=state.cells or Topology(),
        claims=seen.claims,
        use=tuple(one for app in apps for one in state.cluster.use.get(app, ())),
        node_used=state.cluster.node_used,
        waiting=_waiting(state, pool),
        weights={queue: weight for queue, weight in known.written.items() if queue.startswith(below)},
        static=known.static,
        steering=is_steering(state),
        looked=state.looked,
        superseded=state.enforcement.superseded,
    )


def is_steering(state: State) -> bool:
    """Whether this arbiter may act on YARN: the ResourceManager responds and no other arbiter owns the queues."""
    return state.manager_error is None and state.enforcement.superseded is None


def _waiting(state: State, pool: Pool) -> tuple[str, ...]:
    """Up to two YARN applications in a pool that wait for containers: enough to know whether another one waits."""
    found = (
        other.id
        for other in state.cluster.apps.values()
        if (other.waiting or other.pending) and pool.contains(other.queue)
    )
    return tuple(islice(found, 2))


def _expected(state: State, pool: Pool) -> list[list[Registration]]:
    """The registered applications that are not submitted yet, grouped as they count.

    Those of one user and tenant count as one, under the id of the first, so that many registrations gain nothing.
    """
    users: dict[tuple[str, str], list[Registration]] = defaultdict(list)
    for app, registration in state.registered.items():
        if registration.pool == pool.name and app not in state.yarn_apps:
            users[registration.user, tenant_of(state, registration)].append(registration)
    return [sorted(mine, key=lambda one: (one.registered_at, one.id)) for mine in users.values()]


def tenant_of(state: State, known: Registration) -> str:
    """Whose share an application is part of: the tenant that its jobs name, all the same one, or its user."""
    jobs = state.jobs.get(known.id, ())
    return jobs[0].tenant if jobs else known.user


def users_of(state: State) -> dict[str, str]:
    """Whose applications those of a YARN user are, where that is not the user of the same name.

    An application's user (`Claim.tenant`) is the one whose token registered it; an unregistered one's is the user who
    has registered applications and to whom the configuration gives its YARN user (the first by name), else its YARN
    user. So a user has one share under several names.
    """
    known = sorted({(one.user, one.yarn_users) for one in state.registered.values() if one.yarn_users}, reverse=True)
    return {yarn_user: user for user, yarn_users in known for yarn_user in yarn_users or ()}


def is_quiet(app: YarnApp) -> bool:
    """Whether an application is idle: it holds only its master and requests nothing."""
    return not app.waiting and not app.pending and app.containers <= 1


def _claims(state: State, pool: Pool, now: float) -> Iterator[tuple[tuple[float, str], tuple[Claim, ...]]]:
    """The claims of each application, with its place in the order of arrival.

    Jobs claim once YARN knows their application: before, nothing can be placed, and those of one user count as one.
    """
    for expected in _expected(state, pool):
        yield (expected[0].registered_at, expected[0].id), (expected_claim(state, expected, pool),)
    for app in state.yarn_apps:
        registration = state.registered[app]
        if registration.pool == pool.name:
            yield (registration.registered_at, app), registered_claims(state, registration, pool)
    taken, users = set(state.yarn_apps.values()), users_of(state)
    for running in state.cluster.apps.values():
        if (
            running.id not in taken
            and pool_of(state, running.queue) == pool
            and now < counted_until(state, pool, running)
        ):
            yield (running.started_at, running.id), (unregistered_claim(running, pool, users),)


def expected_claim(state: State, expected: Sequence[Registration], pool: Pool) -> Claim:
    """The claim of applications that are not submitted yet and count as one, in order of registration."""
    first = expected[0]
    return Claim(
        first.id,
        max(one.weight for one in expected),
        _largest_demand([_demand_of(state, one, pool) for one in expected]),
        Resources(),
        tenant=tenant_of(state, first),
        arrived_at=first.registered_at,
        grace=first.grace,
        together=tuple((one.id, one.grace) for one in expected) if len(expected) > 1 else (),
    )


def registered_claims(state: State, known: Registration, pool: Pool) -> tuple[Claim, ...]:
    """The claims of an application that is submitted: its jobs' or, without any, its own."""
    running = state.cluster.apps.get(state.yarn_apps[known.id])
    used = running.used.only(frozenset(pool.resources)) if running else Resources()
    claim = Claim(
        known.id,
        known.weight,
        known.demand,
        used,
        tenant=known.user,
        arrived_at=known.registered_at,
        grace=known.grace,
        yarn_app=running.id if running else None,
        queue=_leaf_of(running, pool) if running else None,
        held=running.used if running else used,
        is_submitted=running is not None and running.waiting,
    )
    return tuple(claims_of(claim, state.jobs.get(known.id, ()))) or (claim,)


def unregistered_claim(running: YarnApp, pool: Pool, users: Mapping[str, str]) -> Claim:
    """The claim of an application that is not registered. `users`: see `users_of`."""
    names = frozenset(pool.resources)
    used = running.used.only(names)
    # The demand of an application without a master is not known yet: it is not limited to its first request.
    demand = None if running.waiting else Demand(((running.used + running.pending).only(names),))
    return Claim(
        running.id,
        1.0,
        demand,
        used,
        tenant=users.get(running.user, running.user),
        arrived_at=running.started_at,
        yarn_app=running.id,
        queue=_leaf_of(running, pool),
        held=running.used,
    )


def _leaf_of(running: YarnApp, pool: Pool) -> str | None:
    """The application's leaf queue, if it is directly below the pool's."""
    return running.queue if running.queue.rpartition(".")[0] == pool.queue else None


def _demand_of(state: State, known: Registration, pool: Pool) -> Demand | None:
    """What an application can use: its jobs together or, without any, what it registered."""
    demands = [job.demand or known.demand for job in state.jobs.get(known.id, ())]
    return demand_together(demands, pool.resources) if demands else known.demand


def _largest_demand(demands: Sequence[Demand | None]) -> Demand | None:
    """The demand that covers all of these; None (unlimited) if one of them is unlimited.

    Its n-th alternative covers the n-th of each, or the last where one has fewer.
    """
    limited = [demand for demand in demands if demand is not None]
    if len(demands) == 1 or len(limited) < len(demands):
        return demands[0] if len(demands) == 1 else None
    number = max(len(demand.alternatives) for demand in limited)
    choices = ([demand.alternatives[min(n, len(demand.alternatives) - 1)] for demand in limited] for n in range(number))
    return Demand(tuple(reduce(Resources.at_least, choice) for choice in choices))


def counted_until(state: State, pool: Pool, app: YarnApp) -> float:
    """Until when an unregistered application counts: until its idle timeout, since it mostly requests more soon."""
    since = state.quiet_since.get(app.id) if is_quiet(app) else None
    return math.inf if since is None else since + pool.idle_timeout


def capacity_of(state: State, pool: Pool, other: Resources) -> Resources:
    """The capacity R of the pool: the cluster less the use of others (see `outside`), within the queue's limits."""
    names = frozenset(pool.resources)
    cluster = state.cluster.capacity().only(names)
    left = (cluster - other.only(names)).as_dict()
    queue = state.cluster.queues.get(pool.queue)
    for name in left:
        left[name] = int(left[name] * _part_of(state, pool, name) + 1e-6)
    ceiling = cluster.scaled(queue.maximum) if queue else cluster
    return Resources.of(left).at_most(ceiling)


def outside(state: State, pool: Pool, active: Collection[str]) -> Iterator[YarnApp]:
    """The applications whose use is not the pool's to divide; `active`: the ids of its claims."""
    counted = {*active, *(state.yarn_apps[app] for app in active if app in state.yarn_apps)}
    return (app for app in state.cluster.apps.values() if _is_other(state, pool, app, counted))


def _is_other(state: State, pool: Pool, app: YarnApp, counted: set[str]) -> bool:
    """Whether an application's use is subtracted: it is outside all pools, or in this one without counting."""
    if not app.used:
        return False
    home = pool_of(state, app.queue)
    return home is None or (home == pool and app.id not in counted)


def _part_of(state: State, pool: Pool, resource: str) -> float:
    """The fraction of a resource that this pool gets, if several pools divide it: by their queues' guarantees."""
    sharing = [other for other in state.pools if resource in other.resources]
    if len(sharing) < 2:
        return 1.0
    queues = {other.name: state.cluster.queues.get(other.queue) for other in sharing}
    guaranteed = {name: queue.guaranteed if queue else 0.0 for name, queue in queues.items()}
    total = sum(guaranteed.values())
    return guaranteed[pool.name] / total if total else 1.0 / len(sharing)
