"""Training applications on the leased GPUs of a pool, in virtual time: who holds which GPU, and what its jobs do.

A job that is moved restores its checkpoint first; apart from that containers start and leave at once (see
`pool_simulation`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_

from yarn_plugin.decide.mechanisms.gang_placement import combined
from yarn_plugin.decide.pools.commands import Downgrade, Grant, LeaseEnded, Renew, Revoke
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import FromApp
from yarn_plugin.drive.pool_simulation import PoolSimulation, SimulationError
from yarn_plugin.model.auction import Bid, EstimateRequest, GpuOffer, Release
from yarn_plugin.model.gpus import Gpus
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Lease, Pool
from yarn_plugin.simulation.leasing.application import JobProgress, TrainingApplication
from yarn_plugin.simulation.leasing.job import RunningJob
from yarn_plugin.simulation.leasing.layout import GpuIds, Layout
from yarn_plugin.simulation.outcome import Holding, JobOutcome, Outcome, Round


@dataclass(frozen=True, slots=True)
class Arrival:
    """An application that arrives. `group`: its name in the workload; jobs that bid for themselves share it.

    `make`: creates it, when it arrives.
    """

    app: str
    group: str
    at: float
    make: Callable[[], TrainingApplication]
    user: str = ""
    weight: float = 1.0


@dataclass(slots=True, eq=False)
class _Held:
    """A lease with its GPUs that have not ended. `vacated`: those revoked or given back, and not used."""

    lease: Lease
    gpus: GpuIds
    vacated: GpuIds = frozenset()
    _counted: tuple[GpuIds, GpuIds, Gpus] = (frozenset(), frozenset(), ())

    def in_use(self) -> GpuIds:
        """Its GPUs that may be used."""
        return self.gpus - self.vacated if self.vacated else self.gpus

    def count(self, layout: Layout) -> Gpus:
        """How many GPUs of each slot that is."""
        gpus, vacated, counts = self._counted
        if gpus is not self.gpus or vacated is not self.vacated:
            counts = layout.count(self.in_use())
            self._counted = self.gpus, self.vacated, counts
        return counts


@dataclass(slots=True, eq=False)
class _Run:
    """An application that has arrived. `wake`: the number of its latest entry in the agenda; earlier ones are void."""

    arrival: Arrival
    number: int
    application: TrainingApplication
    claim: Claim
    jobs: dict[str, RunningJob] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    ended: dict[str, float] = field(default_factory=dict)
    leases: dict[str, _Held] = field(default_factory=dict)
    gpus: set[str] = field(default_factory=set)
    wake: int = 0
    lost_jobs: bool = False
    seen: dict[str, JobProgress] = field(default_factory=dict)
    shown: tuple[JobProgress, ...] = ()
    stands_still: bool = False

    def in_use(self) -> set[str]:
        """The GPUs of its leases that it may use."""
        return set[str]().union(*[held.in_use() for held in self.leases.values()])

    def progress(self, at: float) -> tuple[JobProgress, ...]:
        """The progress of its jobs that may run; the same objects while they make none."""
        if self.stands_still:
            return self.shown
        shown, moves = [], False
        for name in self.active:
            job, known = self.jobs[name], self.seen.get(name)
            if job.held:
                if job.since != at:
                    job.advance(at)
                moves = True
            if known is None or (known.done, known.attained_gpu_s, known.held) != (
                job.done,
                job.attained_gpu_s,
                job.held,
            ):
                known = self.seen[name] = JobProgress(name, job.done, job.attained_gpu_s, job.held)
            shown.append(known)
        if len(shown) != len(self.shown) or not all(map(is_, shown, self.shown)):
            self.shown = tuple(shown)
        self.stands_still = not moves
        return self.shown


class LeaseSimulation:
    """One run of training applications on a pool whose controller leases GPUs.

    Args:
        layout: the pool's GPUs.
        checkpoint_s: seconds that a job loses when its GPUs change.
        solve_s: seconds that a solve takes.
        keeps_holdings: record who held which GPU when.
        on_ended: called with the number of applications that have ended.

    Raises:
        NoControllerError: the pool's controller cannot be created.
    """

    def __init__(
        self,
        pool: Pool,
        registry: Registry,
        layout: Layout,
        arrivals: Sequence[Arrival],
        checkpoint_s: float = 0.0,
        solve_s: float = 0.0,
        keeps_holdings: bool = False,
        on_ended: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._layout, self._queue = layout, pool.queue
        self.engine = PoolSimulation(pool, registry, layout.topology, self, solve_s)
        self._arrivals = sorted(arrivals, key=lambda one: one.at)
        self._checkpoint_s, self._keeps_holdings, self._on_ended = checkpoint_s, keeps_holdings, on_ended
        self._left = len(self._arrivals)
        self._runs: dict[str, _Run] = {}
        self._changed: dict[str, _Run] = {}
        self._releases: list[FromApp] = []
        self._owner: dict[str, tuple[Arrival, float]] = {}
        self._holdings: list[Holding] = []
        self._outcomes: list[JobOutcome] = []
        self._rounds: dict[int, Round] = {}

    def run(self) -> Outcome:
        """Run until all applications have ended, or nothing more would ever happen.

        Raises:
            SimulationError: the controller leases a GPU twice, or loops.
        """
        for number, arrival in enumerate(self._arrivals):
            self.engine.put(arrival.at, partial(self._arrive, arrival, number))
        self.engine.run()
        return self._outcome()

    def is_done(self) -> bool:
        """Whether all applications have ended."""
        return not self._left

    # Applications.

    def _arrive(self, arrival: Arrival, number: int, at: float) -> None:
        claim = Claim(arrival.app, arrival.weight, None, Resources(), tenant=arrival.user, arrived_at=at,
                      yarn_app=f"application_1_{number:06d}", queue=f"{self._queue}.{arrival.app}")  # fmt: skip
        run = self._runs[arrival.app] = _Run(arrival, number, arrival.make(), claim)
        self.engine.revise()
        self._read_goals(at, run)

    def _read_goals(self, at: float, run: _Run) -> None:
        """Start, continue and stop jobs as the application says; end it if none is left."""
        run.stands_still = False
        goals = run.application.goals()
        before, run.active = run.active, tuple(goal.job for goal in goals)
        for goal in goals:
            run.ended.pop(goal.job, None)
            job = run.jobs.get(goal.job)
            if job is None:
                run.jobs[goal.job] = RunningJob(goal.job, goal.profile, goal.iterations, since=at)
            elif (job.goal, job.profile) != (goal.iterations, goal.profile):
                job.pursue(at, goal.iterations, goal.profile, self._layout)
        for name in before:
            if name not in run.active:
                run.jobs[name].place(at, (), self._layout, 0.0)
                run.ended[name] = at
                run.lost_jobs = True
        self._changed[run.arrival.app] = run
        if not goals:
            self._end(run)

    def _end(self, run: _Run) -> None:
        self._outcomes += _outcomes(run)
        del self._runs[run.arrival.app]
        self.engine.revise()
        self._left -= 1
        self._on_ended(len(self._arrivals) - self._left)

    def _wake(self, run: _Run, number: int, at: float) -> None:
        """Some of its jobs have reached their goals."""
        if run.wake != number or run.arrival.app not in self._runs:
            return
        for name in run.active:
            job = run.jobs[name]
            ends_at = job.ends_at()
            if ends_at is not None and ends_at <= at:
                job.reach(at)
                run.application.reached(at, name)
        self._read_goals(at, run)

    # What the controller is told, and commands.

    def claims(self) -> tuple[Claim, ...]:
        """Of the applications that have arrived and not ended."""
        return tuple(run.claim for run in self._runs.values())

    def answer(self, app: str, question: object) -> object | None:
        """The application's, which counts in a round."""
        run = self._runs.get(app)
        if run is None:
            return None
        answer = run.application.answer(self.engine.now, question, run.progress(self.engine.now))
        if isinstance(question, EstimateRequest | GpuOffer):
            known = self._rounds.get(question.round, Round(question.round, self.engine.now))
            self._rounds[question.round] = replace(
                known,
                asked=known.asked + isinstance(question, EstimateRequest),
                offered=known.offered + isinstance(question, GpuOffer),
                bidders=known.bidders + (isinstance(answer, Bid) and bool(answer.rows)),
            )
        return answer

    def granted(self, command: Grant) -> None:
        """An application may use the GPUs of these leases."""
        run = self._runs.get(command.app)
        if run is None:
            return
        for lease in command.leases:
            run.leases[lease.id] = _Held(lease, frozenset(holding.cell for holding in lease.holdings))
        self._changed[command.app] = run

    def renewed(self, command: Renew) -> None:
        """A lease goes on."""
        if held := self._lease(command.app, command.lease):
            held.lease = replace(held.lease, until=command.until)

    def _lease(self, app: str, lease: str) -> _Held | None:
        run = self._runs.get(app)
        return None if run is None else run.leases.get(lease)

    def revoked(self, revoke: Revoke) -> None:
        """GPUs are used no longer."""
        held = self._lease(revoke.app, revoke.lease)
        if held is not None:
            held.vacated |= held.gpus.intersection(revoke.cells or held.gpus)
            self._changed[revoke.app] = self._runs[revoke.app]

    def ended(self, ended: LeaseEnded) -> None:
        """The GPUs of a lease that have ended are no longer its own; a lease without any is gone."""
        held = self._lease(ended.app, ended.lease)
        if held is None:
            return
        run = self._changed[ended.app] = self._runs[ended.app]
        held.gpus = held.gpus.difference(ended.cells or held.gpus)
        if not held.gpus:
            del run.leases[ended.lease]

    def reclassed(self, command: Downgrade) -> None:
        """Jobs run alike on leases of every class."""

    # What follows for jobs, once all that happens at a moment has happened.

    def settle(self) -> None:
        """Divide the GPUs of every application whose leases or jobs changed among its jobs."""
        while self._changed or self._releases:
            changed = sorted(self._changed.values(), key=lambda run: run.number)
            self._changed = {}
            self._track(changed)
            # Only now are these GPUs no longer in use.
            for release in self._releases:
                self.engine.send(release)
            self._releases = []
            for run in changed:
                if run.arrival.app in self._runs:
                    places = self._place(run)
                    if run.lost_jobs:
                        run.lost_jobs = False
                        self._give_back(run, places)
            self.engine.drain()

    def _track(self, changed: Sequence[_Run]) -> None:
        """Check that no GPU is leased twice, and record who held which."""
        wanted = [(run, run.in_use() if run.arrival.app in self._runs else set[str]()) for run in changed]
        for run, gpus in wanted:
            for gpu in sorted(run.gpus - gpus):
                self._release(gpu)
        for run, gpus in wanted:
            for gpu in sorted(gpus - run.gpus):
                owner = self._owner.setdefault(gpu, (run.arrival, self.engine.now))[0]
                if owner is not run.arrival:
                    raise SimulationError(
                        f"GPU {gpu} is leased to {owner.app} and to {run.arrival.app} at {self.engine.now:.0f} s"
                    )
            run.gpus = gpus

    def _release(self, gpu: str) -> None:
        owner, since = self._owner.pop(gpu)
        if self._keeps_holdings:
            self._holdings.append(Holding(gpu, owner.app, owner.group, since, self.engine.now))

    def _place(self, run: _Run) -> dict[str, Gpus]:
        """Run its jobs on what it holds, and come back when the first of them reaches its goal."""
        at, places = self.engine.now, self._division(run)
        run.stands_still = False
        # First take, then give, as the containers of two jobs cannot share a GPU.
        ends = []
        for name in run.active:
            job, gpus = run.jobs[name], places.get(name, ())
            if gpus or job.held:
                if gpus != job.held or job.since != at:
                    job.place(at, gpus, self._layout, self._checkpoint_s)
                if job.rate and (end := job.ends_at()) is not None:
                    ends.append(end)
        run.wake += 1
        if ends:
            self.engine.put(max(min(ends), at), partial(self._wake, run, run.wake))
        return places

    def _give_back(self, run: _Run, places: dict[str, Gpus]) -> None:
        """Release the GPUs that none of its jobs can use now that others have ended."""
        needed: dict[str, int] = {}
        for name in run.active:
            for slot, count in places.get(name, ()):
                needed[slot] = needed.get(slot, 0) + count
        # GPUs that are leased to a job by name are that job's.
        for held in sorted(run.leases.values(), key=lambda held: not held.lease.job):
            unused = []
            for gpu in sorted(held.in_use()):
                slot = self._layout.gpus[gpu]
                if held.lease.job not in ("", *run.active) or needed.get(slot, 0) <= 0:
                    unused.append(gpu)
                else:
                    needed[slot] -= 1
            if unused:
                held.vacated |= frozenset(unused)
                self._changed[run.arrival.app] = run
                self._releases.append(FromApp(run.arrival.app, Release(held.lease.id, tuple(unused))))

    def _division(self, run: _Run) -> dict[str, Gpus]:
        """The GPUs of each job: those leased to it by name, and those that the application divides."""
        found: dict[str, Gpus] = {}
        for held in run.leases.values():
            counts, job = held.count(self._layout), held.lease.job
            if counts:
                found[job] = combined(found[job], counts) if job in found else counts
        if free := found.pop("", None):
            machines = self._layout.within(free)
            found |= dict(run.application.divide(self.engine.now, machines, run.progress(self.engine.now)))
        return found

    def _outcome(self) -> Outcome:
        for run in self._runs.values():
            run.progress(self.engine.now)
            self._outcomes += _outcomes(run)
        for gpu in sorted(self._owner):
            self._release(gpu)
        return Outcome(
            tuple(self._outcomes),
            self.engine.now,
            self.engine.inputs,
            len(self._runs),
            len(self._layout.gpus),
            holdings=tuple(self._holdings),
            rounds=tuple(one for _, one in sorted(self._rounds.items())),
        )


def _outcomes(run: _Run) -> Iterator[JobOutcome]:
    for job in run.jobs.values():
        iterations_s = job.done * job.profile.iteration_s
        yield JobOutcome(
            job.id,
            run.arrival.group,
            run.arrival.at,
            run.ended.get(job.id),
            iterations_s / job.first_max_gpus,
            user=run.arrival.user,
            weight=run.arrival.weight,
            gpus=job.first_max_gpus,
            iterations_s=iterations_s,
            gpu_s=job.attained_gpu_s,
            busy_gpu_s=job.busy_gpu_s,
            moves=job.moves,
        )
