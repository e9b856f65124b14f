"""Calls the controller of a pool with what there is for it, and takes in what it wants."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from yarn_plugin.decide import commands as arbiter
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.pools.commands import Command, SetTimer, Solve, WantWeights
from yarn_plugin.decide.pools.controller import Controller, Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import Failure, PoolState
from yarn_plugin.errors import describe
from yarn_plugin.model.journaled import roll_back, savepoints_of
from yarn_plugin.model.share import Pool

RETRY_AFTER, MAX_RETRY_DELAY = 5.0, 300.0
"""Seconds until a controller that has raised is called again; doubled each time, up to the second."""

MAX_ATTEMPTS = 3
"""How often an input is tried that a controller raises on, before it is passed over; an outcome is lost then."""

MIN_TIMER_DELAY = 0.1
"""Seconds until a timer is due that is set for a time which is not to come."""

MAX_PENDING_MESSAGES = 1000
"""Messages of applications that wait for a controller that is not called now; of more, the oldest of the application
with the most of them is dropped, so that one that says much pushes out its own alone. Outcomes of commands and what the
arbiter itself says all wait: there is one at most for each command, or application whose containers were listed."""


@dataclass(slots=True)
class _Call:
    """A pool on its way through one step. `problem`: what the controller raised last.

    `shows_each`: a report is made after every input, to find the one after which none can be made.
    """

    pool: Pool
    registry: Registry
    controller: Controller
    kept: PoolState
    view: View
    at: float
    given: list[arbiter.Command]
    problem: Exception | None = None
    took: bool = False
    stopped: bool = False
    shows_each: bool = False


def advance(
    pool: Pool,
    registry: Registry,
    kept: PoolState | None,
    view: View,
    at: float,
    inputs: Sequence[Input],
    refusable: bool,
) -> tuple[PoolState, list[arbiter.Command]]:
    """One step of a pool: `inputs` that are addressed to it, then what follows from the view and from its timers.

    `kept` None: the pool is new. `refusable`: the input is a request of one of its applications, so that what the
    controller raises is raised here too, and the request refused; whatever else it raises on is tried again later.
    """
    controller = registry.controller(pool)
    if kept is None or kept.controller != pool.controller:
        # What a controller of another kind wanted, this one may never speak of: it is taken back.
        weights = None if kept is None else ()
        kept, inputs = PoolState(pool.controller, controller.initial_state(), weights=weights), (Started(),)
    if kept.failure is not None and at < kept.failure.retry_at:
        return _owe(kept, inputs), []
    waiting, savepoints = [*kept.owed, *inputs], savepoints_of(kept.state)
    call = _Call(pool, registry, controller, replace(kept, owed=()), view.only(controller.reads), at, [])
    _take_all(call, waiting, refusable)
    try:
        report = controller.report(call.kept.state) if call.took else call.kept.report
    except Exception:
        # What cannot be shown is not decided: it is as if the controller had raised on the input that led to it.
        roll_back(savepoints)
        if refusable:
            raise
        call = _Call(pool, registry, controller, replace(kept, owed=()), call.view, at, [], shows_each=True)
        _take_all(call, waiting, refusable)
        report = call.kept.report
    if kept.failure is not None and not call.stopped:
        call.kept = replace(call.kept, failure=None)
        call.given.append(arbiter.PoolResumed(pool.name))
    return replace(call.kept, report=report), call.given


def deadline(kept: PoolState) -> float:
    """When a pool is to be called though nothing happens."""
    due = min(kept.timers.values(), default=math.inf)
    return due if kept.failure is None else kept.failure.retry_at


def _take_all(call: _Call, waiting: list[Input], refusable: bool) -> None:
    for place, what in enumerate(waiting):
        if _take(call, what, refusable):
            continue
        if isinstance(what, FromApp):
            # It came while the controller was not called, so it cannot be refused any more. Nor does it stop the pool:
            # whoever sends many such messages would keep it from being decided on.
            continue
        _stop(call, again=place == 0, owed=True)
        call.kept = _owe(call.kept, waiting[place:])
        call.kept = _give_up(call.kept)
        return
    if _differs(call.kept.seen, call.view) and not _take(call, ViewChanged(), refusable):
        _stop(call, again=not waiting)
        return
    for key in _due(call.kept, call.at):
        # One that was set anew meanwhile is not due any more.
        if call.kept.timers.get(key, math.inf) <= call.at and not _take(call, TimerDue(key), refusable):
            _stop(call)
            return


def _due(kept: PoolState, at: float) -> list[str]:
    return [key for due, key in sorted((due, key) for key, due in kept.timers.items()) if due <= at]


def _differs(seen: View | None, view: View) -> bool:
    return seen is None or view.timeless() != seen


def _take(call: _Call, what: Input, refusable: bool) -> bool:
    """Call the controller once; whether it took the input."""
    kept = call.kept
    if isinstance(what, TimerDue):
        kept = replace(kept, timers={key: due for key, due in kept.timers.items() if key != what.key})
    savepoints = savepoints_of(kept.state)
    try:
        state, commands = call.controller.advance(kept.state, call.view, call.at, what)
        kept, given = _carry_out(replace(kept, state=state), call, commands)
        call.registry.check_state(state)
        if call.shows_each:
            kept = replace(kept, report=call.controller.report(state))
    except Exception as problem:
        roll_back(savepoints)
        if refusable:
            raise
        call.problem = problem
        return False
    call.kept, call.took = replace(kept, seen=call.view.timeless()), True
    call.given += given
    return True


def _stop(call: _Call, again: bool = True, owed: bool = False) -> None:
    """Call the controller no more for a while. `again`: it is still what it raised on the last time, if it did; `owed`:
    it is an input that is kept and tried again."""
    before = call.kept.failure if again else None
    tries = 1 if before is None else before.tries + 1
    tried = 1 + (0 if before is None else before.tried) if owed else 0
    wait = min(RETRY_AFTER * 2.0 ** min(tries - 1, 10), MAX_RETRY_DELAY)
    assert call.problem is not None, "it raised"
    failure = Failure(describe(call.problem), tries, call.at + wait, tried)
    call.kept, call.stopped = replace(call.kept, failure=failure), True
    call.given.append(arbiter.PoolStopped(call.pool.name, failure.error, failure.retry_at))


def _give_up(kept: PoolState) -> PoolState:
    """Pass the first input that is owed over, if it was tried often enough; of an outcome, say that it is lost.

    `Started` is not passed over: nothing else may come first.
    """
    failure, (first, *rest) = kept.failure, kept.owed
    if failure is None or failure.tried < MAX_ATTEMPTS or isinstance(first, Started):
        return kept
    if isinstance(first, Outcome) and first.kind != "lost":
        # Who waits for it may ask again, instead of waiting for ever.
        rest = [Outcome(first.id, "lost", error=failure.error), *rest]
    # What comes first now is another matter, and tried as often.
    return replace(kept, owed=tuple(rest), failure=replace(failure, tries=0, tried=0))


def _owe(kept: PoolState, inputs: Sequence[Input]) -> PoolState:
    owed = list(_without_old_lists((*kept.owed, *inputs)))
    waiting = Counter(one.app for one in owed if isinstance(one, FromApp))
    for _ in range(waiting.total() - MAX_PENDING_MESSAGES):
        ((app, _),) = waiting.most_common(1)
        del owed[next(place for place, one in enumerate(owed) if isinstance(one, FromApp) and one.app == app)]
        waiting[app] -= 1
    return replace(kept, owed=tuple(owed))


def _without_old_lists(owed: Sequence[Input]) -> Iterator[Input]:
    """What is owed, with the last list of each application's containers alone: an earlier one does not hold any more,
    and there may be one for every time that it was asked for."""
    lists = [one if isinstance(one, Outcome) and isinstance(one.result, ContainersListed) else None for one in owed]
    last = {one.id: place for place, one in enumerate(lists) if one is not None}
    for place, (one, listed) in enumerate(zip(owed, lists, strict=True)):
        if listed is None or last[listed.id] == place:
            yield one


def _carry_out(kept: PoolState, call: _Call, commands: Sequence[Command]) -> tuple[PoolState, list[arbiter.Command]]:
    """What the arbiter does at once, and what it passes on."""
    given: list[arbiter.Command] = []
    timers, weights = dict(kept.timers), kept.weights
    for command in commands:
        match command:
            case SetTimer(key, None):
                timers.pop(key, None)
            case SetTimer(key, due) if due is not None:
                timers[key] = _due_after(call.at, key, due)
            case WantWeights(wanted):
                _check_weights(call.pool, wanted)
                weights = wanted
            case Solve(name, problem):
                given.append(arbiter.SolveInWorker(call.pool.name, name, problem))
                call.registry.check(given[-1])
            case arbiter.TellShare():
                _check_share(command)
                given.append(command)
            case arbiter.ListContainers() | arbiter.SignalContainers() | arbiter.PoolStopped() | arbiter.PoolResumed():
                given.append(command)
                call.registry.check(command)
            case _:
                given.append(arbiter.SendToApp(call.pool.name, command.app, command))  # type: ignore[union-attr]
                call.registry.check(given[-1])
    return replace(kept, timers=timers, weights=weights), given


def _due_after(now: float, key: str, due: float) -> float:
    """When a timer is due. One for a time that has passed, or for now, is due soon: a controller that sets it anew
    whenever it is woken would otherwise keep the arbiter from everything else."""
    if not math.isfinite(due):
        raise ValueError(f"timer {key!r} at {due!r}; give a time, or None to have none")
    return float(due) if due > now else now + MIN_TIMER_DELAY


def _check_weights(pool: Pool, wanted: tuple[tuple[str, float], ...]) -> None:
    """Refuse what YARN would not take, and what is another pool's.

    Raises:
        ValueError: it is such a weight.
    """
    for queue, weight in wanted:
        if queue.rpartition(".")[0] != pool.queue:
            raise ValueError(f"a weight for queue {queue!r}; name leaf queues directly below {pool.queue}")
        if not (math.isfinite(weight) and weight > 0):
            raise ValueError(f"weight {weight!r} for queue {queue!r}; give a number above 0")


def _check_share(told: arbiter.TellShare) -> None:
    """Refuse a share with a number that is none: no journal can hold it. Shares are many, so this alone is looked at.

    Raises:
        ValueError: it has such a number.
    """
    share, grant = told.share, told.share.grant
    numbers = (grant.current, grant.guarantee_fraction, grant.entitlement_fraction, share.told_at, share.effective_at)
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"the share of {told.app} holds {numbers}; give numbers")
