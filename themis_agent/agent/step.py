"""An agent: `step(state, seq, at, event) -> (state, commands)`. Pure.

1. The event changes what is known: leases, trials, the search.
2. What follows from all that is known is commanded, whichever event it was: trials that are not to run are stopped,
   revoked GPUs are vacated and given back, trials move and start, GPUs that none can use are given back, the arbiter
   is told how fast trials are and whom others slow down, and the search finishes.

So a command that was lost follows again from the state, and a restart needs no rules of its own.
"""

from collections.abc import Mapping
from dataclasses import replace

from themis_agent.agent import leasing, parents, placing, reopening, searching, sharing, speeds, trial_leases, trials
from themis_agent.agent.commands import Command, Finish, KillTrial, StopTrial
from themis_agent.agent.events import (
    ArbiterListens,
    ArbiterRefused,
    Asked,
    Begun,
    Event,
    Granted,
    LeaseEnded,
    LeasesRead,
    Offered,
    Recovered,
    Renewed,
    Restarted,
    Revoked,
    Sampled,
    StopRequested,
    Suspended,
    TimerFired,
)
from themis_agent.agent.state import Outcome, Reason, State, TrialState

KILL_AFTER_S = 5.0
"""A launcher kills its processes when their time is over. If it has not ended itself so much later, it is killed."""


def step(state: State | None, seq: int, at: float, event: Event) -> tuple[State | None, tuple[Command, ...]]:
    """The state after an event, and what is to be done. None: the search has not begun. `at`: seconds."""
    if state is None:
        if not isinstance(event, Begun):
            return None, ()
        begun = searching.begun(event.settings, at)
        begun = replace(begun, registered_as=event.registered_as, waited_s=event.waited_s)
        return begun, tuple(trial_leases.declared(None, begun))
    before = state
    answers: list[Command] = []
    match event:
        case Begun():
            pass
        case Restarted():
            if event.registered_anew or event.registered_as != state.registered_as:
                state = leasing.without_leases(state)
            # One that YARN has started again goes on with what the user had asked the one before to do.
            suspended = state.suspended and event.registered_as == state.registered_as != ""
            state = replace(state, registered_as=event.registered_as, arbiter_problem="", suspended=suspended)
            state = replace(trials.restarted(state, at, event), finished=False)
            if event.reopens:
                state = reopening.reopened(state, event.retry_failed)
        case Sampled():
            trial = state.trials[event.trial]
            state = state.with_trial(replace(trial, parameters=trial.parameters or event.parameters, sampling=False))
        case Granted() | Renewed() | Revoked() | LeaseEnded():
            state = leasing.take(state, event)
        case LeasesRead():
            state = leasing.replaced(state, event)
            # A lease that was given back and is still listed: the message may be lost.
            answers += speeds.answers(state)
        case Recovered(registered_as):
            # Its leases have new ids.
            state = leasing.replaced(leasing.without_leases(state), event)
            state = replace(state, registered_as=registered_as, arbiter_problem="")
        case ArbiterRefused():
            state = replace(state, arbiter_problem=event.problem)
        case ArbiterListens():
            state = replace(state, arbiter_problem="")
        case Asked() | Offered():
            answers.append(leasing.answer(state, at, event))
        case StopRequested() if state.outcome is None:
            state = replace(state, outcome=Outcome(state.best is not None, event.reason, "stopped"))
        case Suspended():
            state = replace(state, suspended=True)
        case StopRequested() | TimerFired():
            pass
        case _:
            state = trials.take(state, at, event)
    state, commands = _follow_up(searching.watched(before, state), at)
    again = isinstance(event, Restarted)
    may_be_lost = again or isinstance(event, ArbiterListens | Recovered)
    if may_be_lost:
        answers += speeds.answers(state)
    # After what is given back: a trial that is declared anew must not lose the lease that it then gets.
    commands += trial_leases.declared(None if may_be_lost else before, state)
    return state, (*answers, *_stops({} if again else before.trials, state), *commands)


def next_due(state: State | None) -> float | None:
    """When the state's next timer is due."""
    if state is None:
        return None
    times = [
        attempt.stop_by + KILL_AFTER_S
        for _, attempt in state.attempts
        if attempt.stop_by is not None and not attempt.killed
    ]
    limit = state.settings.trial_timeout_s
    if state.outcome is None and not state.suspended:
        deadlines = (trial.deadline(limit) for trial, _ in state.attempts if trial.fate == "training")
        times += [due for due in deadlines if due is not None]
    if state.outcome is None and state.settings.max_time_s is not None:
        times.append(state.begun_at + state.settings.max_time_s)
    return min(times, default=None)


def _follow_up(state: State, at: float) -> tuple[State, list[Command]]:
    state, commands = speeds.told(state, at)
    state = _with_outcome(trials.timed_out(state, at), at)
    resting = parents.resting(state)
    for trial, attempt in list(state.attempts):
        if trial.id in resting:
            state = placing.stopped(state, trial, "paused", at, at + state.settings.grace_s)
        elif trial.fate != "training" or state.suspended:
            state = placing.stopped(state, trial, _reason(trial), at, at + state.settings.grace_s)
        elif attempt.sample is not None and speeds.is_measured(trial, attempt.sample.lease):
            state = placing.stopped(state, trial, "moved", at, at + state.settings.grace_s)
    state = placing.vacated(state, at)
    state, released = leasing.released(state)
    commands += released
    # An arbiter that does not know the search any more kills what it starts on GPUs that it had leased before.
    if state.outcome is None and not state.suspended and not state.arbiter_problem:
        state, started = placing.placed(state, at)
        commands += started
    if not state.suspended:
        state, spared = leasing.spared(state)
        commands += spared
    state, told = sharing.told(state, at)
    commands += told
    state, killed = _killed(state, at)
    commands += killed
    outcome, best = state.outcome, state.best
    if outcome is not None and not state.finished and not any(state.attempts):
        state = replace(state, finished=True)
        commands.append(Finish(outcome.succeeded, outcome.reason, best.id if best is not None else None))
    return state, commands


def _with_outcome(state: State, at: float) -> State:
    """The state with its outcome, if the search is over; then all its trials are."""
    limit, best = state.settings.max_time_s, state.best
    if state.outcome is None and state.running_search().ended:
        reason = "all trials have ended" if best is not None else f"every trial failed: {_last_error(state)}"
        state = replace(state, outcome=Outcome(best is not None, reason, "ended"))
    if state.outcome is None and limit is not None and at >= state.begun_at + limit:
        state = replace(state, outcome=Outcome(best is not None, f"max_time_s {limit:g} is over", "time"))
    if state.outcome is not None:
        for trial in state.trials.values():
            if trial.fate in ("training", "paused"):
                state = state.with_trial(replace(trial, fate="stopped"))
    return state


def _last_error(state: State) -> str:
    return next((one.error for one in reversed(list(state.trials.values())) if one.error), "")


def _reason(trial: TrialState) -> Reason:
    return "suspended" if trial.fate == "training" else trial.fate


def _stops(before: Mapping[str, TrialState], state: State) -> list[Command]:
    """A command for each trial whose time to stop is new or has changed."""
    commands: list[Command] = []
    for trial, attempt in state.attempts:
        old = before[trial.id].attempt if trial.id in before else None
        if attempt.stop_by is not None and (old is None or old.stop_by != attempt.stop_by):
            commands.append(StopTrial(trial.id, attempt.epoch, attempt.stop_by, attempt.reason or "stopped"))
    return commands


def _killed(state: State, at: float) -> tuple[State, list[Command]]:
    commands: list[Command] = []
    for trial, attempt in list(state.attempts):
        if attempt.stop_by is not None and not attempt.killed and at >= attempt.stop_by + KILL_AFTER_S:
            commands.append(KillTrial(trial.id, attempt.epoch))
            state = state.with_trial(replace(trial, attempt=replace(attempt, killed=True)))
    return state, commands
