"""Jobs with two sides through a side policy, in virtual time: a small reference for tests.

Times are true; the policy sees the estimates. Samples, if any, come before all jobs, in order of arrival, in turn by
user (AlloX, section 4.4), and hold a machine each. With `barrier` a job waits for the samples of all jobs that arrived
in the same second, as in the authors' simulator; without it only for its own. With `patience_s`, users that are overdue
come first.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.mechanisms.long_run_progress import LongRun
from yarn_plugin.decide.policies.sides.queue import Choice, Queue, Running


@dataclass(frozen=True)
class Given:
    """A job: true seconds by kind (None: it cannot run there), and the relative errors of their estimates."""

    id: str
    user: str
    times: tuple[float | None, ...]
    arrived_at: float = 0.0
    errors: tuple[float, ...] = (0.0, 0.0)


@dataclass
class Run:
    """When each job ended; `progress`: (time, of each user) from then on. `longest_wait`: seconds for which a user had
    jobs that waited and none that ran."""

    ends: dict[str, float]
    progress: list[tuple[float, tuple[float, ...]]] = field(default_factory=list)
    preempted: int = 0
    longest_wait: float = 0.0


@dataclass
class _Active:
    job: Job
    kind: int
    machine: int
    since: float
    left: float
    value: float


def run(
    jobs: Sequence[Given],
    machines: tuple[int, ...],
    choose: Callable[[Queue], Choice],
    *,
    samples: Sequence[float] = (),
    min_sample_s: float = 1.0,
    barrier: bool = False,
    whole_seconds: bool = False,
    patience_s: float | None = None,
    **settings: float,
) -> Run:
    """Run all jobs to their ends. `samples`: fractions of a job, run on each side. `settings`: of the queue."""
    given = {one.id: one for one in jobs}
    users = tuple(sorted({one.user for one in jobs}))
    shares = tuple(1 / max(count, 1) for count in machines)
    ordered = sorted(jobs, key=lambda one: one.arrived_at)
    open_samples = {one.id: 0 for one in jobs}
    of_second: dict[float, set[str]] = {}
    sampling: dict[str, list[tuple[str, int, float]]] = {user: [] for user in users}
    unready: dict[str, Given] = {}
    waiting: dict[str, Job] = {}
    left: dict[str, float] = {}
    active: dict[str, _Active] = {}
    on_machine: list[list[float | None]] = [[None] * count for count in machines]  # expected ends
    events: list[tuple[float, int, str, object]] = []
    counter = 0
    result = Run({})
    waits_since: dict[str, float] = {}
    long_run, looks = LongRun(), set[tuple[float, str]]()

    def push(at: float, what: str, value: object) -> None:
        nonlocal counter
        counter += 1
        heapq.heappush(events, (math.ceil(at - 1e-9) if whole_seconds else at, counter, what, value))

    for one in ordered:
        push(one.arrived_at, "arrival", one)

    def estimated(one: Given) -> Job:
        times = tuple(
            None if seconds is None else seconds * (1 + error)
            for seconds, error in zip(one.times, one.errors, strict=True)
        )
        return Job(one.id, one.user, times, shares, one.arrived_at)

    def make_ready(one: Given) -> None:
        del unready[one.id]
        waiting[one.id] = estimated(one)

    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, what, value = heapq.heappop(events)
            if what == "arrival":
                assert isinstance(value, Given)
                unready[value.id] = value
                of_second.setdefault(value.arrived_at, set()).add(value.id)
                for kind in reversed(range(len(machines))):
                    for fraction in samples:
                        seconds = value.times[kind]
                        if seconds is not None and machines[kind]:
                            sampling[value.user].append((value.id, kind, max(fraction * seconds, min_sample_s)))
                            open_samples[value.id] += 1
            elif what == "sampled":
                id, kind, machine = value  # type: ignore[misc]
                open_samples[id] -= 1
                on_machine[kind][machine] = None
            elif what == "end":
                one = active.get(value[0])  # type: ignore[index]
                if one is None or one.since != value[1]:  # type: ignore[index]
                    continue
                del active[one.job.id]
                on_machine[one.kind][one.machine] = None
                result.ends[one.job.id] = now
        for id in [id for id in unready if not open_samples[id]]:
            group = of_second[given[id].arrived_at]
            if not barrier or not any(open_samples[other] for other in group):
                make_ready(given[id])
        # Samples first, in turn by user.
        queues = [queue for queue in sampling.values() if queue]
        blocked = [False] * len(machines)
        place = 0
        while not all(blocked) and any(place < len(queue) for queue in queues):
            for queue in queues:
                if place < len(queue):
                    id, kind, seconds = queue[place]
                    index = next((index for index, end in enumerate(on_machine[kind]) if end is None), None)
                    if index is None:
                        blocked[kind] = True
                    else:
                        queue.pop(place)
                        queue.insert(place, ("", 0, 0.0))
                        on_machine[kind][index] = now + seconds
                        push(now + seconds, "sampled", (id, kind, index))
            place += 1
        for user in sampling:
            sampling[user] = [one for one in sampling[user] if one[0]]
        free_in = tuple(tuple(0.0 if end is None else max(end - now, 1.0) for end in ends) for ends in on_machine)
        if (waiting or active) and not (all(blocked) and samples):
            seen = tuple(sorted(waiting.values(), key=lambda job: job.arrived_at))
            running = tuple(Running(one.job, one.kind, one.machine) for one in active.values())
            queue = Queue(now, seen, running, free_in, users, **settings)  # type: ignore[arg-type]
            if patience_s is not None:
                long_run = long_run.advanced(now, queue.progress(), {job.user for job in seen})
                queue = replace(queue, overdue=long_run.overdue(patience_s))
                due = long_run.next_overdue(patience_s, queue.progress(), {job.user for job in seen})
                if due is not None and (due, "look") not in looks:
                    looks.add((due, "look"))
                    push(due, "look", None)
            choice = choose(queue)
            long_run = long_run.started({waiting[start.job].user for start in choice.starts if start.job in waiting})
            for id in choice.preempted:
                one = active.pop(id)
                total = given[id].times[one.kind]
                assert total
                left[id] = max(0.0, one.left - (now - one.since) / total)
                on_machine[one.kind][one.machine] = None
                waiting[id] = one.job
                result.preempted += 1
            for start in choice.starts:
                job = waiting.pop(start.job)
                seconds, guess = given[job.id].times[start.kind], job.times[start.kind]
                assert seconds is not None and guess is not None and on_machine[start.kind][start.machine] is None
                fraction = left.get(job.id, 1.0)
                active[job.id] = _Active(job, start.kind, start.machine, now, fraction, 0.0)
                on_machine[start.kind][start.machine] = now + fraction * guess
                push(now + fraction * seconds, "end", (job.id, now))
        idle = {job.user for job in waiting.values()} - {one.job.user for one in active.values()}
        for user in users:
            if user in idle:
                waits_since.setdefault(user, now)
            elif user in waits_since:
                result.longest_wait = max(result.longest_wait, now - waits_since.pop(user))
        progress = dict.fromkeys(users, 0.0)
        for one in active.values():
            true = Job(one.job.id, one.job.user, given[one.job.id].times, shares)
            progress[one.job.user] += true.value_on(one.kind)
        result.progress.append((now, tuple(progress[user] for user in users)))
    assert not waiting and not unready
    return result
