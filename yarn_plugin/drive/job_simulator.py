"""Jobs on a pool of leased cells, in virtual time: each is a claim of its own, and runs until it ends or is preempted.

A job that is preempted has lost its work, and waits again.
"""

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from yarn_plugin.decide.allocators.allox.sampling import FRACTIONS, MIN_SAMPLE_S, SampleRun
from yarn_plugin.decide.pools.commands import Downgrade, Grant, LeaseEnded, Renew, Revoke
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import FromApp
from yarn_plugin.drive.pool_simulation import PoolSimulation
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Holding, Lease, Pool
from yarn_plugin.model.topology import NODE, Topology
from yarn_plugin.simulation.jobs.cell_map import CellMap
from yarn_plugin.simulation.jobs.job import Job
from yarn_plugin.simulation.outcome import JobOutcome, Outcome
from yarn_plugin.simulation.over_time import Spread

Order = Literal["fifo", "any", "low_priority"]
"""Which jobs of a tenant claim: `fifo`, those that run and the first that waits; `any`, all; `low_priority`, the first
that waits, and those behind it as opportunistic work, until it is their turn."""

SAMPLED_WORK = 10_000.0
"""The work of a job whose speeds are not known, in batches."""

MAX_OPPORTUNISTIC = 20
"""How many waiting jobs of a tenant claim as opportunistic work."""


@dataclass(frozen=True, slots=True)
class JobSetup:
    """What is simulated: jobs, and what they run on.

    Attributes:
        machines: how many there are for each alternative of the jobs: GPUs; or GPUs and slots of cores.
        is_sampled: nobody knows the speeds of jobs; the controller samples them.
        keeps_holdings: record who held which GPU when.
    """

    topology: Topology
    machines: tuple[int, ...]
    jobs: Sequence[Job]
    order: Order = "any"
    is_sampled: bool = False
    keeps_holdings: bool = False


@dataclass(slots=True, eq=False)
class _Run:
    """A job that has arrived. `wake`: the number of its latest entry in the agenda; earlier ones are void. `sampling`:
    leases of samples that run; `sampled`: how many were done, by alternative. `cells`: those that it holds while it
    runs."""

    job: Job
    claim: Claim
    leases: dict[str, Lease] = field(default_factory=dict)
    began_at: float | None = None
    wake: int = 0
    alternative: int = 0
    preempted: int = 0
    lost_gpu_s: float = 0.0
    sampling: set[str] = field(default_factory=set)
    sampled: Counter[int] = field(default_factory=Counter)
    cells: tuple[Holding, ...] = ()
    is_guaranteed: bool = True


class JobSimulation:
    """A workload on a pool. `on_ended`: called with the number of jobs that have ended."""

    def __init__(self, pool: Pool, registry: Registry, setup: JobSetup, on_ended: Callable[[int], None]) -> None:
        self._queue, self._setup, self._on_ended = pool.queue, setup, on_ended
        self._engine = PoolSimulation(pool, registry, setup.topology, self)
        self._claiming: dict[str, _Run] = {}
        self._waiting: dict[str, list[tuple[int, _Run]]] = {}
        self._full: dict[str, _Run] = {}
        self._outcomes: list[JobOutcome] = []
        self._busy_s = 0.0
        self._map = CellMap(setup.keeps_holdings)
        self._progress = Spread({job.tenant for job in setup.jobs})

    def run(self) -> Outcome:
        """Run until all jobs have ended, or nothing more would ever happen.

        Raises:
            SimulationError: the controller loops.
        """
        for job in self._setup.jobs:
            self._engine.put(job.arrives_at, partial(self._arrive, job))
        self._engine.run()
        unfinished = [run for queue in self._waiting.values() for _, run in queue]
        unfinished += [run for run in self._claiming.values() if run.began_at is not None]
        outcomes = sorted([*self._outcomes, *map(self._outcome, unfinished)], key=lambda one: one.number)
        return Outcome(
            tuple(outcomes),
            self._engine.now,
            self._engine.inputs,
            len(unfinished),
            sum(self._setup.machines),
            self._busy_s,
            tuple(self._map.holdings),
            nodes=sum(1 for _ in self._setup.topology.at(NODE)),
            blocked=tuple(self._map.blocked),
            progress_spread=self._progress.mean(self._engine.now),
        )

    def is_done(self) -> bool:
        """Whether all jobs have ended."""
        return len(self._outcomes) == len(self._setup.jobs)

    # Jobs.

    def _arrive(self, job: Job, at: float) -> None:
        is_sampled = self._setup.is_sampled
        speeds = tuple(None if seconds is None or is_sampled else 1 / seconds for seconds in job.estimated_s)
        work = SAMPLED_WORK if is_sampled else 1.0
        claim = Claim(job.name, 1.0, job.demand, Resources(), tenant=job.tenant, gang=job.gang, arrived_at=at,
                      speeds=speeds, work=work, yarn_app=f"application_1_{job.number:06d}",
                      queue=f"{self._queue}.{job.name}")  # fmt: skip
        self._wait(_Run(job, claim))

    def _wait(self, run: _Run) -> None:
        insort(self._waiting.setdefault(run.job.tenant, []), (run.job.number, run), key=lambda one: one[0])
        self._show(run.job.tenant)

    def _show(self, tenant: str) -> None:
        """Let those jobs of a tenant claim whose turn it is."""
        waiting, order = self._waiting[tenant], self._setup.order
        shown = 1 + MAX_OPPORTUNISTIC if order == "low_priority" else 1 if order == "fifo" else len(waiting)
        for place, (_, run) in enumerate(waiting[:shown]):
            priority = -1 if order == "low_priority" and place else 0
            known = self._claiming.get(run.job.name)
            if known is None or run.claim.priority != priority:
                run.claim = replace(run.claim, priority=priority)
                self._claiming[run.job.name] = run
                self._engine.revise()

    def _sample(self, run: _Run, lease: Lease) -> None:
        """A sample takes a part of the true time, and says the same part of the estimated one."""
        side = lease.alternative
        fraction = FRACTIONS[min(run.sampled[side], len(FRACTIONS) - 1)]
        seconds, estimated = run.job.seconds[side], run.job.estimated_s[side]
        assert seconds is not None and estimated is not None, "a job is sampled where it cannot run"
        run.sampling.add(lease.id)
        said = SampleRun("", side, fraction * SAMPLED_WORK, fraction * estimated)
        took_s = max(fraction * seconds, MIN_SAMPLE_S)
        self._engine.put(self._engine.now + took_s, partial(self._sampled, run, lease.id, said, took_s))

    def _sampled(self, run: _Run, lease: str, said: SampleRun, took_s: float, at: float) -> None:
        if lease in run.sampling:
            run.sampling.remove(lease)
            run.sampled[said.alternative] += 1
            self._busy_s += took_s
            self._engine.send(FromApp(run.job.name, said))

    def _begin(self, run: _Run) -> None:
        run.began_at = self._engine.now
        first = next(iter(run.leases.values()))
        run.alternative, run.is_guaranteed = first.alternative, first.kind != "opportunistic"
        run.cells = tuple([cell for lease in run.leases.values() for cell in lease.holdings])
        if run.is_guaranteed:
            self._map.block(self._engine.now, run.cells)
        seconds = run.job.seconds[run.alternative]
        assert seconds is not None, "a job is placed where it cannot run"
        waiting = self._waiting[run.job.tenant]
        waiting.remove((run.job.number, run))
        run.wake += 1
        self._progress.add(self._engine.now, run.job.tenant, self._value(run))
        self._engine.put(self._engine.now + seconds, partial(self._end, run, run.wake))
        self._show(run.job.tenant)

    def _end(self, run: _Run, wake: int, at: float) -> None:
        if wake != run.wake:
            return
        self._stop(run)
        del self._claiming[run.job.name]
        self._engine.revise()
        self._outcomes.append(self._outcome(run, at))
        self._on_ended(len(self._outcomes))

    def _lose(self, run: _Run) -> None:
        """A preempted job waits again."""
        if run.began_at is None:
            return
        run.preempted += 1
        run.lost_gpu_s += self._stop(run)
        run.began_at = None
        run.wake += 1
        self._wait(run)

    def _stop(self, run: _Run) -> float:
        """A job runs no longer; the GPU seconds that it held."""
        assert run.began_at is not None, "it does not run"
        held_s = run.job.gpus * (self._engine.now - run.began_at)
        self._busy_s += held_s
        self._map.add(run.cells, run.job.name, run.job.tenant, run.began_at, self._engine.now)
        if run.is_guaranteed:
            self._map.unblock(self._engine.now, run.cells)
        self._progress.add(self._engine.now, run.job.tenant, -self._value(run))
        return held_s

    def _value(self, run: _Run) -> float:
        """What it adds to its user's progress while it runs (AlloX, section 3.3.2): its dominant share on the side that
        is fastest for it, less in proportion where it is slower."""
        best = min(range(len(run.job.seconds)), key=lambda side: run.job.seconds[side] or math.inf)
        fastest, here = run.job.seconds[best], run.job.seconds[run.alternative]
        assert fastest is not None and here is not None
        return run.job.gpus / self._setup.machines[best] * fastest / here

    def _outcome(self, run: _Run, at: float | None = None) -> JobOutcome:
        run_s = (run.job.seconds[run.alternative] or 0.0) if at is not None else 0.0
        return JobOutcome(
            run.job.name,
            run.job.tenant,
            run.job.arrives_at,
            at,
            run_s,
            run.job.number,
            gpus=run.job.gpus,
            alternative=run.alternative,
            preempted=run.preempted,
            lost_gpu_s=run.lost_gpu_s,
        )

    # What the controller is told, and commands.

    def claims(self) -> tuple[Claim, ...]:
        """Of the jobs that run or may start."""
        return tuple(run.claim for run in self._claiming.values())

    def granted(self, command: Grant) -> None:
        """Leases have started; a gang begins with the last."""
        run = self._claiming.get(command.app)
        if run is None:
            return
        for lease in command.leases:
            if lease.kind == "sample":
                self._sample(run, lease)
                return
            run.leases[lease.id] = lease
        if len(run.leases) == run.job.pods and run.began_at is None:
            self._full[run.job.name] = run

    def renewed(self, command: Renew) -> None:
        """A job runs until it ends, or is told otherwise."""

    def revoked(self, command: Revoke) -> None:
        """A job that loses one pod has lost all of its work."""
        run = self._claiming.get(command.app)
        if run is not None:
            run.sampling.discard(command.lease)
        if run is not None and command.lease in run.leases:
            self._lose(run)

    def ended(self, command: LeaseEnded) -> None:
        """The lease is over."""
        run = self._claiming.get(command.app)
        if run is not None and run.leases.pop(command.lease, None) is not None:
            self._full.pop(command.app, None)
            self._lose(run)

    def reclassed(self, command: Downgrade) -> None:
        """A job is of the class of its leases."""
        run = self._claiming.get(command.app)
        if run is None or command.lease not in run.leases:
            return
        run.leases[command.lease] = replace(run.leases[command.lease], kind=command.to)
        is_guaranteed = command.to != "opportunistic"
        if run.began_at is not None and run.is_guaranteed != is_guaranteed:
            run.is_guaranteed = is_guaranteed
            (self._map.block if is_guaranteed else self._map.unblock)(self._engine.now, run.cells)

    def answer(self, app: str, question: object) -> object | None:
        """Jobs are asked nothing."""
        return None

    def settle(self) -> None:
        """Begin the gangs that are complete; the next jobs in line may then claim."""
        while self._full:
            full, self._full = self._full, {}
            for run in full.values():
                if run.began_at is None and len(run.leases) == run.job.pods:
                    self._begin(run)
            self._engine.drain()
