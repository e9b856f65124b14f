"""Enforcement of queue weights in YARN: one request at a time, read back, retried."""

from collections.abc import Iterator
from dataclasses import replace

from yarn_plugin.decide.commands import Command, ReadLeaves, WriteWeights
from yarn_plugin.decide.events import LeavesSeen, LeavesUnread, Superseded, WeightsRefused, WeightsWritten
from yarn_plugin.decide.identity import are_same
from yarn_plugin.decide.membership import is_steering
from yarn_plugin.decide.state import Enforcement, State
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.model.causes import Causes, ForeignWeights, Happening
from yarn_plugin.model.cluster import is_own_leaf

RETRY_DELAY = 5.0
"""Seconds until weights that the ResourceManager rejected are written again."""

REFUSED_RETRY_DELAY = 60.0
"""Seconds until the weight of a single rejected queue is written again."""


def write_weights(state: State, now: float, cause: Causes, cache: StepCache) -> tuple[State, list[Command]]:
    """Request the weights that differ from YARN's known ones; one request at a time.

    Only leaf queues that a submission creates are written, never a queue that the configuration defines.
    """
    known = state.enforcement
    allowed = state.capabilities is not None and state.capabilities.writable and is_steering(state)
    waiting = known.asked or known.reading or (known.retry_at or now) > now
    if not allowed or waiting or known.static is None:
        return state, []
    follows_from = known, *(kept.weights for kept in state.pool_states.values())
    if not known.refused and are_same(follows_from, cache.unwritten):
        return state, []
    wanted = {queue: weight for kept in state.pool_states.values() for queue, weight in kept.weights or ()}
    left_alone = {*known.static, *(queue for queue, until in known.refused.items() if until > now)}
    changed = tuple(
        (queue, weight)
        for queue, weight in wanted.items()
        if queue not in left_alone and (known.unsure or known.written.get(queue) != weight)
    )
    # Queues of a pool whose controller has not set weights yet retain theirs.
    silent = {pool.queue for pool in state.pools if state.pool_states[pool.name].weights is None}
    forget = tuple(
        queue
        for queue in sorted(known.written)
        if queue not in wanted and queue not in left_alone and queue.rpartition(".")[0] not in silent
    )
    if not changed and not forget:
        cache.unwritten = follows_from
        return state, []
    state = replace(state, enforcement=replace(known, asked=True))
    return state, [WriteWeights(changed, forget, cause)]


def read_leaves(state: State, now: float) -> tuple[State, list[Command]]:
    """Request YARN's weights when due: they may have been changed by others, or left by an earlier arbiter."""
    known = state.enforcement
    due = known.read_at is not None and known.read_at <= now
    if not due or known.asked or known.reading or state.manager_error is not None:
        return state, []
    state = replace(state, enforcement=replace(known, reading=True, read_at=None))
    return state, [ReadLeaves(tuple(pool.queue for pool in state.pools))]


def weight_deadlines(state: State) -> Iterator[float]:
    """The times at which weights must be written or read, without any event."""
    known = state.enforcement
    if known.retry_at is not None:
        yield known.retry_at
    if known.read_at is not None and not known.reading:
        yield known.read_at
    yield from known.refused.values()


def learn_weights(
    state: State, event: WeightsWritten | WeightsRefused | LeavesSeen | LeavesUnread | Superseded, at: float
) -> tuple[State, list[Happening]]:
    """The state after an answer about queue weights, or after another arbiter took the queues over."""
    known, happened = state.enforcement, list[Happening]()
    match event:
        case WeightsWritten(weights, forgotten, refused):
            written = {queue: weight for queue, weight in known.written.items() if queue not in set(forgotten)}
            answered = {queue for queue, _ in (*weights, *refused)}
            later = {queue: until for queue, until in known.refused.items() if until > at and queue not in answered}
            later |= {queue: at + REFUSED_RETRY_DELAY for queue, _ in refused}
            error = "; ".join(f"queue {queue}: {said}" for queue, said in refused[:3]) or None
            known = replace(known, written=written | dict(weights), unsure=False, asked=False, retry_at=None,
                            error=error, refused=later)  # fmt: skip
        case WeightsRefused(error):
            known = replace(known, asked=False, retry_at=at + RETRY_DELAY, error=error)
        case LeavesSeen(static, weights):
            again = known.read_at  # the ResourceManager reconnected since this request: it may have restarted
            known, happened = _reconciled(known, static, dict(weights))
            known = replace(known, reading=False, unsure=known.unsure or again is not None,
                            read_at=at + state.reconcile if again is None else again)  # fmt: skip
            state = _writable(state, True)
        case LeavesUnread(_, refused):
            known = replace(known, reading=False, read_at=at + (state.reconcile if refused else RETRY_DELAY))
            state = _writable(state, False) if refused else state
        case Superseded(by):
            known = replace(known, asked=False, reading=False, superseded=by)
    return replace(state, enforcement=known), happened


def _reconciled(
    known: Enforcement, static: tuple[str, ...], seen: dict[str, float]
) -> tuple[Enforcement, list[Happening]]:
    """Compare YARN's weights with those that this arbiter wrote, and adopt those that an earlier arbiter left on its
    own leaf queues. After a difference, all weights are written again."""
    written = {queue: weight for queue, weight in known.written.items() if queue not in set(static)}
    changed = sum(seen.get(queue) != weight for queue, weight in written.items())
    left_behind = {queue: weight for queue, weight in seen.items() if queue not in written and is_own_leaf(queue)}
    known = replace(known, written=written | left_behind, static=static, unsure=bool(changed))
    return known, [ForeignWeights(changed)] if changed else []


def _writable(state: State, writable: bool) -> State:
    known = state.capabilities
    if known is None or known.writable == writable:
        return state
    return replace(state, capabilities=replace(known, writable=writable))
