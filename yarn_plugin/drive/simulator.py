"""The simulator: the arbiter's own decisions, with YARN and applications simulated in virtual time."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from yarn_plugin.api.job_translation import job_of
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import (
    Admit,
    Command,
    SendToApp,
    SignalContainers,
    SolveInWorker,
    TellShare,
    WriteWeights,
)
from yarn_plugin.decide.events import AppSaid, Configured, JobsDeclared, Registered, Solved
from yarn_plugin.decide.events import Vacated as VacatedEvent
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.simulated_manager import SimulatedManager
from yarn_plugin.drive.virtual_time import Agenda, ArbiterDecision, VirtualArbiter, World
from yarn_plugin.errors import BadInputError, describe
from yarn_plugin.journal.records import Records
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources, total_of
from yarn_plugin.model.share import Demand, Pool, Share
from yarn_plugin.simulation.application import (
    Application,
    Container,
    ContainersChanged,
    Finished,
    MessageReceived,
    Notification,
    SendMessage,
    SetContainers,
    ShareUpdated,
    Started,
    Vacated,
    WakeUpAt,
    WokenUp,
)
from yarn_plugin.simulation.cluster import ClusterFile
from yarn_plugin.simulation.outcome import JobOutcome, Outcome, Usage
from yarn_plugin.simulation.scheduler_queues import Queue, QueueTree
from yarn_plugin.simulation.stock_yarn import StockYarn
from yarn_plugin.simulation.workload import Submission
from yarn_plugin.simulation.yarn import RunningApp, SimulatedYarn
from yarn_plugin.validation import one_of

STUCK_AFTER = 3600.0
"""Seconds with nothing but the arbiter's timers, after which the remaining applications will never finish."""


@dataclass(slots=True, eq=False)
class _Run:
    """An application of the workload. `wake`: the number of its last request to be woken up; earlier ones are void.
    `queue`: on stock YARN."""

    submission: Submission
    application: Application
    pool: Pool
    size: Resources
    master: Resources
    yarn_id: str
    queue: Queue | None = None
    id: str | None = None
    wake: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    figures: dict[str, float] = field(default_factory=dict)


class Simulation(World):
    """One run of a workload on a cluster.

    Args:
        policy: of every pool; None: as in the cluster file.
        registry: the controllers and policies.
        journal: for the arbiter's records; by default they are discarded.
        on_decision: called with every decision of the arbiter.
        on_finished: called with the number of finished applications whenever one finishes.
        queues: stock YARN with these queues, without the arbiter: nobody registers.

    Raises:
        BadInputError: an application fits on no node, or its pool, its queue or its policy does not exist.
    """

    def __init__(
        self,
        cluster: ClusterFile,
        submissions: Sequence[Submission],
        policy: str | None = None,
        seed: int = 0,
        registry: Registry = BUILT_IN,
        journal: Records | None = None,
        on_decision: Callable[[ArbiterDecision], None] = lambda decision: None,
        on_finished: Callable[[int], None] = lambda count: None,
        queues: QueueTree | None = None,
    ) -> None:
        if policy is not None:
            registry.policy(policy)
        self._queues = queues
        self._cluster, self._pools = cluster, cluster.domain_pools(policy)
        self._on_decision, self._on_finished = on_decision, on_finished
        nodes = cluster.machines()
        self._agenda = Agenda()
        self._arbiter = VirtualArbiter(self._carry_out_all, registry, journal)
        self._solver = registry.solver()
        self._yarn = SimulatedYarn(nodes) if queues is None else StockYarn(nodes)
        self._capacity = total_of(node.capacity for node in nodes)
        self._manager = SimulatedManager(
            self._agenda, self._arbiter, self._yarn, cluster.timing, self._on_allocated, self._on_lost, self._on_polled
        )
        largest = {node.capacity for node in nodes}
        self._runs = [self._run_of(one, seed, largest) for one in submissions]
        self._by_id: dict[str, _Run] = {}
        self._by_yarn_id = {run.yarn_id: run for run in self._runs}
        self._left = len(self._runs)
        self._groups = tuple(sorted({one.group for one in submissions}))
        self._parts = dict.fromkeys(self._groups, 0.0)
        self._used: dict[str, float] = {}
        self._usage: list[Usage] = []
        self._shares_sent = self._weights_written = self._containers_signalled = 0

    def run(self) -> Outcome:
        """Run until all applications have finished or no further progress is possible."""
        pools = self._pools if self._queues is None else ()
        self._arbiter.take(Configured(pools, self._cluster.timing.reconcile_s), 0.0)
        self._manager.start(0.0)
        for outage in self._cluster.outages():
            self._manager.plan_outage(outage)
        for one in self._cluster.manager_failures:
            self._manager.plan_downtime(one.at_s, one.at_s + one.duration_s, one.preserve_weights)
        for run in self._runs:
            self._agenda.put(run.submission.common.arrival_s, partial(self._arrive, run))
        self._agenda.run(self, STUCK_AFTER)
        return self._outcome()

    def is_done(self) -> bool:
        """Whether all applications have finished."""
        return not self._left

    def next_due(self) -> float:
        """The arbiter's next timer."""
        due = self._arbiter.next_due()
        return math.inf if due is None else due

    def fire(self, at: float) -> None:
        """A timer of the arbiter is due."""
        self._arbiter.advance_to(at)

    # Applications.

    def _run_of(self, one: Submission, seed: int, largest: set[Resources]) -> _Run:
        pools = {pool.name: pool for pool in self._pools}
        pool = pools.get(one.common.pool or self._pools[0].name)
        if pool is None:
            raise BadInputError(f"application {one.name}: pool", one.common.pool, one_of(pools, one.common.pool))
        size, master = _resources(one.common.container()), _resources(one.common.master())
        for what, wanted in (("container", size), ("master", master)):
            if not any(wanted.fits(capacity) for capacity in largest):
                raise BadInputError(f"application {one.name}: {what}", str(wanted), "must fit on a node of the cluster")
        queue = None if self._queues is None else self._queues.queue(one.name, one.common.user, one.common.queue)
        return _Run(one, one.application(seed), pool, size, master, f"application_1_{one.number:05d}", queue)

    def _arrive(self, run: _Run, at: float) -> None:
        given, queue = run.submission.common, f"{run.pool.queue}.{run.yarn_id}"
        if run.queue is not None and isinstance(self._yarn, StockYarn):
            queue = run.queue.path
            self._yarn.join(run.queue)
            self._notify(at, run, self._share_of(run.queue, run, at))
        elif given.registers:
            request = Registered(f"request-{run.submission.number}", run.submission.name, given.user, run.pool.name,
                                 given.weight, self._demand(run), given.grace_s, None)  # fmt: skip
            for command in self._arbiter.take(request, at):
                if isinstance(command, Admit):
                    run.id, queue = command.registration.id, command.registration.queue
                    self._by_id[run.id] = run
            if run.id is not None and given.jobs:
                self._arbiter.take(JobsDeclared(run.id, tuple(job_of(job, given.user) for job in given.jobs)), at)
        self._agenda.put(at + self._cluster.timing.submit_s, lambda now: self._submit(now, run, queue))

    def _share_of(self, queue: Queue, run: _Run, at: float) -> ShareUpdated:
        """What an application on stock YARN knows: what its queue is assured of. It requests all that it can use."""
        assured = self._capacity.scaled(min(queue.capacity, queue.capacity * queue.user_limit))
        return ShareUpdated(0, max(_count(assured, run), 1), max(_count(self._capacity, run), 1), at)

    def _demand(self, run: _Run) -> Demand | None:
        max_containers = run.application.max_containers
        return None if max_containers is None else Demand((_times(run.size, max_containers) + run.master,))

    def _submit(self, at: float, run: _Run, queue: str) -> None:
        given, yarn = run.submission.common, self._yarn
        yarn.submit(RunningApp(run.yarn_id, run.submission.name, given.user, queue, at, yarn.amounts(run.size),
                               yarn.amounts(run.master)))  # fmt: skip
        self._manager.note_change(at)

    def _notify(self, at: float, run: _Run, notification: Notification) -> None:
        """Notify an application, and carry out its requests."""
        if run.finished_at is not None:
            return
        for request in run.application.handle(at, notification):
            match request:
                case SetContainers(containers):
                    self._yarn.set_containers(run.yarn_id, containers)
                    self._manager.note_change(at)
                case WakeUpAt(due):
                    run.wake += 1
                    self._agenda.put(max(due, at), partial(self._wake, run, run.wake))
                case Vacated(seq):
                    if run.id is not None:
                        self._arbiter.take(VacatedEvent(run.id, seq), at)
                case SendMessage(message):
                    if run.id is not None:
                        self._arbiter.take(AppSaid(run.id, message), at)
                case Finished(figures):
                    self._finish(at, run, dict(figures))
                    return

    def _wake(self, run: _Run, number: int, at: float) -> None:
        if run.wake == number:
            self._notify(at, run, WokenUp())

    def _finish(self, at: float, run: _Run, figures: dict[str, float]) -> None:
        run.finished_at, run.figures = at, figures
        self._yarn.end(run.yarn_id)
        self._manager.note_change(at)
        self._left -= 1
        self._on_finished(len(self._runs) - self._left)

    # Called by the simulated ResourceManager.

    def _on_allocated(self, at: float, yarn_id: str, got_master: bool) -> None:
        run, held = self._by_yarn_id[yarn_id], self._yarn.apps[yarn_id].held
        if got_master:
            run.started_at = at if run.started_at is None else run.started_at
            self._notify(at, run, Started())
        if held:
            self._notify(at, run, ContainersChanged(held))

    def _on_lost(self, at: float, yarn_id: str, count: int) -> None:
        self._notify(at, self._by_yarn_id[yarn_id], ContainersChanged(self._yarn.apps[yarn_id].held, count))

    def _on_polled(self, at: float, changed: Mapping[str, YarnApp], ended: tuple[str, ...]) -> None:
        """Record the fraction of the cluster that each group uses."""
        capacity = self._yarn.resources(self._yarn.total)
        parts = {name: app.used.dominant_fraction(capacity) for name, app in changed.items()}
        for name, part in (*parts.items(), *((name, 0.0) for name in ended)):
            group = self._by_yarn_id[name].submission.group
            self._parts[group] += part - self._used.pop(name, 0.0)
            if part:
                self._used[name] = part
        self._usage.append(Usage(at, tuple(max(part, 0.0) for part in self._parts.values())))

    # Commands of the arbiter.

    def _carry_out_all(self, decision: ArbiterDecision) -> None:
        self._on_decision(decision)
        for command in decision.commands:
            self._carry_out(decision.at, command)

    def _carry_out(self, at: float, command: Command) -> None:
        match command:
            case TellShare(app, share):
                self._shares_sent += 1
                self._agenda.put(at + self._cluster.timing.notify_s, lambda now: self._notify_of_share(now, app, share))
            case SendToApp(_, app, message):
                self._agenda.put(at + self._cluster.timing.notify_s, lambda now: self._send(now, app, message))
            case SolveInWorker():
                self._agenda.put(at + self._cluster.timing.solve_s, lambda now: self._solve(now, command))
            case WriteWeights():
                self._weights_written += 1
            case SignalContainers(_, containers):
                self._containers_signalled += len(containers)
        self._manager.carry_out(at, command)

    def _notify_of_share(self, at: float, app: str, share: Share) -> None:
        run = self._by_id.get(app)
        if run is not None:
            guaranteed, entitled = (_count(amount, run) for amount in (share.grant.guarantee, share.grant.entitlement))
            shrinks = share.effective_at > share.told_at
            self._notify(at, run, ShareUpdated(share.seq, guaranteed, entitled, share.effective_at, shrinks))

    def _send(self, at: float, app: str, message: object) -> None:
        run = self._by_id.get(app)
        if run is not None:
            self._notify(at, run, MessageReceived(message))

    def _solve(self, at: float, command: SolveInWorker) -> None:
        """Report the result of a problem, or the error of its solver, as a worker process does."""
        try:
            solved = Solved(command.pool, command.id, "done", self._solver(command.problem))
        except Exception as problem:  # noqa: BLE001 - the error is the outcome
            solved = Solved(command.pool, command.id, "failed", error=describe(problem))
        self._arbiter.take(solved, at)

    def _outcome(self) -> Outcome:
        return Outcome(
            tuple(self._ending(run) for run in self._runs),
            max(self._agenda.now, self._arbiter.now),
            self._arbiter.seq,
            self._left,
            groups=self._groups,
            usage=tuple(self._usage),
            shares_sent=self._shares_sent,
            weights_written=self._weights_written,
            containers_signalled=self._containers_signalled,
        )

    def _ending(self, run: _Run) -> JobOutcome:
        max_containers = run.application.max_containers
        capacity = max(_count(self._capacity, run), 1)
        containers = capacity if max_containers is None else min(max_containers, capacity)
        alone = run.application.isolated_runtime(containers)
        given = run.submission.common
        return JobOutcome(run.submission.name, run.submission.group, given.arrival_s, run.finished_at, alone,
                          run.submission.number, given.user, given.weight, run.started_at,
                          figures=run.figures)  # fmt: skip


def _resources(container: Container) -> Resources:
    return Resources.of({MEMORY: container.memory_mb, VCORES: container.vcores, GPU: container.gpus})


def _times(size: Resources, count: int) -> Resources:
    return Resources(tuple((name, amount * count) for name, amount in size if count))


def _count(amount: Resources, run: _Run) -> int:
    """How many containers of an application fit into an amount, in addition to its master. Only resources that its pool
    divides limit them."""
    left = amount - run.master
    counts = [left[name] // needs for name, needs in run.size if name in run.pool.resources]
    return max(min(counts, default=0), 0)
