"""Trials that share GPUs: who runs beside whom, and by how much that slows them down (docs/sharing.md).

A part of a GPU is a GPU of its own to everything else in the agent. A trial is measured alone first: beside trials
that have not been measured yet nothing starts. All trials run one command, so a trial that was never alone is compared
with the others.
"""

import statistics
from collections.abc import Iterator
from dataclasses import replace

from themis_agent.agent.cell_names import gpu_of, job_of
from themis_agent.agent.commands import Command, SendSlowdown
from themis_agent.agent.state import Attempt, State, TrialState


def may_start_on(state: State, cell: str) -> bool:
    """Whether the trials that run on the same GPU have been measured alone, if others may run there at all."""
    if not job_of(cell) or _alone_step_s(state) is not None:
        return True
    return not any(_on(state, gpu_of(cell)))


def together(state: State, trial: TrialState) -> State:
    """The state in which a trial that starts, and those that run on its GPU, no longer run alone."""
    attempt = trial.attempt
    gpus = {gpu_of(cell) for cell in attempt.cells if job_of(cell)} if attempt is not None else set()
    others = [pair for gpu in gpus for pair in _on(state, gpu) if pair[0].id != trial.id]
    for other, theirs in others:
        state = state.with_trial(replace(other, attempt=replace(theirs, was_alone=False)))
    if others and attempt is not None:
        trial = replace(trial, attempt=replace(attempt, was_alone=False))
    return state.with_trial(trial)


def measured(trial: TrialState, step_s: float) -> TrialState:
    """A trial with the time of a step that was measured now."""
    attempt = trial.attempt
    if attempt is None or not any(map(job_of, attempt.cells)):
        return trial
    alone_step_s = step_s if attempt.was_alone else trial.alone_step_s
    return replace(trial, alone_step_s=alone_step_s, attempt=replace(attempt, step_s=step_s))


def told(state: State, at: float) -> tuple[State, list[Command]]:
    """The arbiter is told by how much trials are slowed down by those beside them."""
    commands: list[Command] = []
    for trial, attempt in list(state.attempts):
        alone = trial.alone_step_s or _alone_step_s(state)
        if alone is None or attempt.step_s is None or trial.is_stopping or not _has_others(state, trial, attempt):
            continue
        if attempt.may_tell(at):
            slowdown = max(attempt.step_s / alone - 1, 0.0)
            commands.append(SendSlowdown(job_of(attempt.cells[0]), round(slowdown, 4)))
            state = state.with_trial(replace(trial, attempt=replace(attempt, told_at=at)))
    return state, commands


def _has_others(state: State, trial: TrialState, attempt: Attempt) -> bool:
    cell = attempt.cells[0]
    return bool(job_of(cell)) and any(other.id != trial.id for other, _ in _on(state, gpu_of(cell)))


def _on(state: State, gpu: str) -> Iterator[tuple[TrialState, Attempt]]:
    """The trials that run on parts of a GPU."""
    return ((trial, attempt) for trial, attempt in state.attempts if any(gpu_of(cell) == gpu for cell in attempt.cells))


def _alone_step_s(state: State) -> float | None:
    """Seconds of a step of a trial alone on its GPU: the median of those measured."""
    alone = [trial.alone_step_s for trial in state.trials.values() if trial.alone_step_s is not None]
    return statistics.median(alone) if alone else None
