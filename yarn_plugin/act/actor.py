"""Carries out commands one by one in its own thread, so that a slow ResourceManager never delays a share."""

import logging
import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence

from yarn_plugin.act.outcomes import report
from yarn_plugin.act.ownership import OwnedError, Ownership, SupersededError
from yarn_plugin.act.weights import leaves_in, write_weights
from yarn_plugin.decide.commands import Command, ListContainers, ReadLeaves, SignalContainers, WriteWeights
from yarn_plugin.decide.events import (
    ContainersListed,
    ContainersSignalled,
    Event,
    LeavesUnread,
    Superseded,
    WeightsRefused,
)
from yarn_plugin.model.cluster import Container
from yarn_plugin.observe import scheduler_configuration, translate
from yarn_plugin.observe.capabilities import is_read_only
from yarn_plugin.observe.delivery import Stopped
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager

log = logging.getLogger("yarn_plugin.arbiter")

WRITE_INTERVAL = 1.0
"""Seconds between the starts of two writes of weights: each makes the ResourceManager reinitialize its scheduler. What
is wanted meanwhile goes into the next one."""

MAX_LIST_AGE = 5.0
"""Seconds that reading a list of containers may take. A list that took longer, as that of a process which was stopped
meanwhile, is read again: leases that began since would look unused."""


class Actor:
    """Carries out commands and emits the outcome of each.

    Args:
        emit: called with each outcome, also of failed commands.
        ownership: of the pools' queues; nothing more is written once another arbiter has taken them over.
        parents: the pools' queues; only their child queues are changed. None: any queue.
        claim: makes this arbiter the owner before its first access, if that was not possible before; until then it
            neither writes weights nor signals containers.
        check_every: seconds between checks of who owns the queues; None: only with commands that read or write them.

    `counters`: failures by name, never reset.
    """

    def __init__(
        self,
        manager: ResourceManager,
        emit: Callable[[Event], object],
        ownership: Ownership | None = None,
        parents: Collection[str] | None = None,
        claim: Callable[[], Ownership | None] | None = None,
        check_every: float | None = None,
    ) -> None:
        self._manager, self._emit = manager, emit
        self._check_every = math.inf if check_every is None else check_every
        self._checked_at = time.monotonic()
        self._ownership, self._claim = ownership, claim
        self._parents = None if parents is None else frozenset(parents)
        self._superseded_by: str | None = None
        self.counters: Counter[str] = Counter(commands_failed=0, outcomes_lost=0, queues_refused=0)
        self._commands: queue.SimpleQueue[tuple[Command, float | None] | None] = queue.SimpleQueue()
        self._writes: deque[WriteWeights] = deque()
        self._write_at = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="act", daemon=True)
        self._thread.start()

    def carry_out(self, command: Command, decided_at: float | None = None) -> None:
        """Carry out a command asynchronously. `decided_at`: the arbiter's time when it was decided."""
        self._commands.put((command, decided_at))

    def is_alive(self) -> bool:
        """Whether it carries out commands: until `close` or the end of the arbiter."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish the current command and stop."""
        self._closing.set()
        self._commands.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        try:
            while (following := self._next()) is not None and not self._closing.is_set():
                command, decided_at = following
                for outcome in self._carry_out(command, decided_at):
                    report(outcome, self._emit, self.counters, f"command {type(command).__name__}")
        except Stopped:
            return

    def _next(self) -> tuple[Command, float | None] | None:
        """The next command, and when it was decided; None to stop. A write when its time has come: no other command
        waits for it.

        Checks who owns the queues whenever that is due.
        """
        while True:
            if self._checked_at + self._check_every <= time.monotonic():
                self._check_owner()
            now = time.monotonic()
            if self._writes and self._write_at <= now:
                self._write_at = now + WRITE_INTERVAL
                return self._writes.popleft(), None
            due = min(self._checked_at + self._check_every, self._write_at if self._writes else math.inf)
            try:
                following = self._commands.get(timeout=None if due == math.inf else max(due - now, 0.0))
            except queue.Empty:
                continue
            if following is None or not isinstance(following[0], WriteWeights):
                return following
            self._writes.append(following[0])

    def _check_owner(self) -> None:
        self._checked_at = time.monotonic()
        if self._ownership is None or self._superseded_by is not None:
            return
        try:
            by = self._ownership.successor(scheduler_configuration.read(self._manager))
        except ManagerError:
            # The poller reports that the ResourceManager is away.
            return
        except Exception:
            self.counters["commands_failed"] += 1
            log.exception("internal error: a check of who owns the pools' queues failed; report this error")
            return
        for outcome in self._note_superseded(by) if by is not None else ():
            report(outcome, self._emit, self.counters, "a check of the owner")

    def _carry_out(self, command: Command, decided_at: float | None) -> list[Event]:
        """Carry out a command; its outcomes, also if it fails."""
        try:
            return list(self._outcomes(command, decided_at))
        except SupersededError as taken_over:
            return [*self._note_superseded(taken_over.by), *_failure(command, taken_over, str(taken_over))]
        except ManagerError as problem:
            self.counters["commands_failed"] += 1
            return _failure(command, problem, str(problem))
        except Exception as problem:
            self.counters["commands_failed"] += 1
            log.exception("internal error: command %s failed; report this error", type(command).__name__)
            return _failure(command, problem, f"{type(problem).__name__} {problem}"[:300])

    def _claim_if_necessary(self) -> None:
        """Claim the queues, if that was not possible before.

        Raises:
            SupersededError: another arbiter owns the queues.
        """
        if self._claim is None:
            return
        try:
            self._ownership, self._claim = self._claim(), None
        except OwnedError as owned:
            # Never again: `Superseded` is final, even if the other arbiter stops.
            self._claim = None
            raise SupersededError(owned.url) from None

    def _outcomes(self, command: Command, decided_at: float | None) -> Iterator[Event]:
        if isinstance(command, WriteWeights | ReadLeaves | SignalContainers):
            self._claim_if_necessary()
        match command:
            case WriteWeights(weights, forget, _):
                if self._superseded_by is not None:
                    raise SupersededError(self._superseded_by)
                written = write_weights(self._manager, weights, forget, self._parents, self._ownership)
                self.counters["queues_refused"] += len(written.refused)
                for name, reason in written.refused:
                    log.warning(
                        "queue %s: its share is not enforced, as its weight was refused: %s; retrying", name, reason
                    )
                yield written
            case ReadLeaves(parents):
                configuration = scheduler_configuration.read(self._manager)
                by = self._ownership.successor(configuration) if self._ownership is not None else None
                if by is not None:
                    yield from self._note_superseded(by)
                yield leaves_in(configuration, parents)
            case ListContainers(app, yarn_app, _):
                asked_at = time.monotonic()
                found = list_containers(self._manager, yarn_app)
                if time.monotonic() - asked_at > MAX_LIST_AGE:
                    found = list_containers(self._manager, yarn_app)
                yield ContainersListed(app, found, decided_at)
            case SignalContainers(app, containers, _):
                if self._superseded_by is not None:
                    raise SupersededError(self._superseded_by)
                yield ContainersSignalled(app, containers, kill_containers(self._manager, containers))

    def _note_superseded(self, by: str) -> list[Event]:
        """Report, once, that another arbiter owns the queues."""
        if self._superseded_by is not None:
            return []
        self._superseded_by = by
        log.error(
            "another arbiter, %s, controls the pools' queues now, so this one no longer enforces shares, ends its "
            "leases and accepts no changes; stop one of the two, or restart this one to take over after the other has "
            "stopped",
            by,
        )
        return [Superseded(by)]


def _failure(command: Command, problem: Exception, reason: str) -> list[Event]:
    """The outcome of a failed command, if there is one."""
    match command:
        case WriteWeights():
            return [WeightsRefused(reason)]
        case ReadLeaves():
            return [LeavesUnread(reason, isinstance(problem, ManagerError) and is_read_only(problem))]
        case SignalContainers(app, _, _):
            return [ContainersSignalled(app, (), (reason,))]
    # ListContainers: the application has ended, or the ResourceManager is away. Polling reports either, and an
    # application over its share is found again.
    return []


def list_containers(manager: ResourceManager, yarn_app: str) -> tuple[Container, ...]:
    """The running containers of an application's current attempt.

    Raises:
        ManagerError: the ResourceManager does not answer, or no longer knows the application.
    """
    attempts = translate.attempts(manager.get(f"/apps/{yarn_app}/appattempts"))
    if not attempts:
        return ()
    attempt, master = attempts[-1]
    return translate.containers(manager.get(f"/apps/{yarn_app}/appattempts/{attempt}/containers"), master)


def kill_containers(manager: ResourceManager, containers: Sequence[str]) -> tuple[str, ...]:
    """Kill containers. Returns an error for each that could not be signalled.

    Raises:
        ManagerAwayError: no ResourceManager answers.
    """
    failed: list[str] = []
    for container in containers:
        try:
            manager.post(f"/containers/{container}/signal/FORCEFUL_SHUTDOWN")
        except ManagerAwayError:
            raise
        except ManagerError as problem:
            failed.append(f"{container}: {problem}")
    return tuple(failed)
