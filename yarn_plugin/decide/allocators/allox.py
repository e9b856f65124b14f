"""AlloX as an allocator: each job on a GPU or on a slot of cores, by min-cost matching, fair between users.

AlloX, section 3: whenever a machine is free, the jobs of the users with the least progress are matched to all machines,
busy ones too, so that the sum of completion times is the smallest; of the free machines' jobs, the first start, and
the others wait for a machine that is worth waiting for. Nothing is preempted: leases have no end.

A machine is a GPU, or a slot: `cpu_slot` vcores and memory of a node, of which as many fit as its GPUs leave room
(`gpu_vcores` each). How long a job takes on a machine is its work by its speed there; where it does not say, on its
best alternative `unknown_s`. Where samples are on, sides without a declared speed are measured first (see `sampling`);
a job may start on a GPU before it is known on a slot, but not the other way round, as nearly all jobs are faster on
GPUs. A job with alternatives that are larger than a GPU or a slot cannot use them; one without any other waits. Deep
queues are matched in the worker process; of its result holds what still can be done.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    ClaimKey,
    Due,
    Solved,
    Unplaced,
    Vacated,
    What,
    name_of,
)
from yarn_plugin.decide.allocators.plan import Drop, Holding, Idle, Place, Plan, Solve, Wake
from yarn_plugin.decide.allocators.sampling import FRACTIONS, OpenSample, SampleRun, Samples, side_of
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.allox import Job, Start, Starts, choose_starts
from yarn_plugin.decide.mechanisms.batch_times import Sample
from yarn_plugin.decide.mechanisms.long_run_progress import LongRun
from yarn_plugin.decide.mechanisms.matching.problem import LONGEST_S
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, SLOT_KIND, FreeMachines
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import LeaseDropped
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.share import Job as DeclaredJob
from yarn_plugin.model.topology import NODE

WHERE = ("a GPU", "a slot of cores")
"""The kinds of machines, for people."""

SAMPLED, ABANDONED = LeaseDropped("the sample is done"), LeaseDropped("the sample takes far longer than others")

SAMPLE = "sample/"
"""The keys of the wakes at which samples are abandoned begin with it."""

OVERDUE = "overdue"
"""The key of the wake at which the next user has waited for too long."""


@dataclass(frozen=True, slots=True)
class AlloxSettings:
    """`cpu_slot`: vcores and memory-mb of a slot of cores; empty: GPUs only. `gpu_vcores`: of each GPU's job.

    `alpha`: the share of users that is considered, from 0 (the one with the least progress) to 1 (section 3.3.3).
    `unknown_s`: how long a job takes that does not say. `inline_jobs`: longer queues are matched in the worker process.
    `retry_s`: a job that YARN did not place is tried again after so many seconds. `patience_s`: how far a user may lag
    behind (see `long_run_progress`). `sample_share`: the part of the machines of a kind, at least one, that samples may
    hold at the same time; 0: no samples. `sample_s`: how long a sample may take before others show how long they take.
    """

    cpu_slot: Mapping[str, int] = field(default_factory=dict)
    gpu_vcores: int = 1
    alpha: float = 0.3
    unknown_s: float = 3600.0
    inline_jobs: int = 100
    retry_s: float = 60.0
    patience_s: float = 1800.0
    sample_share: float = 0.0
    sample_s: float = 120.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for name, amount in self.cpu_slot.items():
            if name not in (VCORES, MEMORY) or amount < 1:
                raise BadInputError(f"cpu_slot.{name}", amount, f"must be {VCORES} and {MEMORY}, each at least 1")
        if self.cpu_slot and set(self.cpu_slot) != {VCORES, MEMORY}:
            raise BadInputError("cpu_slot", dict(self.cpu_slot), f"must have both {VCORES} and {MEMORY}")
        if not 0 <= self.alpha <= 1:
            raise BadInputError("alpha", self.alpha, "must be a number from 0 to 1")
        if not 0 <= self.sample_share <= 1:
            raise BadInputError("sample_share", self.sample_share, "must be a number from 0 to 1")
        for name in ("gpu_vcores", "inline_jobs"):
            if not 0 <= getattr(self, name) <= 1e6:
                raise BadInputError(name, getattr(self, name), "must be a number from 0 to 1,000,000")
        for name in ("unknown_s", "retry_s", "patience_s", "sample_s"):
            if not 0 < getattr(self, name) <= LONGEST_S:
                raise BadInputError(name, getattr(self, name), f"must be a number of seconds up to {LONGEST_S:g}")


@dataclass(frozen=True, slots=True)
class Queue:
    """What the worker process matches (see `choose_starts`). `machines`: the cells of each kind's machines, a slot
    several times for its node."""

    jobs: tuple[Job, ...]
    free_in: tuple[tuple[float, ...], ...]
    progress: Mapping[str, float]
    alpha: float
    overdue: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs. `value`: what it adds to its user's progress. `ends_at`: when it is expected to end. `job`: its
    claim, as text; `started_at`: seconds; both are not known of jobs that an earlier release started."""

    user: str
    kind: int
    value: float
    ends_at: float
    job: str = ""
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class AlloxState:
    """`running`: by lease. `resting`: claims that are not tried, by job, until when; None: until they are revised.

    `round`, `is_solving`: the last problem that the worker process was given, and whether its result is still wanted.
    `long_run`: of users. `samples`: what is measured, and what of it now.
    """

    counter: int = 0
    running: Mapping[str, Running] = field(default_factory=dict)
    resting: Mapping[str, float | None] = field(default_factory=dict)
    round: int = 0
    is_solving: bool = False
    long_run: LongRun = field(default_factory=LongRun)
    samples: Samples = field(default_factory=Samples)


@dataclass(frozen=True, slots=True)
class _Machines:
    """`cells`: the cell of each machine, by kind. `free_in`: in how many seconds it is free."""

    cells: tuple[tuple[str, ...], ...]
    free_in: tuple[tuple[float, ...], ...]


class Allox:
    """See the module."""

    def __init__(self, settings: AlloxSettings | None) -> None:
        self._settings = settings or AlloxSettings()
        self._slot = Resources.of(dict(self._settings.cpu_slot))

    def initial_state(self) -> AlloxState:
        """No job runs."""
        return AlloxState()

    def report(self, state: AlloxState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: AlloxState, seen: Seen, what: What) -> tuple[AlloxState, Plan]:
        """Learn what happened, start samples, then the jobs that are matched to free machines."""
        state = self._count_long_run(state, seen)
        state, wakes, drops = self._learn(state, seen, what)
        state, places, more_wakes = self._start_samples(state, seen)
        plan = Plan(place=places, drop=drops, wake=(*wakes, *more_wakes))
        if places:
            # The matching follows when they have started: they hold machines then.
            return state, plan
        return self._match(state, seen, what, plan)

    def _match(self, state: AlloxState, seen: Seen, what: What, plan: Plan) -> tuple[AlloxState, Plan]:
        jobs, machines = self._jobs(state, seen), self._machines(state, seen)
        plan = replace(
            plan, wake=(*plan.wake, Wake(OVERDUE, self._next_overdue(state, seen, jobs))), idle=_idle(seen, jobs)
        )
        has_free = any(wait == 0 for waits in machines.free_in for wait in waits)
        if isinstance(what, Solved) and what.key == f"round {state.round}":
            state = replace(state, is_solving=False)
            if what.outcome == "done":
                assert isinstance(what.result, Starts)
                state, places = self._start(state, seen, jobs, machines, what.result.jobs, by_worker=True)
                if places:
                    return state, replace(plan, place=places)
        if not jobs or not has_free:
            return state, plan
        overdue = state.long_run.overdue(self._settings.patience_s)
        progress = self._progress(state, seen)
        queue = Queue(tuple(jobs.values()), machines.free_in, progress, self._settings.alpha, overdue)
        if len(jobs) > self._settings.inline_jobs:
            if state.is_solving:
                return state, replace(plan, idle=None)
            state = replace(state, round=state.round + 1, is_solving=True)
            problem = Solve(f"round {state.round}", queue)
            return state, replace(plan, solve=(problem,), idle=seen.everywhere(Idle.DECIDING))
        state, places = self._start(state, seen, jobs, machines, solve(queue).jobs)
        return state, replace(plan, place=places)

    # Long-run progress.

    def _count_long_run(self, state: AlloxState, seen: Seen) -> AlloxState:
        waiting = {job.user for job in self._jobs(state, seen).values()}
        return replace(state, long_run=state.long_run.advanced(seen.at, self._progress(state, seen), waiting))

    def _next_overdue(self, state: AlloxState, seen: Seen, jobs: Mapping[str, Job]) -> float | None:
        waiting = {job.user for job in jobs.values()}
        return state.long_run.next_overdue(self._settings.patience_s, self._progress(state, seen), waiting)

    # What happened.

    def _learn(
        self, state: AlloxState, seen: Seen, what: What
    ) -> tuple[AlloxState, tuple[Wake, ...], tuple[Drop, ...]]:
        resting = dict(state.resting)
        match what:
            case Began():
                return AlloxState(state.counter, samples=Samples(state.samples.measured)), (), ()
            case Changed(claims):
                for claim in claims:
                    resting.pop(name_of(claim), None)
                return replace(state, resting=resting), (), ()
            case Due(key) if key.startswith(SAMPLE):
                return self._abandon(state, seen, key.removeprefix(SAMPLE))
            case Due(job):
                resting.pop(job, None)
                return replace(state, resting=resting), (), ()
            case Answer(app, SampleRun() as run):
                return self._measure(state, seen, app, run)
            case Vacated(freed) | Unplaced(freed) | Broken(freed):
                wakes = []
                samples = state.samples
                for each in freed:
                    if each.is_over and each.key in samples.open:
                        samples = samples.died(each.key)
                        wakes.append(Wake(SAMPLE + each.key, None))
                over = [each for each in freed if each.is_over and each.key in state.running]
                for each in over:
                    job = name_of(each.claim)
                    if isinstance(what, Unplaced):
                        resting[job] = seen.at + self._settings.retry_s
                        wakes.append(Wake(job, resting[job]))
                    elif isinstance(what, Vacated) and each.claim in seen.claims:
                        # It gave its machine back: it is done, until it says otherwise.
                        resting[job] = None
                keys = {each.key for each in over}
                running = {key: job for key, job in state.running.items() if key not in keys}
                return replace(state, running=running, resting=resting, samples=samples), tuple(wakes), ()
        return state, (), ()

    # Samples.

    def _measure(
        self, state: AlloxState, seen: Seen, app: str, run: SampleRun
    ) -> tuple[AlloxState, tuple[Wake, ...], tuple[Drop, ...]]:
        """An application says how fast a job is: of a sample, which is done then, or of the job that runs."""
        key = (app, run.job)
        claim = seen.claims.get(key)
        for lease, sample in state.samples.open.items():
            if sample.job == name_of(key) and sample.alternative == run.alternative:
                samples = state.samples.answered(lease, run.seconds, run.batches)
                drops = (Drop(lease, SAMPLED),) if _is_held(seen, lease) else ()
                return replace(state, samples=samples), (Wake(SAMPLE + lease, None),), drops
        for lease, job in state.running.items():
            leased = seen.leases.get(lease)
            if claim is None or leased is None or job.job != name_of(key) or leased.alternative != run.alternative:
                continue
            side = self._side(claim, job.kind)
            if claim.work is None or side is None or job.started_at is None:
                break
            known = replace(state.samples.of(side), run=Sample(run.batches, run.seconds))
            left = max(claim.work - run.batches, 0.0) * run.seconds / run.batches
            running = {**state.running, lease: replace(job, ends_at=seen.at + left)}
            return replace(state, samples=state.samples.with_measured(side, known), running=running), (), ()
        return state, (), ()

    def _abandon(
        self, state: AlloxState, seen: Seen, lease: str
    ) -> tuple[AlloxState, tuple[Wake, ...], tuple[Drop, ...]]:
        if lease not in state.samples.open:
            return state, (), ()
        started = seen.leases[lease].started_at if lease in seen.leases else None
        limit = state.samples.limit_s(self._settings.sample_s)
        if started is None or seen.at - started < limit - 1e-6:
            # It started later than it was placed, or samples take longer than was known then.
            due = (seen.at if started is None else started) + limit
            return state, (Wake(SAMPLE + lease, due),), ()
        drops = (Drop(lease, ABANDONED),) if _is_held(seen, lease) else ()
        return replace(state, samples=state.samples.abandoned(lease, seen.at - started)), (), drops

    def _start_samples(self, state: AlloxState, seen: Seen) -> tuple[AlloxState, tuple[Place, ...], tuple[Wake, ...]]:
        """Samples on free machines, in turn by user, within the share of the machines that they may hold."""
        if not self._settings.sample_share:
            return state, (), ()
        machines = self._machines(state, seen)
        free = FreeMachines.of(machines.free_in).machines
        room = [
            max(1, int(self._settings.sample_share * len(waits)))
            - sum(one.kind == kind for one in state.samples.open.values())
            for kind, waits in enumerate(machines.free_in)
        ]
        served = {lease.claim for lease in seen.leases.values() if lease.kind != "sample"}
        of_user: dict[str, int] = {}
        for one in state.samples.open.values():
            of_user[one.user] = of_user.get(one.user, 0) + 1
        wanted = [
            (key, kind, side)
            for key, claim in seen.claims.items()
            if key not in served and name_of(key) not in state.resting
            for kind in (GPU_KIND, SLOT_KIND)
            if (side := self._unknown_side(state, claim, kind)) is not None
        ]
        measuring = {one.side for one in state.samples.open.values()}
        places, wakes, counter, samples = [], [], state.counter, state.samples
        limit = samples.limit_s(self._settings.sample_s)
        while wanted:
            wanted.sort(key=lambda one: of_user.get(seen.claims[one[0]].tenant, 0))
            key, kind, side = wanted.pop(0)
            if side in measuring or room[kind] <= 0 or not free[kind]:
                continue
            claim, counter = seen.claims[key], counter + 1
            assert claim.work is not None
            batches = samples.next_batches(side, claim.work)
            holdings, alternative = self._holdings(seen, key, kind, machines.cells[kind][free[kind].pop(0)])
            number = len(samples.of(side).samples) + 1
            note = f"sample {number} of {len(FRACTIONS)} on {WHERE[kind]}: {batches:g} of {claim.work:g}"
            places.append(Place(str(counter), key, holdings, alternative=alternative, kind="sample", note=note))
            wakes.append(Wake(f"{SAMPLE}{counter}", seen.at + limit))
            open_sample = OpenSample(name_of(key), claim.tenant, side, alternative, kind, batches, seen.at + limit)
            samples = samples.opened(str(counter), open_sample)
            of_user[claim.tenant] = of_user.get(claim.tenant, 0) + 1
            room[kind] -= 1
            measuring.add(side)
        return replace(state, counter=counter, samples=samples), tuple(places), tuple(wakes)

    def _side(self, claim: Claim, kind: int) -> str | None:
        """The name of a side, if the job can run there."""
        for amounts in claim.demand.alternatives if claim.demand is not None else ():
            if self._kind_of(amounts) == kind:
                return side_of(claim, kind, amounts)
        return None

    def _unknown_side(self, state: AlloxState, claim: Claim, kind: int) -> str | None:
        """The name of a side that is still to be sampled; None: its speed was declared, or is known well enough."""
        side = self._side(claim, kind)
        if side is None or claim.work is None or not self._settings.sample_share or state.samples.of(side).is_done:
            return None
        return None if self._declared(claim, kind) else side

    def _declared(self, claim: Claim, kind: int) -> bool:
        alternatives = claim.demand.alternatives if claim.demand is not None else ()
        speeds = claim.speeds or (None,) * len(alternatives)
        return any(
            speed and self._kind_of(amounts) == kind for amounts, speed in zip(alternatives, speeds, strict=True)
        )

    # What is matched.

    def _jobs(self, state: AlloxState, seen: Seen) -> dict[str, Job]:
        """The jobs that wait, in order of arrival."""
        served = {lease.claim for lease in seen.leases.values() if lease.kind != "sample"}
        total = Resources.of({name: sum(cell.capacity[name] for cell in seen.cells.at(NODE)) for name in (GPU, VCORES)})
        waiting = {}
        for key, claim in seen.claims.items():
            if key in served or name_of(key) in state.resting:
                continue
            times = self._known_times(state, claim)
            if any(seconds is not None for seconds in times):
                shares = (1 / max(total[GPU], 1), self._slot[VCORES] / max(total[VCORES], 1))
                arrived_at = claim.arrived_at if claim.declared_at is None else claim.declared_at
                waiting[name_of(key)] = Job(name_of(key), claim.tenant, times, shares, arrived_at)
        return waiting

    def _known_times(self, state: AlloxState, claim: Claim) -> tuple[float | None, float | None]:
        """The seconds on each side that is known: as declared, or else as measured."""
        declared = self._times(claim)
        if claim.work is None or not self._settings.sample_share:
            return declared
        times = list(declared)
        for kind in (GPU_KIND, SLOT_KIND):
            side = self._side(claim, kind)
            if side is not None and not self._declared(claim, kind):
                known = state.samples.of(side)
                seconds = known.seconds(claim.work) if known.is_done else None
                times[kind] = None if seconds is None else min(seconds, LONGEST_S)
        if times[GPU_KIND] is None and self._unknown_side(state, claim, GPU_KIND) is not None:
            return None, None
        if times == [None, None] and self._unknown_side(state, claim, SLOT_KIND) is None:
            # Its samples died on every side: it may still run as a whole.
            return declared
        return times[0], times[1]

    def _times(self, claim: Claim) -> tuple[float | None, float | None]:
        """The seconds of a job on a GPU and on a slot; None where it cannot run."""
        alternatives = claim.demand.alternatives if claim.demand is not None else ()
        speeds = claim.speeds or (None,) * len(alternatives)
        best = max((speed for speed in speeds if speed), default=1.0)
        work = claim.work if claim.work is not None else best * self._settings.unknown_s
        times: list[float | None] = [None, None]
        for amounts, speed in zip(alternatives, speeds, strict=True):
            kind = self._kind_of(amounts)
            if kind is not None:
                seconds = min(work / (speed or best), LONGEST_S)
                times[kind] = min(seconds, times[kind] if times[kind] is not None else math.inf)  # type: ignore[type-var]
        return times[0], times[1]

    def _kind_of(self, amounts: Resources) -> int | None:
        """The kind of machine that an alternative fits on; None: it is larger than any."""
        if amounts[GPU]:
            return GPU_KIND if amounts[GPU] == 1 else None
        fits = self._slot and amounts and all(amounts[name] <= self._slot[name] for name in (VCORES, MEMORY))
        return SLOT_KIND if fits else None

    def _machines(self, state: AlloxState, seen: Seen) -> _Machines:
        """The usable machines: free ones, and those of running jobs."""
        cells: tuple[list[str], list[str]] = ([], [])
        waits: tuple[list[float], list[float]] = ([], [])
        busy: dict[str, int] = {}
        for key, job in state.running.items():
            lease = seen.leases.get(key)
            if lease is not None:
                cell = lease.holdings[0].cell
                cells[job.kind].append(cell)
                # A job that should have ended: any moment now.
                waits[job.kind].append(max(job.ends_at - seen.at, 1.0))
                busy[cell] = busy.get(cell, 0) + 1
        for key, lease in seen.leases.items():
            if lease.kind == "sample":
                cell = lease.holdings[0].cell
                kind = GPU_KIND if cell in seen.cells.gpus else SLOT_KIND
                cells[kind].append(cell)
                # One that is done is about to be vacated.
                until = state.samples.open[key].until if key in state.samples.open else seen.at
                waits[kind].append(max(until - seen.at, 1.0))
        for gpu in seen.cells.gpus:
            if gpu not in busy and seen.room.is_free(gpu) and self._has_vcores(seen, gpu):
                cells[GPU_KIND].append(gpu)
                waits[GPU_KIND].append(0.0)
        for node in seen.cells.at(NODE) if self._slot else ():
            for _ in range(self._free_slots(seen, node.id)):
                cells[SLOT_KIND].append(node.id)
                waits[SLOT_KIND].append(0.0)
        return _Machines(tuple(map(tuple, cells)), tuple(map(tuple, waits)))

    def _has_vcores(self, seen: Seen, gpu: str) -> bool:
        node = seen.cells.node_of(gpu)
        needed = self._settings.gpu_vcores
        return not needed or (node is not None and seen.room.left(node)[VCORES] >= needed)

    def _free_slots(self, seen: Seen, node: str) -> int:
        """How many slots fit on a node, beside the vcores of its free GPUs."""
        left = seen.room.left(node)
        kept = self._settings.gpu_vcores * sum(1 for _ in seen.room.free_in(node))
        by_vcores = max(left[VCORES] - kept, 0) // self._slot[VCORES]
        return min(by_vcores, left[MEMORY] // self._slot[MEMORY])

    def _progress(self, state: AlloxState, seen: Seen) -> dict[str, float]:
        """Of each user with claims: the sum of the values of running jobs (section 3.3.2)."""
        progress = {claim.tenant: 0.0 for claim in seen.claims.values()}
        for job in state.running.values():
            progress[job.user] = progress.get(job.user, 0.0) + job.value
        return progress

    # What starts.

    def _start(
        self,
        state: AlloxState,
        seen: Seen,
        jobs: Mapping[str, Job],
        machines: _Machines,
        starts: Iterable[Start],
        by_worker: bool = False,
    ) -> tuple[AlloxState, tuple[Place, ...]]:
        """Lease machines to jobs. `by_worker`: the machines may be others by now: any free one of the kind will do."""
        claims = {name_of(key): key for key in seen.claims}
        running, counter, places, users = dict(state.running), state.counter, [], set[str]()
        free = [
            [cell for cell, wait in zip(cells, waits, strict=True) if wait == 0]
            for cells, waits in zip(machines.cells, machines.free_in, strict=True)
        ]
        for start in starts:
            job = jobs.get(start.job)
            if job is None or not free[start.kind]:
                continue
            cell = machines.cells[start.kind][start.machine] if not by_worker else free[start.kind][0]
            free[start.kind].remove(cell)
            counter += 1
            seconds = job.times[start.kind]
            assert seconds is not None
            holdings, alternative = self._holdings(seen, claims[start.job], start.kind, cell)
            note = _note(job, start.kind)
            places.append(Place(str(counter), claims[start.job], holdings, alternative=alternative, note=note))
            value, ends_at = job.value_on(start.kind), seen.at + seconds
            running[str(counter)] = Running(job.user, start.kind, value, ends_at, start.job, seen.at)
            users.add(job.user)
        return replace(state, counter=counter, running=running, long_run=state.long_run.started(users)), tuple(places)

    def _holdings(self, seen: Seen, claim: ClaimKey, kind: int, cell: str) -> tuple[tuple[Holding, ...], int]:
        """What a job leases on a machine, and which of its alternatives that is."""
        demand = seen.claims[claim].demand
        assert demand is not None
        alternative = next(index for index, amounts in enumerate(demand.alternatives) if self._kind_of(amounts) == kind)
        if kind == SLOT_KIND:
            return (Holding(cell, self._slot),), alternative
        node = seen.cells.node_of(cell)
        if not self._settings.gpu_vcores or node is None:
            return (Holding(cell),), alternative
        return (Holding(cell), Holding(node, Resources.of({VCORES: self._settings.gpu_vcores}))), alternative


def _is_held(seen: Seen, lease: str) -> bool:
    return lease in seen.leases and seen.leases[lease].phase == "held"


def _idle(seen: Seen, jobs: Mapping[str, Job]) -> dict[str, Idle]:
    return seen.everywhere(Idle.NOT_FASTER if jobs else Idle.NOT_WANTED)


def solve(queue: Queue) -> Starts:
    """Match a queue."""
    return choose_starts(queue.jobs, queue.free_in, queue.progress, queue.alpha, queue.overdue)


def check_job(settings: AlloxSettings | None, job: DeclaredJob) -> None:
    """Check that a job can run on each machine that it names.

    Raises:
        BadInputError: one of its alternatives is larger than a GPU or a slot.
    """
    slot = Resources.of(dict((settings or AlloxSettings()).cpu_slot))
    for place, amounts in enumerate(job.demand.alternatives if job.demand is not None else ()):
        field = f"alternatives.{place}.resources"
        if amounts[GPU] > 1:
            raise BadInputError(f"{field}.{GPU}", amounts[GPU], "must be 1: a job has one GPU, or a slot of cores")
        if not amounts[GPU] and not slot:
            raise BadInputError(field, amounts.as_dict(), f"must have {GPU}: the pool has no slots of cores")
        for name in (VCORES, MEMORY) if not amounts[GPU] else ():
            if amounts[name] > slot[name]:
                raise BadInputError(
                    f"{field}.{name}", amounts[name], f"must be at most {slot[name]}: a slot has no more"
                )


def _note(job: Job, kind: int) -> str:
    """Why a job runs on this kind of machine, for people."""
    mine, other = job.times[kind], job.times[1 - kind]
    if mine is None or other is None:
        return f"on {WHERE[kind]}: it cannot run elsewhere"
    if mine <= other:
        return f"on {WHERE[kind]}, where it is {other / mine:.3g} times as fast as on {WHERE[1 - kind]}"
    return f"on {WHERE[kind]}: {mine / other:.3g} times slower than on {WHERE[1 - kind]}, but done sooner than waiting"


KIND = AllocatorKind(
    "allox",
    lambda settings, kinds: Allox(settings),
    {
        "allox.state/1": AlloxState,
        "allox.settings/1": AlloxSettings,
        "allox.queue/1": Queue,
        "allox.starts/1": Starts,
        "allox.sample": SampleRun,
    },
    parameters=AlloxSettings,
    messages=frozenset({"allox.sample"}),
    solvers={"allox.queue/1": solve},
    check_job=check_job,
)
"""AlloX."""
