"""What a journal recorded of a pool of leased GPUs, to run the same applications in virtual time under other policies.

Profiles are what applications said of their jobs (`lease.estimate`), when a job was last in an estimate: the iterations
that it had done and had left, its speed, its gang, its slowdowns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.commands import Admit, Command, Dismiss, SendToApp
from yarn_plugin.decide.events import AppSaid, Event
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded
from yarn_plugin.decide.pools.lease import LeaseSettings
from yarn_plugin.decide.pools.lease.inventory import inventory, inventory_of
from yarn_plugin.decide.pools.ledger import cells_of_pool
from yarn_plugin.decide.state import State
from yarn_plugin.drive.recorded_rounds import round_settings
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.auction import Estimate
from yarn_plugin.model.gpus import Job, Machine, Slot
from yarn_plugin.model.share import Pool, Registration
from yarn_plugin.model.topology import Topology
from yarn_plugin.simulation.outcome import JobOutcome, Outcome
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.cluster import TrainingCluster
from yarn_plugin.validation import one_of


@dataclass(frozen=True, slots=True)
class RecordedTraining:
    """A pool's recorded applications and what became of them. Times count from the first arrival, in seconds.

    `cluster`: its usable GPUs at the end of the journal. `outcome`: of the recorded run; every job of an application
    ends with it. `left_out`: applications that said nothing of their jobs.
    """

    settings: LeaseSettings
    workload: TrainingWorkload
    cluster: TrainingCluster
    outcome: Outcome
    left_out: tuple[str, ...]


@dataclass(slots=True)
class _App:
    """An application as it is read. `granted`: since when it has held each GPU of a lease."""

    registration: Registration
    ended_at: float | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    granted: dict[tuple[str, str], float] = field(default_factory=dict)
    gpu_s: float = 0.0


def recorded_training(
    state: State, history: Sequence[Decided[Event, Command]], pool: str | None = None
) -> RecordedTraining:
    """What was recorded. `state`: at the end of the history. `pool`: its name; None: the only one with leased GPUs.

    Raises:
        BadInputError: there is no such pool, or nothing to run of it.
    """
    home = lease_pool((one for one in state.pools if round_settings(one) is not None), pool)
    settings = round_settings(home)
    assert settings is not None
    apps = _apps(history, home.name)
    end = history[-1].at if history else 0.0
    described = {name: app for name, app in apps.items() if app.jobs}
    if not described:
        raise BadInputError("journal", home.name, "no application of this pool said anything of its jobs")
    topology, ledger = state.cells or Topology(), home.parameters
    gpus = (
        inventory_of(cells_of_pool(topology, ledger))
        if isinstance(ledger, LedgerSettings)
        else inventory(topology, settings)
    )
    if not gpus.places:
        raise BadInputError("journal", home.name, "the pool has no GPUs at the end of the journal")
    start = min(app.registration.registered_at for app in described.values())
    outcomes = [one for app in described.values() for one in _outcomes(app, start, end)]
    return RecordedTraining(
        settings,
        TrainingWorkload(ordered([_as_training(app, start) for app in described.values()])),
        TrainingCluster(tuple(map(_with_slots, gpus.machines(gpus.by_slot(gpus.places))))),
        Outcome(
            tuple(outcomes),
            end - start,
            unfinished=sum(app.ended_at is None for app in described.values()),
            gpus=len(gpus.places),
        ),
        tuple(name for name in apps if name not in described),
    )


def lease_pool(pools: Iterable[Pool], name: str | None) -> Pool:
    """A pool of these, whose GPUs are leased, by its name; None: the only one.

    Raises:
        BadInputError: there is none of this name, or several.
    """
    leased = {pool.name: pool for pool in pools}
    if name is None and len(leased) == 1:
        return next(iter(leased.values()))
    if name not in leased:
        expected = one_of(leased) if leased else "the journal has no pool of leased GPUs"
        raise BadInputError("--pool", name, expected)
    return leased[name]


def _with_slots(machine: Machine) -> Machine:
    """The machine with cells of its own: where the topology describes none below it, the machine is its own slot."""
    slots = tuple(Slot(f"{slot.id}/slot" if slot.id == machine.id else slot.id, slot.gpus) for slot in machine.slots)
    return replace(machine, rack=machine.rack or "rack", slots=slots)


def _apps(history: Sequence[Decided[Event, Command]], pool: str) -> dict[str, _App]:
    """The applications that registered in the pool since the journal began."""
    apps: dict[str, _App] = {}
    for one in history:
        for command in one.commands:
            match command:
                case Admit(registration) if registration.pool == pool:
                    apps.setdefault(registration.id, _App(registration))
                case Dismiss(app) if app in apps:
                    apps[app].ended_at = one.at
                case SendToApp(_, app, Grant(leases=leases)) if app in apps:
                    held = ((lease.id, holding.cell) for lease in leases for holding in lease.holdings)
                    apps[app].granted |= dict.fromkeys(held, one.at)
                case SendToApp(_, app, LeaseEnded(lease=lease, cells=cells)) if app in apps:
                    gone = [key for key in apps[app].granted if key[0] == lease and (not cells or key[1] in cells)]
                    apps[app].gpu_s += sum(one.at - apps[app].granted.pop(key) for key in gone)
        match one.event:
            case AppSaid(app, Estimate(jobs=jobs)) if app in apps:
                apps[app].jobs |= {job.id: job for job in jobs}
    return apps


def _as_training(app: _App, start: float) -> TrainingApp:
    jobs = tuple(
        TrainingJob(
            job.id,
            job.iterations_done + job.iterations_left,
            job.iteration_s,
            job.min_gpus,
            job.max_gpus,
            job.step_gpus,
            job.slowdown,
        )
        for job in app.jobs.values()
    )
    given = app.registration
    return TrainingApp(given.id, given.registered_at - start, jobs, user=given.user, weight=given.weight)


def _outcomes(app: _App, start: float, end: float) -> list[JobOutcome]:
    """Its jobs, each with an equal part of the application's GPU time: a lease does not say which job used it."""
    ended = end if app.ended_at is None else app.ended_at
    gpu_s = app.gpu_s + sum(ended - since for since in app.granted.values())
    return [
        JobOutcome(
            job.id,
            app.registration.id,
            app.registration.registered_at - start,
            None if app.ended_at is None else ended - start,
            iterations_s / job.max_gpus,
            user=app.registration.user,
            weight=app.registration.weight,
            gpus=job.max_gpus,
            iterations_s=iterations_s,
            gpu_s=gpu_s / len(app.jobs),
        )
        for job in app.jobs.values()
        for iterations_s in [(job.iterations_done + job.iterations_left) * job.iteration_s]
    ]
