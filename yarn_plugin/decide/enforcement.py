"""What YARN has of the weights that are wanted: one request at a time, read back, tried again."""

from collections.abc import Iterator
from dataclasses import replace

from yarn_plugin.decide.commands import Command, ReadLeaves, WriteWeights
from yarn_plugin.decide.membership import is_steering
from yarn_plugin.decide.state import State
from yarn_plugin.model.causes import Causes


def write_weights(state: State, now: float, cause: Causes) -> tuple[State, list[Command]]:
    """Ask for the weights that differ from what YARN is known to have; one request at a time.

    Only leaves that a submission made, or will make, are written: never a queue that the configuration defines.
    """
    known = state.enforcement
    allowed = state.capabilities is not None and state.capabilities.writable and is_steering(state)
    waiting = known.asked or known.reading or (known.retry_at or now) > now
    if not allowed or waiting or known.static is None:
        return state, []
    wanted = {queue: weight for kept in state.pool_states.values() for queue, weight in kept.weights or ()}
    left_alone = {*known.static, *(queue for queue, until in known.refused.items() if until > now)}
    changed = tuple(
        (queue, weight)
        for queue, weight in wanted.items()
        if queue not in left_alone and (known.unsure or known.written.get(queue) != weight)
    )
    # Whose controller has not said yet what it wants keeps what it has.
    silent = {pool.queue for pool in state.pools if state.pool_states[pool.name].weights is None}
    forget = tuple(
        queue
        for queue in sorted(known.written)
        if queue not in wanted and queue not in left_alone and queue.rpartition(".")[0] not in silent
    )
    if not changed and not forget:
        return state, []
    state = replace(state, enforcement=replace(known, asked=True))
    return state, [WriteWeights(changed, forget, cause)]


def read_leaves(state: State, now: float) -> tuple[State, list[Command]]:
    """Ask what YARN has, when that is due: somebody else may have changed it, or an earlier arbiter left some."""
    known = state.enforcement
    due = known.read_at is not None and known.read_at <= now
    if not due or known.asked or known.reading or state.manager_error is not None:
        return state, []
    state = replace(state, enforcement=replace(known, reading=True, read_at=None))
    return state, [ReadLeaves(tuple(pool.queue for pool in state.pools))]


def weight_deadlines(state: State) -> Iterator[float]:
    """The times at which weights are to be written or read although nothing happens."""
    known = state.enforcement
    if known.retry_at is not None:
        yield known.retry_at
    if known.read_at is not None and not known.reading:
        yield known.read_at
    yield from known.refused.values()
