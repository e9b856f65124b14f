"""How fast trials are on a GPU and on a slot of cores, as the arbiter learns it (docs/allox.md).

Where nobody knows, it leases each side for a sample first: a trial runs a few steps there, says what they took, its
start included, saves a checkpoint, and gives the lease back. The steps count: the next run goes on from the checkpoint.
A trial that has samples on both sides at the same time runs one after the other. A sample that dies is run again on its
lease; one that is measured never. While a trial runs on a lease of its own, it says what its steps have taken so far.
"""

import math
from dataclasses import replace

from themis_agent.agent.cell_names import is_slot
from themis_agent.agent.commands import Command, SendSpeed
from themis_agent.agent.state import Attempt, Lease, Measured, Sample, State, TrialState

FRACTIONS = (0.01, 0.02)
"""Of the steps that are left of its rung, a trial runs so many in its first sample on a side, and in the next ones
(AlloX, section 4.1)."""

MIN_STEPS = (1, 3)
"""As many at least. The samples differ: a line through them tells the start from the steps."""


def sample(trial: TrialState, name: str, lease: Lease) -> Sample:
    """What a trial runs on a lease of class sample."""
    on_side = sum(one.is_slot == is_slot(lease.gpus[0].cell) for one in trial.measured)
    number = min(on_side, len(FRACTIONS) - 1)
    steps = math.ceil(FRACTIONS[number] * (trial.until - trial.step))
    return Sample(name, float(max(steps, MIN_STEPS[number])))


def is_measured(trial: TrialState, lease: str) -> bool:
    """Whether the sample on a lease is finished."""
    return any(one.lease == lease for one in trial.measured)


def told(state: State, at: float) -> tuple[State, list[Command]]:
    """The arbiter is told how fast trials are; samples that have run their steps are finished."""
    commands: list[Command] = []
    for trial, attempt in list(state.attempts) if state.settings.by_trial else ():
        if attempt.first_step is None or attempt.last_step is None or trial.is_stopping or state.outcome is not None:
            continue
        steps = attempt.last_step - attempt.first_step
        if steps <= 0:
            continue
        if attempt.sample is None:
            if trial.fate == "training" and attempt.may_tell(at):
                commands.append(_speed(trial, attempt, steps, at))
                state = state.with_trial(replace(trial, attempt=replace(attempt, told_at=at)))
        elif steps >= attempt.sample.steps or trial.fate != "training":
            speed = _speed(trial, attempt, steps, at)
            measured = Measured(attempt.sample.lease, speed.is_slot, speed.steps, speed.seconds)
            commands.append(speed)
            state = state.with_trial(replace(trial, measured=(*trial.measured, measured)))
    return state, commands


def answers(state: State) -> list[Command]:
    """What was measured on leases that are still held, once more: that it was told may be lost."""
    return [
        SendSpeed(trial.id, one.is_slot, one.steps, one.seconds, one.lease)
        for trial in state.trials.values()
        for one in trial.measured
        if one.lease in state.leases and not state.leases[one.lease].revoked
    ]


def _speed(trial: TrialState, attempt: Attempt, steps: float, at: float) -> SendSpeed:
    lease = attempt.sample.lease if attempt.sample is not None else ""
    on_slot = all(place.is_slot for place in attempt.places)
    return SendSpeed(trial.id, on_slot, steps, max(round(at - attempt.started_at, 3), 0.001), lease)
