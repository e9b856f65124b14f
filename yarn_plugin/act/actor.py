"""Carries out commands one after another in a thread of its own, so that a slow RM never delays a share."""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

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


class Actor:
    """Takes commands; `tell` is called with the outcome of each that has one, whatever happens.

    `ownership`: of the pools' queues; once another arbiter has taken them over, nothing is written any more. `parents`:
    the pools' queues, directly below which alone anything is written; None: anywhere. `claim`: makes this arbiter their
    owner, before anything is read or written, where that could not be done yet. `counters` counts by name what
    went wrong; never reset.
    """

    def __init__(
        self,
        manager: ResourceManager,
        tell: Callable[[Event], object],
        ownership: Ownership | None = None,
        parents: Collection[str] | None = None,
        claim: Callable[[], Ownership | None] | None = None,
    ) -> None:
        self._manager, self._tell = manager, tell
        self._ownership, self._claim = ownership, claim
        self._parents = None if parents is None else frozenset(parents)
        self._superseded_by: str | None = None
        self.counters: Counter[str] = Counter(commands_failed=0, outcomes_lost=0, queues_refused=0)
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="act", daemon=True)
        self._thread.start()

    def carry_out(self, command: Command) -> None:
        """Carry out a command, later."""
        self._commands.put(command)

    def is_alive(self) -> bool:
        """Whether it carries out commands: until `close`, or the end of the arbiter."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish what is being done, and no more."""
        self._closing.set()
        self._commands.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while (command := self._commands.get()) is not None and not self._closing.is_set():
            try:
                for outcome in self._carry_out(command):
                    self._deliver(outcome)
            except Stopped:
                return

    def _carry_out(self, command: Command) -> list[Event]:
        """Carry out a command, whatever happens; what came of it."""
        try:
            return list(self._outcomes(command))
        except SupersededError as taken_over:
            return [*self._give_up(taken_over.by), *_failure(command, taken_over, str(taken_over))]
        except ManagerError as problem:
            self.counters["commands_failed"] += 1
            return _failure(command, problem, str(problem))
        except Exception as problem:
            self.counters["commands_failed"] += 1
            log.exception("%s failed", type(command).__name__)
            return _failure(command, problem, f"{type(problem).__name__} {problem}"[:300])

    def _claim_if_need_be(self) -> None:
        """Become the owner, if that is still to be done.

        Raises:
            SupersededError: another arbiter owns the queues.
        """
        if self._claim is None:
            return
        try:
            self._ownership, self._claim = self._claim(), None
        except OwnedError as owned:
            # Not tried again: it would own, once the other has ended, what it has been told never to write.
            self._claim = None
            raise SupersededError(owned.url) from None

    def _outcomes(self, command: Command) -> Iterator[Event]:
        if isinstance(command, WriteWeights | ReadLeaves):
            self._claim_if_need_be()
        match command:
            case WriteWeights(weights, forget, _):
                if self._superseded_by is not None:
                    raise SupersededError(self._superseded_by)
                written = write_weights(self._manager, weights, forget, self._parents, self._ownership)
                self.counters["queues_refused"] += len(written.refused)
                for name, said in written.refused:
                    log.warning("the weight of %s is not written: %s", name, said)
                yield written
            case ReadLeaves(parents):
                configuration = scheduler_configuration.read(self._manager)
                by = self._ownership.check(configuration) if self._ownership is not None else None
                if by is not None:
                    yield from self._give_up(by)
                yield leaves_in(configuration, parents)
            case ListContainers(app, yarn_app, _):
                yield ContainersListed(app, list_containers(self._manager, yarn_app))
            case SignalContainers(app, containers, _):
                yield ContainersSignalled(app, containers, end_containers(self._manager, containers))

    def _give_up(self, by: str) -> list[Event]:
        """Another arbiter owns the queues now: that is told once."""
        if self._superseded_by is not None:
            return []
        self._superseded_by = by
        log.error("another arbiter, %s, owns the pools' queues now: this one writes nothing more", by)
        return [Superseded(by)]

    def _deliver(self, outcome: Event) -> None:
        try:
            self._tell(outcome)
        except Stopped:
            raise
        except Exception:
            self.counters["outcomes_lost"] += 1
            log.exception("%s is not taken in", type(outcome).__name__)


def _failure(command: Command, problem: Exception, said: str) -> list[Event]:
    """The outcome of a command that could not be carried out, if it has one then."""
    match command:
        case WriteWeights():
            return [WeightsRefused(said)]
        case ReadLeaves():
            return [LeavesUnread(said, isinstance(problem, ManagerError) and is_read_only(problem))]
        case SignalContainers(app, _, _):
            return [ContainersSignalled(app, (), (said,))]
    # A list of containers: it has ended, or the RM is away. The watch tells either, and the overstay is found again.
    return []


def list_containers(manager: ResourceManager, yarn_app: str) -> tuple[Container, ...]:
    """The running containers of an application's present attempt.

    Raises:
        ManagerError: the RM does not answer, or no longer knows the application.
    """
    attempts = translate.attempts(manager.get(f"/apps/{yarn_app}/appattempts"))
    if not attempts:
        return ()
    attempt, master = attempts[-1]
    return translate.containers(manager.get(f"/apps/{yarn_app}/appattempts/{attempt}/containers"), master)


def end_containers(manager: ResourceManager, containers: Sequence[str]) -> tuple[str, ...]:
    """Tell containers to end at once. Returns those that could not be told, with the reason.

    Raises:
        ManagerAwayError: no RM answers.
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
