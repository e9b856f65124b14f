"""Trials as jobs at the arbiter, each with a lease of its own: of a GPU, or of a slot of cores (docs/allox.md).

The arbiter chooses the side of a trial. A trial is declared while it trains, and until its launchers are gone: what is
left out has ended, and loses its lease at once. Its work is what is left of its rung; so when it is promoted, or its
lease has ended, the arbiter chooses its side anew.
"""

from dataclasses import replace

from themis_agent.agent import speeds
from themis_agent.agent.commands import Command, DeclareTrials, ReleaseGpus, TrialJob
from themis_agent.agent.state import State, TrialState

MAX_DECLARED = 200
"""An application has at most so many jobs at the arbiter."""


def declared(before: State | None, state: State) -> list[DeclareTrials]:
    """The declaration of the trials, if it is new. `before`: the state at the last declaration, or later; None: it may
    be lost."""
    if not state.settings.by_trial or state.outcome is not None or state.suspended:
        return []
    trials = _trials(state)
    if before is not None and {one.id: one.until for one in _trials(before)} == {one.id: one.until for one in trials}:
        stopped = [one for one in trials if one.attempt is None and before.trials[one.id].attempt is not None]
        if not stopped:
            return []
    return [DeclareTrials(tuple(TrialJob(one.id, max(one.until - one.step, 1.0)) for one in trials))]


def _trials(state: State) -> list[TrialState]:
    """The trials that are declared: those that run, then the first of those that wait."""
    running = [one for one in state.trials.values() if one.attempt is not None]
    waiting = [one for one in state.trials.values() if one.attempt is None and one.fate == "training"]
    return sorted((*running, *waiting[: max(MAX_DECLARED - len(running), 0)]), key=lambda one: one.number)


def spared(state: State) -> tuple[State, list[Command]]:
    """Leases are given back when their trials do not run, and are not to train on or have been measured."""
    idle = [
        name
        for name, lease in state.leases.items()
        if (trial := state.trials.get(lease.trial)) is None
        or (trial.attempt is None and (trial.fate != "training" or speeds.is_measured(trial, name)))
    ]
    leases = {name: lease for name, lease in state.leases.items() if name not in idle}
    return replace(state, leases=leases) if idle else state, [ReleaseGpus(name, ()) for name in idle]
