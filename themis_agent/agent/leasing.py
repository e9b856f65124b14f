"""The GPUs that an agent holds, and its answers to the arbiter."""

from collections import Counter
from dataclasses import replace

from themis_agent.agent import searching, trial_leases
from themis_agent.agent.cell_names import job_of
from themis_agent.agent.commands import Command, ReleaseGpus, SendBid, SendEstimate
from themis_agent.agent.events import Asked, Granted, LeaseEnded, LeasesRead, Offered, Recovered, Renewed, Revoked
from themis_agent.agent.move_time import move_s, saves_time
from themis_agent.agent.state import Lease, State
from themis_agent.bids import bid_table, estimate
from yarn_plugin.model.auction import Bid, GpuOffer
from yarn_plugin.model.gpus import Job, total

MAX_GRANTED = 1000
"""How many leases are remembered after their end."""


def take(state: State, event: Granted | Renewed | Revoked | LeaseEnded) -> State:
    """The state after a message about a lease; one about an unknown lease is ignored."""
    leases = dict(state.leases)
    if isinstance(event, Granted):
        if event.lease in state.granted:
            # After a restart of the arbiter it is sent again, maybe when its GPUs have been given back.
            return state
        # Elsewhere, a job that the user has named so is the whole search's.
        trial = event.trial if state.settings.by_trial else ""
        leases[event.lease] = Lease(event.gpus, event.until, trial=trial, is_sample=event.is_sample)
        return replace(state, leases=leases, granted=(*state.granted, event.lease)[-MAX_GRANTED:])
    lease = leases.get(event.lease)
    if lease is None:
        return state
    if isinstance(event, Renewed):
        return replace(state, leases={**leases, event.lease: replace(lease, until=event.until)})
    # The GPUs of a trial's lease are a gang: all of them go together.
    cells = event.cells if event.cells and not lease.trial else tuple(gpu.cell for gpu in lease.gpus)
    if isinstance(event, Revoked):
        leases[event.lease] = replace(lease, revoked=tuple(sorted({*lease.revoked, *cells})), vacate_by=event.by)
    else:
        leases = _without(leases, event.lease, cells)
    return replace(state, leases=leases)


def replaced(state: State, event: LeasesRead | Recovered) -> State:
    """The state with these leases and no others."""
    leases = {}
    for one in event.leases:
        trial = one.trial if state.settings.by_trial else ""
        revoked = tuple(gpu.cell for gpu in one.gpus) if trial and one.revoked else one.revoked
        leases[one.lease] = Lease(one.gpus, one.until, revoked, one.vacate_by or 0.0, trial, one.is_sample)
    known = [*state.granted, *(lease for lease in leases if lease not in state.granted)]
    return replace(state, leases=leases, granted=tuple(known)[-MAX_GRANTED:])


def without_leases(state: State) -> State:
    """The state of an application that is new to the arbiter, whose leases may have any name."""
    return replace(state, leases={}, granted=())


def answer(state: State, at: float, event: Asked | Offered) -> Command:
    """The answer to a question of the arbiter.

    T_start of equation 3.1 is the submission: the time elapsed "also captures any queuing delays" (Themis, thesis
    section 3.4.3.1).
    """
    elapsed = at - state.begun_at + state.waited_s
    if isinstance(event, Asked):
        return SendEstimate(event.id, estimate(searching.work(state), event.question, elapsed))
    return SendBid(event.id, _bid(state, event.offer, elapsed))


def _bid(state: State, offer: GpuOffer, elapsed_s: float) -> Bid:
    """The bid for what the search would use: a running trial moves for more GPUs only, if that is worth it."""
    work = searching.work(state)
    is_settled = total(offer.held) == len(state.gpus) and all(
        state.trials[job.id].attempt is not None
        for bracket in work.brackets
        for job in bracket.jobs
        if job.iterations_left > 0
    )
    bid = bid_table(work, offer, elapsed_s, move_s=move_s(state) if is_settled else 0.0)
    usable = _usable(state)
    if is_settled and len(state.busy) >= usable:
        return replace(bid, rows=())
    if state.settings.rules < 3:
        return bid
    return replace(bid, rows=tuple(row for row in bid.rows if sum(piece.gpus for piece in row.pieces) <= usable))


def released(state: State) -> tuple[State, list[Command]]:
    """Revoked GPUs on which nothing runs any more are given back before their time."""
    busy, leases = state.busy, dict(state.leases)
    commands: list[Command] = []
    for name, lease in state.leases.items():
        vacated = tuple(cell for cell in lease.revoked if cell not in busy)
        if vacated:
            # A trial's lease is given back as a whole, with the cores beside its GPU.
            commands.append(ReleaseGpus(name, () if lease.trial else vacated))
            leases = _without(leases, name, vacated)
    return (replace(state, leases=leases) if commands else state), commands


def spared(state: State) -> tuple[State, list[Command]]:
    """GPUs that the trials of this phase and of later ones cannot use are given back before their lease ends, if idle.

    Leases without an end are kept, unless the arbiter leases parts of GPUs: they are of a machine that nobody else
    leases.
    """
    if state.settings.by_trial:
        return trial_leases.spared(state)
    held, busy = state.gpus, state.busy
    spare = len(held) - _usable(state)
    if spare <= 0:
        return state, []
    leased = {
        gpu.cell: name
        for name, lease in state.leases.items()
        for gpu in lease.gpus
        if lease.until is not None or (job_of(gpu.cell) and state.registered_as)
    }
    idle = [gpu for cell, gpu in held.items() if cell not in busy and cell in leased]
    on_machine = Counter(held[cell].machine for cell in busy if cell in held)
    # Those of machines with the fewest of ours in use: so that others get machines as a whole.
    chosen = sorted(idle, key=lambda gpu: (on_machine[gpu.machine], gpu.machine, gpu.cell))[:spare]
    leases, commands = dict(state.leases), list[Command]()
    for name in dict.fromkeys(leased[gpu.cell] for gpu in chosen):
        cells = tuple(gpu.cell for gpu in chosen if leased[gpu.cell] == name)
        commands.append(ReleaseGpus(name, cells))
        leases = _without(leases, name, cells)
    return (replace(state, leases=leases) if commands else state), commands


def _usable(state: State) -> int:
    """The most GPUs that the trials of this phase, or of a later one, would use; of all brackets."""
    if state.outcome is not None:
        return 0
    found = 0
    for bracket in state.running_search().work().brackets:
        now = sum(_wanted(state, job) for job in bracket.jobs if job.iterations_left > 0)
        found += max([now, *(phase.jobs * phase.max_gpus for phase in bracket.phases)])
    return found


def _wanted(state: State, job: Job) -> int:
    """The most GPUs that a trial would use: those that it runs on, if it is known that no others are worth a move."""
    trial = state.trials[job.id]
    if state.settings.rules < 3 or trial.attempt is None or trial.is_stopping or trial.profile is None:
        return job.max_gpus
    gpus = trial.attempt.gpus
    return gpus if 0 < gpus < job.max_gpus and not saves_time(state, job, gpus, job.max_gpus) else job.max_gpus


def _without(leases: dict[str, Lease], name: str, cells: tuple[str, ...]) -> dict[str, Lease]:
    lease = leases[name]
    kept = tuple(gpu for gpu in lease.gpus if gpu.cell not in cells)
    revoked = tuple(cell for cell in lease.revoked if cell not in cells)
    others = {other: one for other, one in leases.items() if other != name}
    return {**others, name: replace(lease, gpus=kept, revoked=revoked)} if kept else others
