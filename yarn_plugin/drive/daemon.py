"""The arbiter in real time: one loop that takes events in order; every edge in a thread of its own."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from yarn_plugin.act.actor import Actor
from yarn_plugin.act.ownership import Ownership
from yarn_plugin.act.worker import Worker
from yarn_plugin.api.causes import text
from yarn_plugin.api.tokens import SECRET
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import (
    Command,
    Dismiss,
    PoolResumed,
    PoolStopped,
    SendToApp,
    SetTimer,
    SignalContainers,
    SolveInWorker,
    TellShare,
    WriteWeights,
)
from yarn_plugin.decide.events import (
    Configured,
    EpochBegan,
    Event,
    LeavesSeen,
    LeavesUnread,
    Solved,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.journaling import begin_epoch, last_begun, open_intake
from yarn_plugin.drive.registry import INSTALLED
from yarn_plugin.drive.watchdog import Heartbeat
from yarn_plugin.errors import describe
from yarn_plugin.journal.clock import JournalClock
from yarn_plugin.journal.intake import Decided, Inbox, SkippedInputError
from yarn_plugin.journal.records import JournalUnavailableError, RecordFile
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.model.share import Pool
from yarn_plugin.model.topology import TopologyDescription
from yarn_plugin.observe.poller import Poller, PollIntervals, Stopped
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager

__all__ = ["Daemon", "Health", "Stopped"]

log = logging.getLogger("yarn_plugin.arbiter")

Taken = Decided[Event, Command]

IDLE = 1.0
"""Seconds after which the loop comes round though nothing happens, and between tries of a journal that refuses."""

LOGGED_SHARES = 20
"""How many shares of one decision are logged a line each."""

MAX_POLL_AGE = 60.0
"""Seconds since the last complete poll after which the arbiter is not ready."""


@dataclass(frozen=True, slots=True)
class Health:
    """How the arbiter is. `alive`: its loop runs. `ready`: it decides on what is the case now.

    `last_look_age`: seconds since the ResourceManager was last seen whole; None before. `id`: the arbiter's own.
    """

    alive: bool
    ready: bool
    problems: tuple[str, ...]
    last_look_age: float | None
    journal_error: str | None
    id: str


class Daemon:
    """The arbiter of one ResourceManager (or HA pair).

    Args:
        managers: makes a client of the ResourceManager; each thread has its own.
        state_dir: where the journal is.
        reconcile: seconds between comparisons of the queue weights with what the manager has.
        accept_loss: go on without what the journal has lost (what follows damage, what a backup does not have), in a
            new series of ids.
        identity: this arbiter's own id.
        claim: makes this arbiter the owner of its pools' queues; None where nothing can be owned.
        patience: seconds without progress after which the loop counts as stalled.
        registry: the controllers and policies that there are.
        registry_at: where the worker process finds the same, as `module:attribute`.
        solve_limit: seconds for one problem that a controller wants solved.
        topology: what lies where, beyond the racks and nodes that YARN knows.

    Raises:
        JournalError: the journal is in use, damaged, or cannot be written.
    """

    def __init__(
        self,
        managers: Callable[[], ResourceManager],
        pools: tuple[Pool, ...],
        intervals: PollIntervals,
        state_dir: Path,
        reconcile: float = 60.0,
        accept_loss: bool = False,
        identity: str = "",
        claim: Callable[[], Ownership | None] = lambda: None,
        patience: float = 30.0,
        registry: Registry = BUILT_IN,
        registry_at: str = INSTALLED,
        solve_limit: float = 60.0,
        topology: TopologyDescription | None = None,
    ) -> None:
        self._managers = managers
        self._configured = Configured(pools, reconcile, topology or TopologyDescription())
        self._pools = pools
        self._identity, self._claim, self._patience = identity, claim, patience
        # Beside the journal before anything of it goes: this start may yet end before its first record.
        begin = partial(begin_epoch, state_dir, 0)
        self._journal = RecordFile(state_dir / "journal", accept_loss, begin)
        try:
            self._intake = open_intake(self._journal, JournalClock(), registry)
        except BaseException:
            self._journal.close()
            raise
        # Beside a secret there was a journal once, and tokens for the ids in it.
        is_new = not self._intake.seq and (state_dir / SECRET).exists()
        self._state_dir, self._loses_ids = state_dir, is_new or accept_loss
        self._inbox: Inbox[_Item | None] = Inbox(self._intake.stamp)
        self._held: deque[tuple[float, _Item]] = deque()
        self._publish: Callable[[Taken], None] = lambda decided: None
        self._ended = threading.Event()
        self._stopping = False
        self._died: str | None = None
        self._journal_error: str | None = None
        self._counters: Counter[str] = Counter()
        self.heartbeat = Heartbeat()
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self._poller = Poller(managers(), self, {pool.queue for pool in pools}, intervals)
        self._actor: Actor | None = None
        self._workers: dict[str, Worker] = {}
        # Covers the making of workers: none is made once those that there are have been ended.
        self._starting = threading.Lock()
        self._registry, self._registry_at, self._solve_limit = registry, registry_at, solve_limit
        self.state = self._intake.state
        self._history: tuple[Taken, ...] = tuple(self._intake.history)
        self._counters.update(inputs_set_aside=self._intake.skipped, journal_failures=0, weights_reconciled=0,
                              leaves_swept=0, pools_stopped=0)  # fmt: skip
        if self._journal.dropped:
            log.warning("journal: dropped %s", self._journal.dropped)
        if self._intake.different:
            log.warning("journal: %d decisions would now be taken otherwise", self._intake.different)

    @property
    def resumed(self) -> int:
        """How many inputs the journal held at the start."""
        return self._intake.replayed

    def publish_to(self, publish: Callable[[Taken], None]) -> None:
        """Have everything that is decided passed on."""
        self._publish = publish

    def start(self) -> None:
        """Decide, watch and act, until `stop`.

        Raises:
            ManagerError: there is no ResourceManager at its address, and there never was one in this journal.
            OwnedError: another arbiter owns the pools' queues.
            JournalUnavailableError: the journal takes nothing.
        """
        knew_manager = self.state.manager_url is not None
        self._actor = self._make_actor(patient=knew_manager)
        begun = last_begun(self._state_dir)
        if self._loses_ids and (begun <= self.state.epoch or not self._journal.lost):
            begun = begin_epoch(self._state_dir, self.state.epoch, self._journal.lost)
        first: list[Event] = [EpochBegan(begun)] if begun > self.state.epoch else []
        # Before the loop runs: a timer that came due while the arbiter was down is not to come first.
        answers = [self.post(event) for event in (*first, self._configured)]
        self._thread.start()
        for answer in answers:
            _begin(answer)
        self._poller.start(patient=knew_manager)

    def stop(self) -> None:
        """End: what was taken in is decided and journaled, and nothing else is begun."""
        self._stopping = True
        self._poller.close()
        if self._actor is not None:
            self._actor.close()
        with self._starting:
            workers = tuple(self._workers.values())
        for worker in workers:
            worker.close()
        self._inbox.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        self._intake.close()

    # What the API and the edges use.

    def known(self) -> ClusterView:
        """The cluster as known."""
        return self.state.cluster

    def history(self) -> tuple[Taken, ...]:
        """The last decided inputs, oldest first."""
        return self._history

    def now(self) -> float:
        """The arbiter's own time, by which it decides."""
        return self._intake.now()

    def wall_offset(self) -> float:
        """Seconds to add to the arbiter's own time for the time on the wall."""
        return self._intake.wall() - self._intake.now()

    def take(self, event: Event) -> Taken:
        """Take an event in and wait until it is decided on.

        Raises:
            Stopped: the arbiter ends.
            JournalUnavailableError: the journal takes nothing now, so nothing is decided.
            SkippedInputError: nothing could be decided on it.
        """
        return self.post(event).result()

    def post(self, event: Event) -> Future[Taken]:
        """Take an event in, without waiting."""
        if self._ended.is_set():
            refused: Future[Taken] = Future()
            refused.set_exception(Stopped())
            return refused
        item = _Item(event, Future(), is_outcome=False)
        self._inbox.put(item)
        if self._ended.is_set():
            self._refuse_the_rest()
        return item.answer

    def poll(self) -> None:
        """Poll the ResourceManager now, and wait for that."""
        self._poller.poll_now()

    def is_alive(self) -> bool:
        """Whether the loop runs, or was told to end."""
        return self._stopping or (self._thread.is_alive() and self._died is None)

    def health(self) -> Health:
        """How the arbiter is."""
        last_poll = self._poller.last_poll
        age = None if last_poll is None else max(time.monotonic() - last_poll, 0.0)
        dead = [] if self.is_alive() else [f"the loop that decides has died: {self._died}"]
        if not dead and self.heartbeat.age() > self._patience:
            dead = [f"the loop that decides has made no progress for {self.heartbeat.age():.0f} s"]
        problems = [*dead, *([self._journal_error] if self._journal_error else [])]
        if self.state.manager_error is not None:
            problems.append(self.state.manager_error)
        elif age is None or age > MAX_POLL_AGE:
            problems.append(
                "no complete reading of the ResourceManager yet"
                if age is None
                else f"the ResourceManager was last read {age:.0f} s ago"
            )
        problems += [f"the thread {name!r} has ended" for name, lives in self._edges() if not lives]
        # The other pools are decided on all the same. Why, the log says, and /v1/decisions: health is for everybody to
        # read, and an error may name what an application has said.
        stopped = [
            f"pool {name} is stopped: its controller failed, and is retried"
            for name, kept in self.state.pool_states.items()
            if kept.failure is not None
        ]
        return Health(not dead, not problems, (*problems, *stopped), age, self._journal_error, self._identity)

    def counters(self) -> Mapping[str, float]:
        """How often something worth noticing has happened since the start, by name."""
        acted = self._actor.counters if self._actor is not None else {}
        solved: Counter[str] = Counter(dict.fromkeys(Worker.COUNTED, 0))
        for worker in tuple(self._workers.values()):
            solved.update(worker.counters)
        solved["outcomes_lost"] += acted.get("outcomes_lost", 0)
        return {**self._poller.counters, **acted, **solved, **self._counters}

    def _edges(self) -> Iterable[tuple[str, bool]]:
        acts = self._actor is not None and self._actor.is_alive()
        solves = all(worker.is_alive() for worker in tuple(self._workers.values()))
        edges = (("poll", self._poller.is_alive()), ("act", acts), ("work", solves))
        return ((name, self._stopping or lives) for name, lives in edges)

    def _solve(self, task: SolveInWorker) -> None:
        """Have a problem solved, in a process of its pool's own: who solves for long holds up no other pool."""
        if not self._registry.solvers():
            error = "no controller that is installed has a solver"
            self._outcome(Solved(task.pool, task.id, "failed", error=error))
            return
        with self._starting:
            if self._stopping:
                # It is given again after the next start.
                return
            if task.pool not in self._workers:
                made = Worker(self._registry_at, self._registry.tags(), self._outcome, self._solve_limit)
                self._workers[task.pool] = made
            self._workers[task.pool].submit(task.pool, task.id, task.problem)

    def _make_actor(self, patient: bool) -> Actor:
        """What carries out commands, once the pools' queues are this arbiter's to write; claimed later if need be."""
        parents = [pool.queue for pool in self._pools]
        try:
            return Actor(self._managers(), self._outcome, self._claim(), parents)
        except ManagerError as problem:
            if isinstance(problem, ManagerAwayError) and not patient:
                raise
            log.warning("could not claim the pools' queues; trying again later: %s", problem)
        return Actor(self._managers(), self._outcome, None, parents, self._claim)

    # The loop.

    def _outcome(self, event: Event) -> None:
        """Take in what became of a command: it must not be lost, or the arbiter would wait for it for ever."""
        self._inbox.put(_Item(event, Future(), is_outcome=True))

    def _run(self) -> None:
        try:
            while not self._stopping or self._inbox.quiet_until() is None:
                self.heartbeat.beat()
                arrived = self._next()
                if arrived is None:
                    self._fire_due()
                elif arrived[1] is not None:
                    self._handle(arrived[0], arrived[1])
        except BaseException as problem:
            self._died = describe(problem)
            log.exception("the loop that decides has died")
        finally:
            self._ended.set()
            self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        while (arrived := self._inbox.get(0)) is not None:
            if arrived[1] is not None:
                arrived[1].answer.set_exception(Stopped())

    def _next(self) -> "tuple[float, _Item | None] | None":
        """What is to be decided on next, with its stamp; None when there is nothing, for a second."""
        if self._journal_error is not None:
            self._try_the_journal()
        if self._held and self._journal_error is None:
            return self._held.popleft()
        return self._inbox.get(self._idle_s())

    def _idle_s(self) -> float:
        """Seconds to wait for an item: until the next timer, and no longer than a loop may seem to stand still."""
        due = self._intake.next_due()
        if due is None or self._journal_error is not None:
            return IDLE
        return min(max(due - self.now(), 0.0), IDLE)

    def _fire_due(self) -> None:
        """Fire the timers that are due, if nothing has arrived meanwhile: that may have been stamped before them."""
        now = self._inbox.quiet_until()
        if now is None or self._journal_error is not None:
            return
        try:
            for decided in self._intake.fire_due(now, self._timer_set_aside):
                self._pass_on(decided)
        except JournalUnavailableError as problem:
            self._not_journaled(problem)

    def _try_the_journal(self) -> None:
        try:
            self._intake.probe()
        except JournalUnavailableError:
            return
        log.warning("the journal takes records again")
        self._journal_error = None

    def _handle(self, at: float, item: "_Item") -> None:
        decided: Taken | None = None
        try:
            for decided in self._intake.take_in_order(item.event, at, self._timer_set_aside):
                self._pass_on(decided)
        except JournalUnavailableError as problem:
            self._not_journaled(problem)
            if item.is_outcome:
                self._held.append((at, item))
            item.refuse(problem)
        except SkippedInputError as problem:
            self._was_set_aside(item, problem)
        else:
            assert decided is not None, "the input's own comes last"
            item.answer.set_result(decided)

    def _pass_on(self, decided: Taken) -> None:
        """Carry out and publish what was decided."""
        self.state = self._intake.state
        self._history = tuple(self._intake.history)
        self._journal_error = None
        self._count(decided)
        self._carry_out(decided)
        self._publish(decided)
        self.heartbeat.beat()

    def _not_journaled(self, problem: JournalUnavailableError) -> None:
        """Nothing is decided while nothing can be journaled: not on requests, not on observations, not on time."""
        if self._journal_error is None:
            log.error("%s; nothing is decided until it takes records again", problem)
        self._journal_error = str(problem)
        self._counters["journal_failures"] += 1

    def _timer_set_aside(self, problem: SkippedInputError) -> None:
        self._counters["inputs_set_aside"] += 1

    def _was_set_aside(self, item: "_Item", problem: SkippedInputError) -> None:
        self._counters["inputs_set_aside"] += 1
        if isinstance(item.event, WeightsWritten):
            self._outcome(WeightsRefused("what came of it could not be decided on"))
        elif isinstance(item.event, LeavesSeen):
            self._outcome(LeavesUnread("what was read could not be decided on", refused=False))
        elif isinstance(item.event, Solved) and item.event.kind == "done":
            error = "what came of it could not be decided on"
            self._outcome(Solved(item.event.pool, item.event.id, "failed", error=error))
        item.refuse(problem)

    def _count(self, decided: Taken) -> None:
        for command in decided.commands:
            if isinstance(command, WriteWeights) and isinstance(decided.event, LeavesSeen):
                self._counters["weights_reconciled"] += len(command.weights)
                self._counters["leaves_swept"] += len(command.forget)

    def _carry_out(self, decided: Taken) -> None:
        told = [command for command in decided.commands if isinstance(command, TellShare)]
        for one in told[:LOGGED_SHARES]:
            _log_share(decided, one)
        if len(told) > LOGGED_SHARES:
            more, last = len(told) - LOGGED_SHARES, told[-1].share.cause
            log.info("seq=%d and %d more shares: %s", decided.seq, more, text(last))
        for command in decided.commands:
            self._carry_out_one(decided, command)

    def _carry_out_one(self, decided: Taken, command: Command) -> None:
        assert self._actor is not None, "commands follow from inputs, and those are taken from `start` on"
        match command:
            case SetTimer() | TellShare() | SendToApp():
                # The intake fires timers; what is told goes out on streams.
                pass
            case SolveInWorker():
                self._solve(command)
            case PoolStopped(pool, error, retry_at):
                self._counters["pools_stopped"] += 1
                wait = max(retry_at - decided.at, 0.0)
                log.error("seq=%d pool=%s its controller failed, and is called again in %.0f s: %s",
                          decided.seq, pool, wait, error)  # fmt: skip
            case PoolResumed(pool):
                log.warning("seq=%d pool=%s its controller decides again", decided.seq, pool)
            case WriteWeights(weights, forget, cause):
                log.info("seq=%d weights %s forget=%s: %s", decided.seq, dict(weights), list(forget), text(cause))
                self._actor.carry_out(command)
            case SignalContainers(app, containers, cause):
                log.warning("seq=%d signal app=%s containers=%s: %s", decided.seq, app, list(containers), text(cause))
                self._actor.carry_out(command)
            case Dismiss(app, cause):
                log.info("seq=%d dismiss app=%s: %s", decided.seq, app, text(cause))
            case _:
                self._actor.carry_out(command)


@dataclass(frozen=True, slots=True)
class _Item:
    """An event on its way in, and who waits for the decision. `is_outcome`: of a command, so it must not be lost."""

    event: Event
    answer: "Future[Taken]"
    is_outcome: bool

    def refuse(self, problem: Exception) -> None:
        """Tell who waits that nothing was decided."""
        if not self.is_outcome:
            self.answer.set_exception(problem)


def _begin(answer: "Future[Taken]") -> None:
    try:
        answer.result()
    except SkippedInputError as problem:
        # The arbiter goes on with what it knew.
        log.error("at the start: %s", problem)


def _log_share(decided: Taken, command: TellShare) -> None:
    share, grant = command.share, command.share.grant
    log.info("seq=%d tell app=%s guarantee=%.3f entitlement=%.3f in=%.1fs: %s", decided.seq, command.app,
             grant.guarantee_fraction, grant.entitlement_fraction,
             max(share.effective_at - decided.at, 0.0), text(share.cause))  # fmt: skip
