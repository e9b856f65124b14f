"""Who counts in a pool, what each claims, and how much there is to divide."""

from collections.abc import Iterator

from yarn_plugin.decide.policies import Snapshot
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Demand, Pool


def pool_of(state: State, queue: str) -> Pool | None:
    """The pool whose subtree holds this queue; the deepest one where several do."""
    holders = [pool for pool in state.pools if pool.contains(queue)]
    return max(holders, key=lambda pool: len(pool.queue), default=None)


def snapshot(state: State, pool: Pool, now: float) -> Snapshot:
    """The pool as its policy sees it: capacity and claims, counted for this pool alone."""
    claims = tuple(sorted(_claims(state, pool, now), key=lambda arrived: arrived[0]))
    return Snapshot(_capacity(state, pool, {app for _, app, _ in claims}), tuple(claim for _, _, claim in claims))


def is_quiet(app: YarnApp) -> bool:
    """Whether an application holds its master alone and asks for nothing."""
    return not app.waiting and not app.pending and app.containers <= 1


def _claims(state: State, pool: Pool, now: float) -> Iterator[tuple[tuple[float, str], str, Claim]]:
    for app, registration in state.registered.items():
        if registration.pool == pool.name:
            running = state.cluster.apps.get(state.yarn_apps.get(app, ""))
            used = running.used.only(frozenset(pool.resources)) if running else Resources()
            claim = Claim(app, registration.weight, registration.demand, used)
            yield (registration.registered_at, app), app, claim
    taken = set(state.yarn_apps.values())
    for running in state.cluster.apps.values():
        if running.id not in taken and pool_of(state, running.queue) == pool and _counts(state, pool, running, now):
            names = frozenset(pool.resources)
            # A waiting application's own size is not known yet: it is not limited to what it has asked so far.
            demand = None if running.waiting else Demand(((running.used + running.pending).only(names),))
            yield (running.started_at, running.id), running.id, Claim(running.id, 1.0, demand, running.used.only(names))


def _counts(state: State, pool: Pool, app: YarnApp, now: float) -> bool:
    """An unregistered application counts while it wants anything, and a little longer: it mostly asks again."""
    return not is_quiet(app) or now < state.quiet_since.get(app.id, now) + pool.settle


def _capacity(state: State, pool: Pool, active: set[str]) -> Resources:
    """R of the pool: the cluster, less what is used by those that do not count, within the queues' limits."""
    names = frozenset(pool.resources)
    cluster = sum((node.capacity for node in state.cluster.nodes.values()), Resources()).only(names)
    counted = active | {state.yarn_apps[app] for app in active if app in state.yarn_apps}
    other = sum((app.used for app in state.cluster.apps.values() if _is_other(state, pool, app, counted)), Resources())
    left = (cluster - other.only(names)).as_dict()
    queue = state.cluster.queues.get(pool.queue)
    for name in left:
        left[name] = int(left[name] * _part_of(state, pool, name) + 1e-6)
    ceiling = cluster.scaled(queue.maximum) if queue else cluster
    return Resources.of(left).at_most(ceiling)


def _is_other(state: State, pool: Pool, app: YarnApp, counted: set[str]) -> bool:
    """Whether what an application uses is to be subtracted: it lies outside every pool, or here without counting."""
    home = pool_of(state, app.queue)
    return home is None or (home == pool and app.id not in counted)


def _part_of(state: State, pool: Pool, resource: str) -> float:
    """The part of a resource that is this pool's where several pools divide it: by their queues' guarantees."""
    sharing = [other for other in state.pools if resource in other.resources]
    if len(sharing) < 2:
        return 1.0
    queues = {other.name: state.cluster.queues.get(other.queue) for other in sharing}
    guaranteed = {name: queue.guaranteed if queue else 0.0 for name, queue in queues.items()}
    total = sum(guaranteed.values())
    return guaranteed[pool.name] / total if total else 1.0 / len(sharing)
