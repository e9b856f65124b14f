"""Which trials run on which GPUs: who starts, who moves, who has to leave."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from themis_agent.agent import parents, sharing, speeds
from themis_agent.agent.commands import Command, Place, SampleTrial, StartTrial
from themis_agent.agent.events import Gpu
from themis_agent.agent.move_time import saves_time
from themis_agent.agent.state import Attempt, Reason, Sample, State, TrialState, by_slot, machines_of
from themis_agent.division import divide
from yarn_plugin.model.gpus import Gpus, Job, total


def stopped(state: State, trial: TrialState, reason: Reason, at: float, by: float) -> State:
    """The state in which a trial has been told to stop, by then at the latest; an earlier time holds."""
    attempt = trial.attempt
    if attempt is None or (attempt.stop_by is not None and attempt.stop_by <= by):
        return state
    told_at = at if attempt.stop_told_at is None else attempt.stop_told_at
    attempt = replace(attempt, stop_by=by, stop_told_at=told_at, reason=attempt.reason or reason)
    return state.with_trial(replace(trial, attempt=attempt))


def vacated(state: State, at: float) -> State:
    """Trials leave GPUs that are no longer held."""
    held = state.gpus
    for trial, attempt in list(state.attempts):
        if any(cell not in held for cell in attempt.cells):
            by = min(_vacate_by(state, attempt, at), at + state.settings.grace_s)
            state = stopped(state, trial, "revoked", at, by)
    return state


def _vacate_by(state: State, attempt: Attempt, at: float) -> float:
    """When the first of its GPUs must be free: now, if a lease has ended."""
    held = {gpu.cell for lease in state.leases.values() for gpu in lease.gpus}
    times = [lease.vacate_by for lease in state.leases.values() if set(lease.revoked) & set(attempt.cells)]
    return min(times, default=at) if held.issuperset(attempt.cells) else at


def placed(state: State, at: float) -> tuple[State, list[Command]]:
    """Trials move to where they are faster, if that is worth it; then trials that wait start on free GPUs."""
    if state.settings.by_trial:
        return _started_by_lease(state, at)
    resting = parents.resting(state)

    def runs(trial: TrialState) -> bool:
        return trial.fate == "training" and (trial.attempt is not None or parents.may_start(state, trial, resting))

    jobs = {job.id: job for job in state.running_search().work().jobs if runs(state.trials[job.id])}
    state = _moved(state, jobs, at)
    return _started(state, jobs, at)


def _moved(state: State, jobs: Mapping[str, Job], at: float) -> State:
    held = state.gpus
    running = [(trial, attempt) for trial, attempt in state.attempts if trial.id in jobs and not trial.is_stopping]
    free = len(held.keys() - state.busy)
    if not running or not (free or any(state.trials[name].attempt is None for name in jobs)):
        return state
    division = dict(divide(machines_of(held), list(jobs.values())))
    waiting = [jobs[name].min_gpus for name in division if state.trials[name].attempt is None]
    for trial, attempt in running:
        here, there = by_slot(attempt.cells, held), division.get(trial.id, ())
        makes_room = free < min(waiting, default=0) and 0 < total(there) < total(here)
        # More GPUs, of which enough are free.
        is_enlarged = 0 < total(there) - total(here) <= free
        if makes_room or (is_enlarged and saves_time(state, jobs[trial.id], total(here), total(there))):
            state = stopped(state, trial, "moved", at, at + state.settings.grace_s)
    return state


def _started(state: State, jobs: Mapping[str, Job], at: float) -> tuple[State, list[Command]]:
    commands: list[Command] = []
    busy = state.busy
    free = {cell: gpu for cell, gpu in state.gpus.items() if cell not in busy}
    waiting = [replace(job, held=()) for name, job in jobs.items() if state.trials[name].attempt is None]
    for name, gpus in divide(machines_of(free), waiting) if free else ():
        trial = state.trials[name]
        if trial.parameters is None:
            state, commands = _drawing(state, trial, commands)
            continue
        chosen = _chosen(gpus, free)
        if all(sharing.may_start_on(state, gpu.cell) for gpu in chosen):
            state, commands = _begun(state, trial, chosen, at, commands)
    return state, commands


def _started_by_lease(state: State, at: float) -> tuple[State, list[Command]]:
    """Trials that wait start on what is leased for them."""
    commands: list[Command] = []
    resting = parents.resting(state)
    # Samples last: a trial that has a lease of its own need not be measured any more.
    for name, lease in sorted(state.leases.items(), key=lambda one: one[1].is_sample):
        trial = state.trials.get(lease.trial)
        if trial is None or trial.fate != "training" or trial.attempt is not None or lease.revoked:
            continue
        if not parents.may_start(state, trial, resting) or (lease.is_sample and speeds.is_measured(trial, name)):
            continue
        if trial.parameters is None:
            state, commands = _drawing(state, trial, commands)
        else:
            sample = speeds.sample(trial, name, lease) if lease.is_sample else None
            state, commands = _begun(state, trial, lease.gpus, at, commands, sample)
    return state, commands


def _drawing(state: State, trial: TrialState, commands: list[Command]) -> tuple[State, list[Command]]:
    if trial.sampling:
        return state, commands
    draw = SampleTrial(trial.id, trial.number, trial.parent)
    return state.with_trial(replace(trial, sampling=True)), [*commands, draw]


def _begun(
    state: State,
    trial: TrialState,
    gpus: Sequence[Gpu],
    at: float,
    commands: list[Command],
    sample: Sample | None = None,
) -> tuple[State, list[Command]]:
    places, epoch = _places(gpus), trial.epoch + 1
    if trial.parent and not trial.has_begun:
        trial = replace(trial, checkpoint=state.trials[trial.parent].checkpoint)
    assert trial.parameters is not None
    attempt = Attempt(epoch, places, at, first_step=trial.checkpoint or 0.0, sample=sample)
    state = sharing.together(state, replace(trial, epoch=epoch, attempt=attempt))
    return state, [*commands, StartTrial(trial.id, epoch, places, trial.parameters, trial.parent)]


def _chosen(gpus: Gpus, free: dict[str, Gpu]) -> list[Gpu]:
    """Free GPUs in these slots, which are free no more."""
    chosen: list[Gpu] = []
    for slot, count in gpus:
        inside = sorted((gpu for gpu in free.values() if gpu.slot == slot), key=_order)
        chosen += inside[:count]
    for gpu in chosen:
        del free[gpu.cell]
    return chosen


def _order(gpu: Gpu) -> tuple[str, int, int, str]:
    # Without ordinals, the shorter name has the lower number: `m/2` is before `m/10`.
    return gpu.machine, gpu.ordinal, len(gpu.cell), gpu.cell


def _places(gpus: Sequence[Gpu]) -> tuple[Place, ...]:
    """One place a machine; ranks go on from one to the next."""
    places: list[Place] = []
    rank = 0
    for machine, grouped in groupby(sorted(gpus, key=_order), key=lambda gpu: gpu.machine):
        inside = list(grouped)
        cells, ordinals = tuple(gpu.cell for gpu in inside), tuple(gpu.ordinal for gpu in inside)
        places.append(Place(machine, cells, rank, inside[0].host, ordinals))
        rank += len(cells)
    return tuple(places)
