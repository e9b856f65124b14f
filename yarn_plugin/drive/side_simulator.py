"""Jobs on GPUs and slots of cores under a side policy alone, in virtual time: the baselines of AlloX's evaluation.

Policies see estimated times, jobs take true ones. Where jobs are sampled (AlloX, section 4.4), samples come before all
jobs, in order of arrival, in turn by user, and hold a machine each. A job waits for its own samples; with a `barrier`
also for those of all jobs that arrived at the same moment, and all ends at whole seconds, as in the authors' simulator.
A job that is preempted goes on where it was, at no cost.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from yarn_plugin.decide.allocators.allox.sampling import MIN_SAMPLE_S
from yarn_plugin.decide.mechanisms import allox
from yarn_plugin.decide.policies.sides import SidePolicy
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, Queue, Running
from yarn_plugin.drive.pool_simulation import SimulationError
from yarn_plugin.drive.virtual_time import Agenda, World
from yarn_plugin.simulation.jobs.job import Job
from yarn_plugin.simulation.outcome import JobOutcome, Outcome
from yarn_plugin.simulation.over_time import Spread


@dataclass(slots=True, eq=False)
class _Run:
    """A job that has arrived. `samples`: how many are to be done. `left`: the part of its work that is. `began_at`: its
    present run; None: it waits. `wake`: the number of its latest end in the agenda; earlier ones are void."""

    job: Job
    seen: allox.Job
    samples: int = 0
    left: float = 1.0
    began_at: float | None = None
    kind: int = GPU_KIND
    machine: int = 0
    ran_s: float = 0.0
    wake: int = 0
    preempted: int = 0

    @property
    def value(self) -> float:
        """What it adds to its user's progress while it runs, by true times (AlloX, section 3.3.2)."""
        return replace(self.seen, times=self.job.seconds).value_on(self.kind)


class SideSimulation(World):
    """A workload under a side policy.

    Args:
        machines: how many GPUs and slots of cores there are.
        samples: the fractions of a job that are run on each of its sides before; empty: its times are known.
        on_ended: called with the number of jobs that have ended.
    """

    def __init__(
        self,
        policy: SidePolicy,
        jobs: Sequence[Job],
        machines: tuple[int, ...],
        alpha: float = 0.3,
        samples: Sequence[float] = (),
        barrier: bool = False,
        on_ended: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._policy, self._jobs, self._alpha, self._on_ended = policy, jobs, alpha, on_ended
        self._samples, self._barrier = samples, barrier
        self._shares = tuple(1 / max(count, 1) for count in machines)
        # When what is on a machine is expected to end; None: it is free.
        self._ends: list[list[float | None]] = [[None] * count for count in machines]
        self._users = tuple(sorted({job.tenant for job in jobs}))
        self._slots_per_gpu = mean_speedup(jobs)
        # By kind, and by user, whose turn it is first.
        self._to_sample: list[dict[str, deque[tuple[_Run, float]]]] = [{} for _ in machines]
        self._unsampled: dict[float, dict[str, _Run]] = {}
        self._waiting: dict[str, _Run] = {}
        self._running: dict[str, _Run] = {}
        self._agenda = Agenda()
        self._has_new = False
        self._busy_s = 0.0
        self._outcomes: list[JobOutcome] = []
        self._progress = Spread(self._users)

    def run(self) -> Outcome:
        """Run until all jobs have ended.

        Raises:
            SimulationError: the policy starts nothing any more, and jobs wait.
        """
        for job in self._jobs:
            self._put(job.arrives_at, partial(self._arrive, job))
        self._agenda.run(self)
        if self._waiting:
            raise SimulationError(f"{len(self._waiting)} jobs are never started: the policy leaves all machines idle")
        outcomes = sorted(self._outcomes, key=lambda one: one.number)
        return Outcome(
            tuple(outcomes),
            self._agenda.now,
            gpus=sum(map(len, self._ends)),
            busy_s=self._busy_s,
            progress_spread=self._progress.mean(self._agenda.now),
        )

    def settle(self) -> None:
        """Start what may start now."""
        self._start_samples()
        self._choose()

    def _put(self, at: float, action: Callable[[float], None]) -> None:
        # The authors' simulator moves in steps of a second.
        self._agenda.put(math.ceil(at - 1e-9) if self._barrier else at, action)

    def _arrive(self, job: Job, at: float) -> None:
        run = _Run(job, allox.Job(job.name, job.tenant, job.estimated_s, self._shares, job.arrives_at))
        for kind, seconds in enumerate(job.seconds):
            if seconds is not None and self._ends[kind]:
                queue = self._to_sample[kind].setdefault(job.tenant, deque()) if self._samples else deque()
                queue.extend((run, max(fraction * seconds, MIN_SAMPLE_S)) for fraction in self._samples)
                run.samples += len(self._samples)
        self._unsampled.setdefault(job.arrives_at, {})[job.name] = run
        self._admit(run)

    # Samples.

    def _start_samples(self) -> None:
        for kind, by_user in enumerate(self._to_sample):
            while by_user and None in self._ends[kind]:
                user = next(iter(by_user))
                queue = by_user.pop(user)
                run, seconds = queue.popleft()
                if queue:
                    by_user[user] = queue
                machine = self._hold(kind, self._ends[kind].index(None), seconds)
                self._busy_s += seconds
                self._put(self._agenda.now + seconds, partial(self._sampled, run, kind, machine))

    def _sampled(self, run: _Run, kind: int, machine: int, at: float) -> None:
        self._ends[kind][machine] = None
        run.samples -= 1
        self._admit(run)

    def _admit(self, run: _Run) -> None:
        """A job may start when it is sampled; behind a barrier, when all are that arrived with it."""
        group = self._unsampled[run.job.arrives_at]
        if self._barrier and any(one.samples for one in group.values()):
            return
        for one in list(group.values()) if self._barrier else [run] if not run.samples else []:
            self._waiting[one.job.name] = group.pop(one.job.name)
            self._has_new = True

    # Jobs.

    def _choose(self) -> None:
        has_free = any(None in ends for ends in self._ends)
        if not (self._waiting or self._running) or not (has_free or self._has_new):
            return
        self._has_new = False
        waiting = sorted(self._waiting.values(), key=lambda run: (run.job.arrives_at, run.job.number))
        # What should have ended by now does so any moment.
        at = self._agenda.now
        free_in = tuple(tuple(0.0 if end is None else max(end - at, 1.0) for end in ends) for ends in self._ends)
        running = tuple(Running(run.seen, run.kind, run.machine) for run in self._running.values())
        queue = Queue(at, tuple(run.seen for run in waiting), running, free_in, self._users, self._alpha,
                      slots_per_gpu=self._slots_per_gpu)  # fmt: skip
        choice = self._policy.choose(queue)
        for name in choice.preempted:
            run = self._stop(name)
            run.preempted += 1
            self._waiting[name] = run
        for start in choice.starts:
            self._begin(self._waiting.pop(start.job), start.kind, start.machine)

    def _begin(self, run: _Run, kind: int, machine: int) -> None:
        seconds, estimated = run.job.seconds[kind], run.job.estimated_s[kind]
        assert seconds is not None and estimated is not None, "a job is started where it cannot run"
        run.kind, run.began_at, run.wake = kind, self._agenda.now, run.wake + 1
        run.machine = self._hold(kind, machine, run.left * estimated)
        self._running[run.job.name] = run
        self._progress.add(self._agenda.now, run.job.tenant, run.value)
        self._put(self._agenda.now + run.left * seconds, partial(self._end, run, run.wake))

    def _hold(self, kind: int, machine: int, seconds: float) -> int:
        assert self._ends[kind][machine] is None, "a machine is held twice"
        self._ends[kind][machine] = self._agenda.now + seconds
        return machine

    def _stop(self, name: str) -> _Run:
        run = self._running.pop(name)
        seconds = run.job.seconds[run.kind]
        assert run.began_at is not None and seconds is not None
        ran_s = self._agenda.now - run.began_at
        run.left, run.ran_s, run.began_at = max(run.left - ran_s / seconds, 0.0), run.ran_s + ran_s, None
        self._busy_s += ran_s
        self._ends[run.kind][run.machine] = None
        self._progress.add(self._agenda.now, run.job.tenant, -run.value)
        return run

    def _end(self, run: _Run, wake: int, at: float) -> None:
        if run.began_at is None or wake != run.wake:
            return
        self._stop(run.job.name)
        self._outcomes.append(
            JobOutcome(
                run.job.name,
                run.job.tenant,
                run.job.arrives_at,
                self._agenda.now,
                run.ran_s,
                run.job.number,
                gpus=run.job.gpus,
                alternative=run.kind,
                preempted=run.preempted,
            )
        )
        self._on_ended(len(self._outcomes))


def mean_speedup(jobs: Sequence[Job]) -> float:
    """How many times as fast jobs are on a GPU, on average: for DRFA, which counts a GPU as so many slots."""
    speedups = [on_slot / on_gpu for on_gpu, on_slot in (job.seconds for job in jobs) if on_gpu and on_slot]
    return fmean(speedups) if speedups else 1.0
