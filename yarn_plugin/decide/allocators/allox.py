"""AlloX as an allocator: each job on a GPU or on a slot of cores, by min-cost matching, fair between users.

AlloX, section 3: whenever a machine is free, the jobs of the users with the least progress are matched to all machines,
busy ones too, so that the sum of completion times is the smallest; of the free machines' jobs, the first start, and
the others wait for a machine that is worth waiting for. Nothing is preempted: leases have no end.

A machine is a GPU, or a slot: `cpu_slot` vcores and memory of a node, of which as many fit as its GPUs leave room
(`gpu_vcores` each). How long a job takes on a machine is its work by its speed there; where it does not say, on its
best alternative `unknown_s`. A job with alternatives that are larger than a GPU or a slot cannot use them; one without
any other waits. Deep queues are matched in the worker process; of its result holds what still can be done.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.happenings import (
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
from yarn_plugin.decide.allocators.plan import Holding, Idle, Place, Plan, Solve, Wake
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.allox import Job, Start, Starts, choose_starts
from yarn_plugin.decide.mechanisms.matching.problem import LONGEST_S
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import NODE

GPU_KIND, SLOT_KIND = 0, 1
"""Kinds of machines in the matching."""


@dataclass(frozen=True, slots=True)
class AlloxSettings:
    """`cpu_slot`: vcores and memory-mb of a slot of cores; empty: GPUs only. `gpu_vcores`: of each GPU's job.

    `alpha`: the share of users that is considered, from 0 (the one with the least progress) to 1 (section 3.3.3).
    `unknown_s`: how long a job takes that does not say. `inline_jobs`: longer queues are matched in the worker process.
    `retry_s`: a job that YARN did not place is tried again after so many seconds.
    """

    cpu_slot: Mapping[str, int] = field(default_factory=dict)
    gpu_vcores: int = 1
    alpha: float = 0.3
    unknown_s: float = 3600.0
    inline_jobs: int = 100
    retry_s: float = 60.0

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
        for name in ("gpu_vcores", "inline_jobs"):
            if not 0 <= getattr(self, name) <= 1e6:
                raise BadInputError(name, getattr(self, name), "must be a number from 0 to 1,000,000")
        for name in ("unknown_s", "retry_s"):
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


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs. `value`: what it adds to its user's progress. `ends_at`: when it is expected to end."""

    user: str
    kind: int
    value: float
    ends_at: float


@dataclass(frozen=True, slots=True)
class AlloxState:
    """`running`: by lease. `resting`: claims that are not tried, by job, until when; None: until they are revised.

    `round`, `is_solving`: the last problem that the worker process was given, and whether its result is still wanted.
    """

    counter: int = 0
    running: Mapping[str, Running] = field(default_factory=dict)
    resting: Mapping[str, float | None] = field(default_factory=dict)
    round: int = 0
    is_solving: bool = False


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
        """Learn what happened, then start the jobs that are matched to free machines."""
        state, wakes = self._learn(state, seen, what)
        jobs, machines = self._jobs(state, seen), self._machines(state, seen)
        has_free = any(wait == 0 for waits in machines.free_in for wait in waits)
        if isinstance(what, Solved) and what.key == f"round {state.round}":
            state = replace(state, is_solving=False)
            if what.outcome == "done":
                assert isinstance(what.result, Starts)
                state, places = self._start(state, seen, jobs, machines, what.result.jobs, by_worker=True)
                if places:
                    return state, Plan(place=places, wake=wakes, idle=_idle(seen, jobs))
        if not jobs or not has_free:
            return state, Plan(wake=wakes, idle=_idle(seen, jobs))
        queue = Queue(tuple(jobs.values()), machines.free_in, self._progress(state, seen), self._settings.alpha)
        if len(jobs) > self._settings.inline_jobs:
            if state.is_solving:
                return state, Plan(wake=wakes)
            state = replace(state, round=state.round + 1, is_solving=True)
            return state, Plan(
                solve=(Solve(f"round {state.round}", queue),), wake=wakes, idle=seen.everywhere(Idle.DECIDING)
            )
        state, places = self._start(state, seen, jobs, machines, solve(queue).jobs)
        return state, Plan(place=places, wake=wakes, idle=_idle(seen, jobs))

    # What happened.

    def _learn(self, state: AlloxState, seen: Seen, what: What) -> tuple[AlloxState, tuple[Wake, ...]]:
        resting = dict(state.resting)
        match what:
            case Began():
                return AlloxState(state.counter), ()
            case Changed(claims):
                for claim in claims:
                    resting.pop(name_of(claim), None)
                return replace(state, resting=resting), ()
            case Due(job):
                resting.pop(job, None)
                return replace(state, resting=resting), ()
            case Vacated(freed) | Unplaced(freed) | Broken(freed):
                over = [each for each in freed if each.is_over and each.key in state.running]
                wakes = []
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
                return replace(state, running=running, resting=resting), tuple(wakes)
        return state, ()

    # What is matched.

    def _jobs(self, state: AlloxState, seen: Seen) -> dict[str, Job]:
        """The jobs that wait, in order of arrival."""
        served = {lease.claim for lease in seen.leases.values()}
        total = Resources.of({name: sum(cell.capacity[name] for cell in seen.cells.at(NODE)) for name in (GPU, VCORES)})
        waiting = {}
        for key, claim in seen.claims.items():
            if key in served or name_of(key) in state.resting:
                continue
            times = self._times(claim)
            if any(seconds is not None for seconds in times):
                shares = (1 / max(total[GPU], 1), self._slot[VCORES] / max(total[VCORES], 1))
                waiting[name_of(key)] = Job(name_of(key), claim.tenant, times, shares)
        return waiting

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
        running, counter, places = dict(state.running), state.counter, []
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
            running[str(counter)] = Running(job.user, start.kind, job.value_on(start.kind), seen.at + seconds)
        return replace(state, counter=counter, running=running), tuple(places)

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


def _idle(seen: Seen, jobs: Mapping[str, Job]) -> dict[str, Idle]:
    return seen.everywhere(Idle.NOT_FASTER if jobs else Idle.NOT_WANTED)


def solve(queue: Queue) -> Starts:
    """Match a queue."""
    return choose_starts(queue.jobs, queue.free_in, queue.progress, queue.alpha)


def _note(job: Job, kind: int) -> str:
    """Why a job runs on this kind of machine, for people."""
    mine, other = job.times[kind], job.times[1 - kind]
    where = ("a GPU", "a slot of cores")
    if mine is None or other is None:
        return f"on {where[kind]}: it cannot run elsewhere"
    if mine <= other:
        return f"on {where[kind]}, where it is {other / mine:.3g} times as fast as on {where[1 - kind]}"
    return f"on {where[kind]}: {mine / other:.3g} times slower than on {where[1 - kind]}, but done sooner than waiting"


KIND = AllocatorKind(
    "allox",
    lambda settings, kinds: Allox(settings),
    {
        "allox.state/1": AlloxState,
        "allox.settings/1": AlloxSettings,
        "allox.queue/1": Queue,
        "allox.starts/1": Starts,
    },
    parameters=AlloxSettings,
    solvers={"allox.queue/1": solve},
)
"""AlloX."""
