"""From shares to queue weights, and to container signals for what still overstays."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice

from yarn_plugin.decide.commands import Command, ListContainers, ReadLeaves, SignalContainers, WriteWeights
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.observations import is_own_leaf
from yarn_plugin.decide.state import Member, State
from yarn_plugin.model.cluster import Container, YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Pool

LEAST_WEIGHT = 0.01
"""YARN treats weight 0 as "no queue"; the least weight keeps an application alive that is entitled to nothing now."""


def binding(member: Member, now: float) -> float:
    """The dominant fraction that binds an application now: the latest step of its schedule that has begun."""
    bound = member.schedule[0].fraction
    for step in member.schedule:
        if step.at <= now:
            bound = step.fraction
    return bound


def weights(state: State, pool: Pool, now: float) -> dict[str, float]:
    """The weight of each queue of the pool, out of 100.

    First everybody keeps what it has in YARN, as far as it is still promised that much; what is left goes to those
    that are promised more. So nobody's part sinks before its grace is over, although YARN's weights are relative: who
    arrives or grows waits for those that vacate, also for one that arrived shortly before and has nothing yet.
    """
    promised: dict[str, float] = defaultdict(float)
    for app, member in state.members.items():
        queue = _queue_of(state, pool, app)
        if queue:
            promised[queue] += binding(member, now)
    has = _present_parts(state, promised)
    kept = {queue: min(fraction, has[queue]) for queue, fraction in promised.items()}
    left = max(1.0 - sum(kept.values()), 0.0)
    more = sum(promised.values()) - sum(kept.values())
    part = min(1.0, left / more) if more > 0 else 0.0
    fractions = {queue: kept[queue] + part * (promised[queue] - kept[queue]) for queue in sorted(promised)}
    return {queue: max(round(100 * fraction, 2), LEAST_WEIGHT) for queue, fraction in fractions.items()}


def _present_parts(state: State, queues: Collection[str]) -> dict[str, float]:
    """The part of their pool that these queues have in YARN now."""
    written = {queue: state.enforcement.written.get(queue, 0.0) for queue in queues}
    # A queue without a weight of its own weighs next to nothing, but not where all are such.
    if not any(written.values()):
        return dict.fromkeys(queues, 1.0 / len(queues)) if queues else {}
    # The least weights on top of a whole are no reason to write the others again.
    total = min(sum(written.values()), 100.0)
    return {queue: weight / total for queue, weight in written.items()}


def write_weights(state: State, now: float, reason: str) -> tuple[State, list[Command]]:
    """Ask for the weights that differ from what YARN is known to have; one request at a time.

    Only leaves that a submission made, or will make, are written: never a queue that the configuration defines.
    """
    known = state.enforcement
    allowed = state.capabilities is not None and state.capabilities.writable and is_steering(state)
    waiting = known.asked or known.reading or (known.retry_at or now) > now
    if not allowed or waiting or known.static is None:
        return state, []
    wanted: dict[str, float] = {}
    for pool in state.pools:
        wanted |= weights(state, pool, now)
    left_alone = {*known.static, *(queue for queue, until in known.refused.items() if until > now)}
    changed = tuple(
        (queue, weight)
        for queue, weight in wanted.items()
        if queue not in left_alone and (known.unsure or known.written.get(queue) != weight)
    )
    forget = tuple(queue for queue in sorted(known.written) if queue not in wanted and queue not in left_alone)
    if not changed and not forget:
        return state, []
    state = replace(state, enforcement=replace(known, asked=True))
    return state, [WriteWeights(changed, forget, reason)]


def read_leaves(state: State, now: float) -> tuple[State, list[Command]]:
    """Ask what YARN has, when that is due: somebody else may have changed it, or an earlier arbiter left some."""
    known = state.enforcement
    due = known.read_at is not None and known.read_at <= now
    if not due or known.asked or known.reading or state.manager_error is not None:
        return state, []
    state = replace(state, enforcement=replace(known, reading=True, read_at=None))
    return state, [ReadLeaves(tuple(pool.queue for pool in state.pools))]


def is_steering(state: State) -> bool:
    """Whether this arbiter may act on YARN: the manager answers, and no other arbiter owns the queues."""
    return state.manager_error is None and state.enforcement.superseded is None


def find_overstays(state: State, pool: Pool, capacity: Resources, now: float) -> tuple[State, list[Command]]:
    """Note who holds more than binds it while another waits; ask for its containers when that has lasted.

    Applications in queues that the configuration defines are left alone: no weight says there what they may hold.
    """
    if not is_steering(state):
        return state, []
    commands: list[Command] = []
    members = dict(state.members)
    names, waiting = frozenset(pool.resources), _waiting(state, pool)
    static = state.enforcement.static
    for app, member in state.members.items():
        running = state.cluster.apps.get(state.yarn_apps.get(app, app))
        if running is None or not _queue_of(state, pool, app) or _is_defined(running.queue, static):
            continue
        if not waiting - {running.id} or _fits(running, names, capacity, binding(member, now)):
            if member.over_since is not None:
                members[app] = replace(member, over_since=None)
            continue
        allowed = capacity.scaled(binding(member, now))
        if member.over_since is None:
            members[app] = replace(member, over_since=now)
        elif now >= member.over_since + pool.overstay:
            members[app] = replace(member, over_since=now)
            reason = f"{app} holds {running.used}, {allowed} is its share, and others wait since {pool.overstay:g} s"
            commands.append(ListContainers(app, running.id, reason))
    return replace(state, members=members), commands


def choose_victims(state: State, event: ContainersListed, pool: Pool, capacity: Resources, now: float) -> list[Command]:
    """The newest containers beyond the share, never a master; empty once the application has obeyed."""
    member = state.members.get(event.app)
    if member is None or not is_steering(state):
        return []
    allowed = capacity.scaled(binding(member, now))
    names = frozenset(pool.resources)
    held = sum((container.resources for container in event.containers), Resources()).only(names)
    chosen: list[str] = []
    for container in sorted(event.containers, key=_age_key, reverse=True):
        if held.fits(allowed):
            break
        if not container.master:
            chosen.append(container.id)
            held = held - container.resources.only(names)
    if not chosen:
        return []
    return [SignalContainers(event.app, tuple(chosen), f"{event.app} overstayed its share of {allowed}")]


def _age_key(container: Container) -> str:
    """Container ids end in a number that grows as an application gets containers."""
    return container.id


def _waiting(state: State, pool: Pool) -> frozenset[str]:
    """Two of the YARN applications in a pool that wait for containers, if there are so many: whoever asks whether
    another one waits needs no more."""
    found = (
        other.id
        for other in state.cluster.apps.values()
        if (other.waiting or other.pending) and pool.contains(other.queue)
    )
    return frozenset(islice(found, 2))


def _is_defined(queue: str, static: Collection[str] | None) -> bool:
    """Whether the configuration defines a queue; or may, as long as it was not shown, if the name is not our own."""
    return not is_own_leaf(queue) if static is None else queue in static


def _fits(running: YarnApp, names: frozenset[str], capacity: Resources, fraction: float) -> bool:
    """Whether an application holds no more than a fraction of the capacity, in any of the named resources."""
    return all(
        amount <= int(capacity[name] * fraction + 1e-6) for name, amount in running.used.amounts if name in names
    )


def _queue_of(state: State, pool: Pool, app: str) -> str | None:
    """The leaf queue, directly under the pool's, that YARN runs this application in; None before it is there."""
    running = state.cluster.apps.get(state.yarn_apps.get(app, app))
    if running is None or running.queue.rpartition(".")[0] != pool.queue:
        return None
    return running.queue


def deadlines(state: State) -> Iterator[float]:
    """The times at which enforcement has something to do although nothing happens."""
    for member in state.members.values():
        yield from (step.at for step in member.schedule)
        if member.over_since is not None:
            pool = _home(state, member.app)
            if pool:
                yield member.over_since + pool.overstay
    known = state.enforcement
    if known.retry_at is not None:
        yield known.retry_at
    if known.read_at is not None and not known.reading:
        yield known.read_at
    yield from known.refused.values()


def _home(state: State, app: str) -> Pool | None:
    return next((pool for pool in state.pools if _queue_of(state, pool, app)), None)
