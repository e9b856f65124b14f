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

To compare, another side policy may choose the starts (`policy`), on the same machines and leases.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from yarn_plugin.decide.allocators.allox.jobs import WHERE, Jobs
from yarn_plugin.decide.allocators.allox.machines import Machines, machines
from yarn_plugin.decide.allocators.allox.sample_leases import SAMPLE, SampleLeases
from yarn_plugin.decide.allocators.allox.sampling import SampleRun, Samples
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.allox.state import AlloxState, Queue, Running
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    Due,
    Recorded,
    Solved,
    Unplaced,
    Vacated,
    What,
    name_of,
)
from yarn_plugin.decide.allocators.plan import ADOPTED, Drop, Idle, Place, Plan, Solve, Wake
from yarn_plugin.decide.allocators.pods import recorded
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.allox import Job, Start, Starts, choose_starts
from yarn_plugin.decide.policies.sides import SIDE_POLICIES
from yarn_plugin.decide.policies.sides import queue as side_queue
from yarn_plugin.decide.policies.sides.queue import GPU_KIND
from yarn_plugin.quantities import count

OVERDUE = "overdue"
"""The key of the wake at which the next user has waited for too long."""


class Allox:
    """See the module."""

    def __init__(self, settings: AlloxSettings | None) -> None:
        self._settings = settings or AlloxSettings()
        self._jobs = Jobs(self._settings)
        self._samples = SampleLeases(self._settings, self._jobs)

    def initial_state(self) -> AlloxState:
        """No job runs."""
        return AlloxState()

    def report(self, state: AlloxState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: AlloxState, seen: Seen, what: What) -> tuple[AlloxState, Plan]:
        """Learn what happened, start samples, then the jobs that are matched to free machines."""
        if isinstance(what, Recorded):
            return self._adopt(state, seen, what)
        progress = self._progress(state, seen)
        state, wakes, drops = self._learn(state, seen, what)
        state, places, more_wakes = self._samples.start(state, seen)
        jobs = self._jobs.waiting(state, seen)
        waiting = {job.user for job in jobs.values()}
        state = replace(state, long_run=state.long_run.advanced(seen.at, progress, waiting))
        plan = Plan(place=places, drop=drops, wake=(*wakes, *more_wakes))
        if places:
            # The matching follows when they have started: they hold machines then.
            return state, plan
        return self._match(state, seen, what, jobs, plan)

    def _match(
        self, state: AlloxState, seen: Seen, what: What, jobs: Mapping[str, Job], plan: Plan
    ) -> tuple[AlloxState, Plan]:
        known, progress = machines(self._settings, state, seen), self._progress(state, seen)
        waiting = {job.user for job in jobs.values()}
        next_overdue = state.long_run.next_overdue(self._settings.patience_s, progress, waiting)
        plan = replace(plan, wake=(*plan.wake, Wake(OVERDUE, next_overdue)), idle=self._idle(seen, jobs))
        if isinstance(what, Solved) and what.key == f"round {state.round}":
            state = replace(state, is_solving=False)
            if what.outcome == "done":
                assert isinstance(what.result, Starts)
                state, started = self._start(state, seen, jobs, known, what.result.jobs, plan, by_worker=True)
                if started.place:
                    return state, started
                if any(one.job in jobs and 0 in known.free_in[one.kind] for one in what.result.jobs):
                    # Else the same would be solved again.
                    known = self._with_room(seen, known)
        if not jobs or not any(wait == 0 for waits in known.free_in for wait in waits):
            return state, plan
        queue = self._queue(state, seen, jobs, known)
        if len(jobs) > self._settings.inline_jobs and self._settings.policy == "allox":
            if state.is_solving:
                return state, replace(plan, idle=None)
            state = replace(state, round=state.round + 1, is_solving=True)
            problem = Solve(f"round {state.round}", queue)
            return state, replace(plan, solve=(problem,), idle=seen.everywhere(Idle.DECIDING))
        starts = self._choose(state, seen, jobs, known)
        if not all(self._jobs.has_room(seen, one.kind, known.cells[one.kind][one.machine]) for one in starts):
            known = self._with_room(seen, known)
            starts = self._choose(state, seen, jobs, known)
        return self._start(state, seen, jobs, known, starts, plan)

    def _with_room(self, seen: Seen, known: Machines) -> Machines:
        """The machines without free ones that cannot be leased now, as containers without a lease use their nodes."""
        return known.without(lambda kind, cell: not self._jobs.has_room(seen, kind, cell))

    def _queue(self, state: AlloxState, seen: Seen, jobs: Mapping[str, Job], known: Machines) -> Queue:
        overdue = state.long_run.overdue(self._settings.patience_s)
        progress = self._progress(state, seen)
        return Queue(tuple(jobs.values()), known.free_in, progress, self._settings.alpha, overdue)

    def _choose(self, state: AlloxState, seen: Seen, jobs: Mapping[str, Job], known: Machines) -> tuple[Start, ...]:
        if self._settings.policy == "allox":
            return solve(self._queue(state, seen, jobs, known)).jobs
        shares = self._jobs.shares(seen)
        # Of a running job these policies read whose it is and where it runs.
        running = tuple(
            side_queue.Running(Job(one.job, one.user, (), shares), one.kind, place)
            for place, one in enumerate(state.running.values())
        )
        users = tuple(sorted(self._progress(state, seen)))
        queue = side_queue.Queue(
            seen.at, tuple(jobs.values()), running, known.free_in, users, slots_per_gpu=self._settings.slots_per_gpu
        )
        return SIDE_POLICIES[self._settings.policy].choose(queue).starts

    # What happened.

    def _adopt(self, state: AlloxState, seen: Seen, what: Recorded) -> tuple[AlloxState, Plan]:
        """Jobs keep the GPUs that they have records of, as if they had just started there."""
        jobs, places, running, users = self._jobs.waiting(state, seen), list[Place](), dict(state.running), set[str]()
        for claim, (lease, *more) in recorded(what, seen.claims).items():
            job, gpu = jobs.get(name_of(claim)), lease.gpus[0]
            seconds = None if job is None else job.times[GPU_KIND]
            if job is None or seconds is None or more or lease.gpus != (gpu,):
                continue
            holdings, alternative = self._jobs.holdings(seen, claim, GPU_KIND, gpu)
            if any(amount > seen.room.left(one.cell)[name] for one in holdings for name, amount in one.amounts):
                continue
            key = str(state.counter + len(places) + 1)
            places.append(Place(key, claim, holdings, alternative=alternative, note=ADOPTED))
            value, ends_at = job.value_on(GPU_KIND), seen.at + seconds
            running[key] = Running(job.user, GPU_KIND, value, ends_at, name_of(claim), seen.at)
            users.add(job.user)
        counter, long_run = state.counter + len(places), state.long_run.started(users)
        return replace(state, counter=counter, running=running, long_run=long_run), Plan(place=tuple(places))

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
                return self._samples.abandon(state, seen, key.removeprefix(SAMPLE))
            case Due(job):
                resting.pop(job, None)
                return replace(state, resting=resting), (), ()
            case Answer(app, SampleRun() as run):
                return self._samples.measure(state, seen, app, run)
            case Vacated(freed) | Unplaced(freed) | Broken(freed):
                wakes = []
                samples = state.samples
                for each in freed:
                    if each.is_over and each.key in samples.open:
                        samples = samples.died(each.key, seen.at)
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
        machines: Machines,
        starts: Iterable[Start],
        plan: Plan,
        by_worker: bool = False,
    ) -> tuple[AlloxState, Plan]:
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
            cell: str | None = machines.cells[start.kind][start.machine]
            if by_worker:
                cell = next((one for one in free[start.kind] if self._jobs.has_room(seen, start.kind, one)), None)
            if cell is None:
                continue
            free[start.kind].remove(cell)
            counter += 1
            seconds = job.times[start.kind]
            assert seconds is not None
            holdings, alternative = self._jobs.holdings(seen, claims[start.job], start.kind, cell)
            by = self._settings.policy
            note = note_of(job, start.kind, jobs.values()) if by == "allox" else f"on {WHERE[start.kind]}, by {by}"
            places.append(Place(str(counter), claims[start.job], holdings, alternative=alternative, note=note))
            value, ends_at = job.value_on(start.kind), seen.at + seconds
            running[str(counter)] = Running(job.user, start.kind, value, ends_at, start.job, seen.at)
            users.add(job.user)
        state, ended = self._samples.withdraw(state, seen, [name_of(place.claim) for place in places])
        state = replace(state, counter=counter, running=running, long_run=state.long_run.started(users))
        return state, replace(plan, place=tuple(places), drop=(*plan.drop, *ended.drop), wake=(*plan.wake, *ended.wake))

    def _idle(self, seen: Seen, jobs: Mapping[str, Job]) -> dict[str, Idle]:
        waits = Idle.NOT_FASTER if self._settings.policy == "allox" else Idle.RESERVED
        return seen.everywhere(waits if jobs else Idle.NOT_WANTED)


def solve(queue: Queue) -> Starts:
    """Match a queue."""
    return choose_starts(queue.jobs, queue.free_in, queue.progress, queue.alpha, queue.overdue)


def note_of(job: Job, kind: int, waiting: Iterable[Job]) -> str:
    """Why a job runs on this kind of machine, for people. `waiting`: all jobs that it was matched beside.

    A job gains what a machine saves it for each second that it is held: its time elsewhere by its time there.
    """
    mine, other = job.times[kind], job.times[1 - kind]
    if mine is None or other is None:
        return f"on {WHERE[kind]}: it cannot run elsewhere"
    if mine <= other:
        return f"on {WHERE[kind]}, where it is {other / mine:.3g} times as fast as on {WHERE[1 - kind]}"
    gain = mine / other
    more = sum(_gain(one, kind) > gain for one in waiting)
    why = f"{count(more, 'job')} {'gain' if more > 1 else 'gains'} more" if more else "it is done sooner than waiting"
    return f"on {WHERE[kind]}: {WHERE[1 - kind]} is {gain:.3g} times as fast, but {why}"


def _gain(job: Job, kind: int) -> float:
    """How many times as fast a job is elsewhere."""
    here, there = job.times[kind], job.times[1 - kind]
    if there is None:
        return 0.0
    return math.inf if here is None else here / max(there, math.ulp(1.0))
