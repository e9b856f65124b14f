"""The arbiter in real time: one loop decides on events in order; polling and commands run in their own threads."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from yarn_plugin.act.ownership import Ownership
from yarn_plugin.api.tokens import SECRET
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import Command
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
from yarn_plugin.drive.dispatcher import Dispatcher
from yarn_plugin.drive.journaling import begin_epoch, last_epoch, open_intake
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
from yarn_plugin.observe.resource_manager import ResourceManager
from yarn_plugin.quantities import count

__all__ = ["Daemon", "Health", "Stopped"]

log = logging.getLogger("yarn_plugin.arbiter")

ArbiterDecision = Decided[Event, Command]

MAX_IDLE = 1.0
"""Seconds that the loop waits at most, for an event or for a journal that is not writable."""

MAX_POLL_AGE = 60.0
"""Seconds since the last complete poll after which the arbiter is not ready."""


CHECK_OWNER = 5.0
"""Seconds between two checks of who owns the pools' queues, if a pool must know: two arbiters must not lease the same
GPUs for long."""

_UNPROCESSED = "internal error: the outcome could not be processed; see the arbiter's log"


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the arbiter. `alive`: its loop runs. `ready`: it also knows the current state of the cluster.

    `last_poll_age`: seconds since the last complete poll of the ResourceManager; None before. `id`: the arbiter's id.
    """

    alive: bool
    ready: bool
    problems: tuple[str, ...]
    last_poll_age: float | None
    journal_error: str | None
    id: str


class Daemon:
    """The arbiter of one ResourceManager (or HA pair).

    Args:
        managers: makes a client of the ResourceManager, one per thread.
        state_dir: the folder of the journal.
        reconcile: seconds between comparisons of the queue weights with YARN's.
        accept_loss: start although records of the journal are lost (damaged, or missing in a backup), with a new series
            of ids.
        identity: the arbiter's id.
        claim: makes this arbiter the owner of its pools' queues; None if there is no ownership.
        patience: seconds without progress after which the loop counts as hung.
        registry: the installed controllers and policies.
        registry_at: where a worker process finds the same registry, as `module:attribute`.
        solve_timeout: seconds for one problem in a worker process.
        topology: cells above and within nodes, in addition to YARN's racks and nodes.

    Raises:
        JournalError: the journal is in use, damaged, or not writable.
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
        solve_timeout: float = 60.0,
        topology: TopologyDescription | None = None,
    ) -> None:
        self._configured = Configured(pools, reconcile, topology or TopologyDescription())
        self._identity, self._patience = identity, patience
        # The epoch is stored before records are dropped: the process may end before it writes one.
        begin = partial(begin_epoch, state_dir, 0)
        self._journal = RecordFile(state_dir / "journal", accept_loss, begin)
        try:
            self._intake = open_intake(self._journal, JournalClock(), registry)
        except BaseException:
            self._journal.close()
            raise
        # A secret without records: a journal was lost, and tokens for its ids exist.
        is_new = not self._intake.seq and (state_dir / SECRET).exists()
        self._state_dir, self._loses_ids = state_dir, is_new or accept_loss
        self._inbox: Inbox[_QueuedEvent | None] = Inbox(self._intake.stamp)
        self._deferred: deque[tuple[float, _QueuedEvent]] = deque()
        self._publish: Callable[[ArbiterDecision], None] = lambda decided: None
        self._ended = threading.Event()
        self._stopping = False
        self._died: str | None = None
        self._journal_error: str | None = None
        self._counters: Counter[str] = Counter()
        self.heartbeat = Heartbeat()
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        reads = frozenset[str]().union(*[registry.controller(pool).reads for pool in pools])
        self._poller = Poller(managers(), self, {pool.queue for pool in pools}, intervals, "node_used" in reads)
        parents = [pool.queue for pool in pools]
        self._dispatcher = Dispatcher(
            managers,
            parents,
            claim,
            self._post_outcome,
            registry,
            registry_at,
            solve_timeout,
            CHECK_OWNER if "superseded" in reads else None,
        )
        self.state = self._intake.state
        self._history: tuple[ArbiterDecision, ...] = tuple(self._intake.history)
        self._counters.update(inputs_set_aside=self._intake.skipped, journal_failures=0)
        if self._journal.dropped:
            log.warning("journal: removed %s; %s", self._journal.dropped, _loss(len(self._journal.lost)))
        if self._intake.different:
            log.warning(
                "journal: %d of %d events were decided differently than recorded; the arbiter continues from the new "
                "decisions. This is expected after an upgrade of yarn-plugin or of a controller or policy package; "
                "otherwise it is a bug: report it, with the journal",
                self._intake.different,
                self._intake.replayed,
            )

    @property
    def resumed(self) -> int:
        """How many events the journal contained at the start."""
        return self._intake.replayed

    def publish_to(self, publish: Callable[[ArbiterDecision], None]) -> None:
        """Pass every decision to `publish`."""
        self._publish = publish

    def start(self) -> None:
        """Poll, decide and carry out commands until `stop`.

        Raises:
            ManagerError: there is no ResourceManager at its address, and the journal knows none.
            OwnedError: another arbiter owns the pools' queues.
            JournalUnavailableError: the journal is not writable.
        """
        knew_manager = self.state.manager_url is not None
        self._dispatcher.start(patient=knew_manager)
        epoch = last_epoch(self._state_dir)
        if self._loses_ids and (epoch <= self.state.epoch or not self._journal.lost):
            epoch = begin_epoch(self._state_dir, self.state.epoch, self._journal.lost)
        first: list[Event] = [EpochBegan(epoch)] if epoch > self.state.epoch else []
        # Before the loop runs, so that they precede timers that came due while the arbiter was down.
        answers = [(event, self.post(event)) for event in (*first, self._configured)]
        self._thread.start()
        for event, answer in answers:
            _await_start(event, answer)
        self._poller.start(patient=knew_manager)

    def stop(self) -> None:
        """Stop: queued events are decided on and journaled, and no new work starts."""
        self._stopping = True
        self._poller.close()
        self._dispatcher.close()
        self._inbox.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        self._intake.close()

    # Used by the HTTP service and the poller.

    def known(self) -> ClusterView:
        """The known state of the cluster."""
        return self.state.cluster

    def history(self) -> tuple[ArbiterDecision, ...]:
        """The latest decisions, oldest first."""
        return self._history

    def now(self) -> float:
        """The arbiter's time, by which it decides."""
        return self._intake.now()

    def wall_offset(self) -> float:
        """The difference between wall-clock time and the arbiter's time, in seconds."""
        return self._intake.wall() - self._intake.now()

    def take(self, event: Event) -> ArbiterDecision:
        """Take an event and wait until it is decided on.

        Raises:
            Stopped: the arbiter has stopped.
            JournalUnavailableError: the journal is not writable, so nothing is decided.
            SkippedInputError: the event raises an error, and is skipped.
        """
        return self.post(event).result()

    def post(self, event: Event) -> Future[ArbiterDecision]:
        """Take an event without waiting."""
        if self._ended.is_set():
            refused: Future[ArbiterDecision] = Future()
            refused.set_exception(Stopped())
            return refused
        item = _QueuedEvent(event, Future(), is_outcome=False)
        self._inbox.put(item)
        if self._ended.is_set():
            self._refuse_queued()
        return item.answer

    def poll(self) -> None:
        """Poll the ResourceManager now and wait for the result."""
        self._poller.poll_now()

    def is_alive(self) -> bool:
        """Whether the loop runs, or is stopping on request."""
        return self._stopping or (self._thread.is_alive() and self._died is None)

    def health(self) -> Health:
        """The current health of the arbiter."""
        last_poll = self._poller.last_poll
        age = None if last_poll is None else max(time.monotonic() - last_poll, 0.0)
        dead = [] if self.is_alive() else [f"internal error: the decision loop has failed: {self._died}"]
        if not dead and self.heartbeat.age() > self._patience:
            dead = [f"the decision loop has made no progress for {self.heartbeat.age():.0f} s"]
        problems = [*dead, *([self._journal_error] if self._journal_error else [])]
        if self.state.manager_error is not None:
            problems.append(self.state.manager_error)
        elif age is None or age > MAX_POLL_AGE:
            problems.append(
                "no complete poll of the ResourceManager yet"
                if age is None
                else f"the last complete poll of the ResourceManager was {age:.0f} s ago"
            )
        if self.state.enforcement.superseded is not None:
            problems.append(f"another arbiter, {self.state.enforcement.superseded}, controls the pools' queues now")
        problems += [f"internal error: the thread {name!r} has ended" for name, alive in self._threads() if not alive]
        # The arbiter stays ready for the other pools. The error, which may contain data of an application, is only in
        # the log and in /v1/decisions: health is public.
        stopped = [
            f"pool {name} is stopped: its controller failed and will be retried"
            for name, kept in self.state.pool_states.items()
            if kept.failure is not None
        ]
        return Health(not dead, not problems, (*problems, *stopped), age, self._journal_error, self._identity)

    def counters(self) -> Mapping[str, float]:
        """Counts of failures and notable events by name, since the start."""
        return {**self._poller.counters, **self._dispatcher.counters(), **self._counters}

    def _threads(self) -> Iterable[tuple[str, bool]]:
        threads = (("poll", self._poller.is_alive()), *self._dispatcher.threads())
        return ((name, self._stopping or alive) for name, alive in threads)

    # The loop.

    def _post_outcome(self, event: Event) -> None:
        """Take the outcome of a command. It must not be lost: the arbiter waits for it."""
        self._inbox.put(_QueuedEvent(event, Future(), is_outcome=True))

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
            log.exception("internal error: the decision loop has failed; report this error")
        finally:
            self._ended.set()
            self._refuse_queued()

    def _refuse_queued(self) -> None:
        while (arrived := self._inbox.get(0)) is not None:
            if arrived[1] is not None:
                arrived[1].answer.set_exception(Stopped())

    def _next(self) -> "tuple[float, _QueuedEvent | None] | None":
        """The next event with its stamp; None if there is none before the next timer, or for a second."""
        if self._journal_error is not None:
            self._probe_journal()
        if self._deferred and self._journal_error is None:
            return self._deferred.popleft()
        return self._inbox.get(self._idle_s())

    def _idle_s(self) -> float:
        """Seconds to wait for an event: until the next timer, at most `MAX_IDLE`, so that the loop shows progress."""
        due = self._intake.next_due()
        if due is None or self._journal_error is not None:
            return MAX_IDLE
        return min(max(due - self.now(), 0.0), MAX_IDLE)

    def _fire_due(self) -> None:
        """Fire due timers, unless an event has arrived, whose stamp may be earlier."""
        now = self._inbox.quiet_until()
        if now is None or self._journal_error is not None:
            return
        try:
            for decided in self._intake.fire_due(now, self._count_skipped):
                self._pass_on(decided)
        except JournalUnavailableError as problem:
            self._pause_for_journal(problem)

    def _probe_journal(self) -> None:
        try:
            self._intake.probe()
        except JournalUnavailableError:
            return
        log.warning("the journal is writable again; decisions continue")
        self._journal_error = None

    def _handle(self, at: float, item: "_QueuedEvent") -> None:
        decided: ArbiterDecision | None = None
        try:
            for decided in self._intake.take_in_order(item.event, at, self._count_skipped):
                self._pass_on(decided)
        except JournalUnavailableError as problem:
            self._pause_for_journal(problem)
            if item.is_outcome:
                self._deferred.append((at, item))
            item.refuse(problem)
        except SkippedInputError as problem:
            self._skip(item, problem)
        else:
            # The decision on the event itself is the last one.
            assert decided is not None
            item.answer.set_result(decided)

    def _pass_on(self, decided: ArbiterDecision) -> None:
        """Carry out and publish a decision."""
        self.state = self._intake.state
        self._history = tuple(self._intake.history)
        self._journal_error = None
        self._dispatcher.dispatch(decided)
        self._publish(decided)
        self.heartbeat.beat()

    def _pause_for_journal(self, problem: JournalUnavailableError) -> None:
        """Stop deciding until the journal is writable: on requests, observations and timers alike."""
        if self._journal_error is None:
            log.error("%s; no decisions are made until it is writable again", problem)
        self._journal_error = str(problem)
        self._counters["journal_failures"] += 1

    def _count_skipped(self, problem: SkippedInputError) -> None:
        self._counters["inputs_set_aside"] += 1

    def _skip(self, item: "_QueuedEvent", problem: SkippedInputError) -> None:
        self._counters["inputs_set_aside"] += 1
        if isinstance(item.event, WeightsWritten):
            self._post_outcome(WeightsRefused(_UNPROCESSED))
        elif isinstance(item.event, LeavesSeen):
            self._post_outcome(LeavesUnread(_UNPROCESSED, refused=False))
        elif isinstance(item.event, Solved) and item.event.kind == "done":
            self._post_outcome(Solved(item.event.pool, item.event.id, "failed", error=_UNPROCESSED))
        item.refuse(problem)


@dataclass(frozen=True, slots=True)
class _QueuedEvent:
    """A queued event and the future of its decision. `is_outcome`: of a command, so it must not be lost."""

    event: Event
    answer: "Future[ArbiterDecision]"
    is_outcome: bool

    def refuse(self, problem: Exception) -> None:
        """Report to the waiting caller that nothing was decided."""
        if not self.is_outcome:
            self.answer.set_exception(problem)


def _loss(records: int) -> str:
    if records:
        return f"{count(records, 'valid record')} after it had to be discarded as well (--accept-loss)"
    return "this was an unfinished write at the end of the previous run; nothing else is affected"


def _await_start(event: Event, answer: "Future[ArbiterDecision]") -> None:
    try:
        answer.result()
    except SkippedInputError as problem:
        log.error(
            "this start's %s is NOT in effect: %s; the arbiter continues with that of its previous run; report it, "
            "with the traceback",
            "configuration" if isinstance(event, Configured) else "new series of application ids",
            problem,
        )
