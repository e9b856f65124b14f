"""Runs one step of a pool: calls its controller with the pending inputs, and executes its commands."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from yarn_plugin.decide import commands as arbiter
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.pools.commands import Command, SetTimer, Solve, WantWeights
from yarn_plugin.decide.pools.controller import Controllers
from yarn_plugin.decide.pools.inputs import (
    FromApp,
    Input,
    Outcome,
    Reconfigured,
    Restarted,
    Started,
    TimerDue,
    ViewChanged,
)
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import Failure, PoolState
from yarn_plugin.errors import describe
from yarn_plugin.model.journaled import roll_back, savepoints_of
from yarn_plugin.model.share import Pool

RETRY_AFTER, MAX_RETRY_DELAY = 5.0, 300.0
"""Initial and maximum delay in seconds before a failed controller is retried; doubled each time."""

MAX_ATTEMPTS = 3
"""Attempts to process an input on which a controller fails, before the input is dropped; an outcome is then `lost`."""

MIN_TIMER_DELAY = 0.1
"""Minimum delay in seconds of a timer that is set to a time which is not in the future."""

MAX_PENDING_MESSAGES = 1000
"""Maximum number of application messages that wait for a failed controller. Beyond it, the oldest message of the
application with the most is dropped, so that an application that sends many only loses its own. Outcomes and the
arbiter's own inputs are not limited: there is at most one per command or listed application."""


@dataclass(slots=True)
class _Call:
    """The state of one step of a pool. `view`: as the controller reads it; `timeless`: the same without what differs in
    each step. `problem`: the controller's last exception.

    `shows_each`: make a report after every input, to find the input after which reporting fails.
    """

    pool: Pool
    controllers: Controllers
    kept: PoolState
    view: View
    timeless: View
    at: float
    given: list[arbiter.Command]
    problem: Exception | None = None
    took: bool = False
    stopped: bool = False
    shows_each: bool = False


def advance(
    pool: Pool,
    controllers: Controllers,
    kept: PoolState | None,
    view: View,
    at: float,
    inputs: Sequence[Input],
    refusable: bool,
) -> tuple[PoolState, list[arbiter.Command]]:
    """Run one step of a pool: the `inputs` for it, then a changed view, then its due timers.

    `kept`: the pool's stored state; None for a new pool. `refusable`: the input is an application's request, which is
    rejected if the controller raises: the exception is passed on. Other inputs are retried later.
    """
    controller = controllers.of(pool)
    if kept is None or kept.controller != pool.controller:
        kept, inputs = _begun(pool, controllers, kept, view, inputs)
    if kept.failure is not None and at < kept.failure.retry_at:
        return _add_pending(kept, inputs), []
    waiting, savepoints = [*kept.owed, *inputs], savepoints_of(kept.state)
    kept_alone, view = kept if not kept.owed else replace(kept, owed=()), view.only(controller.reads)
    call = _Call(pool, controllers, kept_alone, view, view.timeless(), at, [])
    _take_all(call, waiting, refusable)
    try:
        report = controller.report(call.kept.state) if call.took else call.kept.report
    except Exception:
        # A state that cannot be reported counts as a failure of the input that led to it.
        roll_back(savepoints)
        controllers.drop(pool)
        if refusable:
            raise
        call = _Call(pool, controllers, kept_alone, view, call.timeless, at, [], shows_each=True)
        _take_all(call, waiting, refusable)
        report = call.kept.report
    if kept.failure is not None and not call.stopped:
        call.kept = replace(call.kept, failure=None)
        call.given.append(arbiter.PoolResumed(pool.name))
    return call.kept if report is call.kept.report else replace(call.kept, report=report), call.given


def _begun(
    pool: Pool, controllers: Controllers, kept: PoolState | None, view: View, inputs: Sequence[Input]
) -> tuple[PoolState, Sequence[Input]]:
    """A pool that is new, or has another controller now; with its inputs. `kept`: as the other one left it."""
    if kept is not None:
        adopt = controllers.registry.kind(pool.controller).adopt
        state = adopt(pool, kept.state, view if kept.seen is None else kept.seen)
        if state is not None:
            kept = replace(kept, controller=pool.controller, state=state, timers={}, failure=None)
            others = [one for one in inputs if not isinstance(one, Restarted | Reconfigured)]
            return kept, (Restarted(), *others)
    # The weights of a controller of another kind are removed: this one may never set them.
    weights = None if kept is None else ()
    state = controllers.of(pool).initial_state()
    return PoolState(pool.controller, state, weights=weights), (Started(),)


def deadline(kept: PoolState) -> float:
    """When a pool must be called next, without any event; infinity if never."""
    due = min(kept.timers.values(), default=math.inf)
    return due if kept.failure is None else kept.failure.retry_at


def _take_all(call: _Call, waiting: list[Input], refusable: bool) -> None:
    for place, what in enumerate(waiting):
        if _take(call, what, refusable):
            continue
        if isinstance(what, FromApp):
            # The message was accepted while the controller was stopped, so it can no longer be rejected. It is dropped
            # without stopping the pool: otherwise an application could block the pool with bad messages.
            continue
        _stop(call, again=place == 0, owed=True)
        call.kept = _add_pending(call.kept, waiting[place:])
        call.kept = _drop_first(call.kept)
        return
    if call.kept.seen != call.timeless and not _take(call, ViewChanged(), refusable):
        _stop(call, again=not waiting)
        return
    for key in _due(call.kept, call.at):
        # A timer that was set again meanwhile is no longer due.
        if call.kept.timers.get(key, math.inf) <= call.at and not _take(call, TimerDue(key), refusable):
            _stop(call)
            return


def _due(kept: PoolState, at: float) -> list[str]:
    return [key for due, key in sorted((due, key) for key, due in kept.timers.items()) if due <= at]


def _take(call: _Call, what: Input, refusable: bool) -> bool:
    """Call the controller once. Returns whether it succeeded."""
    kept = call.kept
    if isinstance(what, TimerDue):
        kept = replace(kept, timers={key: due for key, due in kept.timers.items() if key != what.key})
    savepoints, controller = savepoints_of(kept.state), call.controllers.of(call.pool)
    try:
        state, commands = controller.advance(kept.state, call.view, call.at, what)
        timers, weights, given = _execute(kept, call, commands)
        call.controllers.registry.check_state(call.pool.controller, state)
        report = controller.report(state) if call.shows_each else kept.report
    except Exception as problem:
        roll_back(savepoints)
        call.controllers.drop(call.pool)
        if refusable:
            raise
        call.problem = problem
        return False
    call.kept = replace(kept, state=state, timers=timers, weights=weights, report=report, seen=call.timeless)
    call.took = True
    call.given += given
    return True


def _stop(call: _Call, again: bool = True, owed: bool = False) -> None:
    """Stop calling the controller until the retry. `again`: it failed on the same input as the last time, if any.
    `owed`: the input is retained and retried."""
    before = call.kept.failure if again else None
    tries = 1 if before is None else before.tries + 1
    tried = 1 + (0 if before is None else before.tried) if owed else 0
    wait = min(RETRY_AFTER * 2.0 ** min(tries - 1, 10), MAX_RETRY_DELAY)
    assert call.problem is not None, "the controller failed"
    failure = Failure(describe(call.problem), tries, call.at + wait, tried)
    call.kept, call.stopped = replace(call.kept, failure=failure), True
    call.given.append(arbiter.PoolStopped(call.pool.name, failure.error, failure.retry_at))


def _drop_first(kept: PoolState) -> PoolState:
    """Drop the first pending input after MAX_ATTEMPTS; an outcome is replaced by `lost`.

    `Started` is never dropped: no other input may come first.
    """
    failure, (first, *rest) = kept.failure, kept.owed
    if failure is None or failure.tried < MAX_ATTEMPTS or isinstance(first, Started):
        return kept
    if isinstance(first, Outcome) and first.kind != "lost":
        # The controller can issue the command again instead of waiting forever.
        rest = [Outcome(first.id, "lost", error=failure.error), *rest]
    # The next input gets its own attempts.
    return replace(kept, owed=tuple(rest), failure=replace(failure, tries=0, tried=0))


def _add_pending(kept: PoolState, inputs: Sequence[Input]) -> PoolState:
    owed = list(_latest_lists((*kept.owed, *inputs)))
    waiting = Counter(one.app for one in owed if isinstance(one, FromApp))
    for _ in range(waiting.total() - MAX_PENDING_MESSAGES):
        ((app, _),) = waiting.most_common(1)
        del owed[next(place for place, one in enumerate(owed) if isinstance(one, FromApp) and one.app == app)]
        waiting[app] -= 1
    return replace(kept, owed=tuple(owed))


def _latest_lists(owed: Sequence[Input]) -> Iterator[Input]:
    """The pending inputs with only the latest container list of each application: earlier ones are outdated, and could
    be many."""
    lists = [one if isinstance(one, Outcome) and isinstance(one.result, ContainersListed) else None for one in owed]
    last = {one.id: place for place, one in enumerate(lists) if one is not None}
    for place, (one, listed) in enumerate(zip(owed, lists, strict=True)):
        if listed is None or last[listed.id] == place:
            yield one


def _execute(
    kept: PoolState, call: _Call, commands: Sequence[Command]
) -> tuple[dict[str, float], tuple[tuple[str, float], ...] | None, list[arbiter.Command]]:
    """The timers and the weights after these commands; and the other commands, translated to the arbiter's."""
    given: list[arbiter.Command] = []
    timers, weights = dict(kept.timers), kept.weights
    for command in commands:
        match command:
            case SetTimer(key, None):
                timers.pop(key, None)
            case SetTimer(key, due) if due is not None:
                timers[key] = _due_after(call, key, due)
            case WantWeights(wanted):
                _check_weights(call.pool, wanted)
                weights = wanted
            case Solve(name, problem):
                given.append(arbiter.SolveInWorker(call.pool.name, name, problem))
                call.controllers.registry.check(given[-1])
            case arbiter.TellShare():
                _check_share(call.pool, command)
                given.append(command)
            case arbiter.ListContainers() | arbiter.SignalContainers() | arbiter.RecordRound():
                given.append(command)
                call.controllers.registry.check(command)
            case _:
                given.append(arbiter.SendToApp(call.pool.name, command.app, command))  # type: ignore[union-attr]
                call.controllers.registry.check(given[-1])
    return timers, weights, given


def _due_after(call: _Call, key: str, due: float) -> float:
    """When a timer is due: never before MIN_TIMER_DELAY, so that a controller that always sets it to now does not block
    the arbiter."""
    if not math.isfinite(due):
        raise ValueError(f"controller {call.pool.controller}: timer {key!r} {due!r}: must be a finite time or None")
    return float(due) if due > call.at else call.at + MIN_TIMER_DELAY


def _check_weights(pool: Pool, wanted: tuple[tuple[str, float], ...]) -> None:
    """Check that YARN would accept the weights, and that the queues are the pool's.

    Raises:
        ValueError: a weight or a queue is invalid.
    """
    for queue, weight in wanted:
        where = f"controller {pool.controller}: queue {queue!r}"
        if queue.rpartition(".")[0] != pool.queue:
            raise ValueError(f"{where}: must be a leaf queue directly below {pool.queue}")
        if not (math.isfinite(weight) and weight > 0):
            raise ValueError(f"{where}: weight {weight!r}: must be a number above 0")


def _check_share(pool: Pool, command: arbiter.TellShare) -> None:
    """Check that a share's numbers are finite, so that it can be journaled. Nothing else: shares are many.

    Raises:
        ValueError: a number is not finite.
    """
    share, grant = command.share, command.share.grant
    numbers = (grant.current, grant.guarantee_fraction, grant.entitlement_fraction, share.told_at, share.effective_at)
    if not all(map(math.isfinite, numbers)):
        raise ValueError(
            f"controller {pool.controller}: share of {command.app}: must have finite numbers, not {numbers}"
        )
