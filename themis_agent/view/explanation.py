"""How a search stands, and why a trial or the search does what it does now, in plain sentences. Pure."""

from collections.abc import Iterator

from themis_agent.agent.searching import typical_step_s
from themis_agent.agent.state import State, TrialState
from themis_agent.local.progress import parameters_of, status, summary, what_is_read
from themis_agent.view.changes import gpus, metric_text
from themis_agent.view.snapshot import Snapshot, clock, duration
from yarn_plugin.quantities import count, number

MAX_NAMED = 6
"""Trials that a sentence names at most."""


def standing(shown: Snapshot, is_running: bool) -> str:
    """How the search stands. `is_running`: whether an agent answers."""
    state = shown.state
    if state.outcome is not None:
        ended = "" if state.finished else "; its trials are being stopped"
        return f"The search is over: {state.outcome.reason}{ended}."
    if not is_running and state.suspended:
        return "The search is suspended; `themis-agent resume DIR` continues it."
    if not is_running:
        when = clock(shown.wall)
        return f"No agent runs this search; the last event was at {when}. `themis-agent resume DIR` continues it."
    return f"The search goes on: {summary(state)}.{_refused(state)}"


def _refused(state: State) -> str:
    if not state.arbiter_problem:
        return ""
    again = "`themis-agent stop --kill DIR`, then `themis-agent resume DIR` registers it anew"
    problem = f"as the arbiter does not listen to it: {state.arbiter_problem}"
    return f" It gets no more GPUs and starts no trials, {problem}; {again}."


def now(shown: Snapshot, trial: TrialState | None) -> Iterator[str]:
    """Why a trial, or without one the search, does what it does now; nothing about a trial that has ended."""
    if trial is None:
        yield from _search(shown)
        return
    what = status(trial)
    attempt = trial.attempt
    if what == "running" and attempt is not None:
        seconds = max(trial.until - trial.step, 0.0) * typical_step_s(shown.state) / len(attempt.cells)
        about = f", in about {duration(seconds)}" if seconds else ""
        yield f"trains on {gpus(attempt.cells)}; step {trial.step:g}, its rung ends at step {trial.until:g}{about}"
    elif what == "stopping" and attempt is not None and attempt.stop_by is not None:
        yield f"is stopping ({attempt.reason}), within {duration(attempt.stop_by - shown.at)}"
    elif what == "waiting":
        yield _waiting(shown.state, trial)
    elif what == "paused":
        until = f"until it is among the best 1 of {shown.state.settings.eta} there"
        is_alone = shown.state.settings.algorithm == "asha"
        yield f"waits at the end of rung {trial.rung} {until if is_alone else f'for {_others(shown.state, trial)}'}"
    if read := what_is_read(trial):
        yield f"is read from its log: {read}"
    if trial.store_problem:
        stored = "nothing" if trial.checkpoint is None else f"step {trial.checkpoint:g}"
        yield f"cannot store checkpoints ({trial.store_problem}); stored so far: {stored}"


def _waiting(state: State, trial: TrialState) -> str:
    held, busy, needed = state.gpus, state.busy, state.settings.min_gpus
    free = held.keys() - busy
    if state.suspended:
        return "waits: the search is suspended"
    if state.settings.by_trial and all(lease.trial != trial.id for lease in state.leases.values()):
        return "waits for a GPU or a slot of cores, whichever the arbiter leases to it"
    if not held:
        return "waits for GPUs: the search holds none"
    if len(free) < needed:
        users = [one.id for one, _ in state.attempts]
        used = f"{len(busy & held.keys())} of the {count(len(held), 'GPU')} held are in use by {_named(users)}"
        return f"waits for {count(needed, 'GPU')}: {used}"
    if trial.parameters is None:
        return "waits for its parameters, which are being drawn"
    return f"is about to start: {count(len(free), 'GPU')} free"


def _others(state: State, trial: TrialState) -> str:
    """The trials of its rung that have not reached the end."""
    others = [
        one
        for one in state.trials.values()
        if (one.bracket, one.rung) == (trial.bracket, trial.rung) and one.fate == "training"
    ]
    said = [f"{one.id} ({status(one)}, step {one.step:g} of {one.until:g})" for one in others]
    return _named(said) if said else f"the other trials of bracket {trial.bracket}"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _search(shown: Snapshot) -> Iterator[str]:
    state, history = shown.state, shown.history
    best = state.best
    if best is not None:
        value = f"{shown.app.metric}, {metric_text(state.metric(best))}"
        yield f"has its best {value}, from {best.id} at step {best.step:g} ({parameters_of(best)})"
    if state.outcome is not None:
        return
    held, busy = state.gpus, state.busy
    waiting = sum(status(one) == "waiting" for one in state.trials.values())
    if waiting:
        used = f"{len(busy & held.keys())} of {count(len(held), 'GPU')} are in use"
        yield f"has {count(waiting, 'trial')} waiting for GPUs; {used}"
    ends = [lease.until for lease in state.leases.values() if lease.until is not None]
    if ends:
        yield f"holds {count(len(state.leases), 'lease')}; the next one ends in {duration(min(ends) - shown.at)}"
    if history.bids:
        bid = history.bids[-1]
        found = bid.best_rho
        helped = "no part of them would lower it"
        if found is not None:
            helped = f"the best was {number(found)} with {bid.best_gpus}"
        without = "unbounded" if bid.rho is None else number(bid.rho)
        offered = f"{count(bid.offered, 'GPU')} at {clock(bid.wall)}"
        yield f"was last offered {offered}; its rho without them was {without}, {helped}"
    elif history.counts["estimates"]:
        yield "has not been offered GPUs yet: others are further from their fair share"
