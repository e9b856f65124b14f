"""The single entry point for inputs: each is ordered, stamped and journaled, then decided on."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.execution import Command, Decided, Event, Execution, SkippedInputError, State, StateMachine

__all__ = ["Decided", "Intake", "Policy", "SkippedInputError", "StateMachine"]


class Policy(Protocol[State, Event, Command]):
    """How an intake journals its inputs, and handles failed ones."""

    def open(
        self,
        machine: StateMachine[State, Event, Command],
        clock: Clock,
    ) -> Execution[State, Event, Command]:
        """The execution so far, restored from the journal; the clock continues from it."""
        ...

    def take(self, seq: int, at: float, wall: float, event: Event) -> None:
        """Journal an input before the decision on it. An exception rejects the input."""
        ...

    def decided(self, decided: Decided[Event, Command]) -> None:
        """Journal the decision on the last input."""
        ...

    def instead(self, seq: int, at: float, wall: float, event: Event, problem: Exception) -> Decided[Event, Command]:
        """The decision on an input on which the step failed; raises if there is none."""
        ...

    def dump(self, value: object) -> bytes:
        """An event or a command as it is journaled."""
        ...

    def compact(self) -> None:
        """Compact the journal."""
        ...

    def probe(self) -> None:
        """Check that the journal can be written."""
        ...

    def close(self) -> None:
        """Close the journal."""
        ...


class Intake(Generic[State, Event, Command]):
    """Drives a state machine, journaling each input before the decision on it.

    The policy (`Durable`, `BestEffort`) determines how, and what happens when `step` fails; the state then stays
    unchanged, including its mutable parts.

    Timers follow journal order, so that live, simulated and replayed runs agree: `take_in_order` first fires the timers
    due at or before an input's stamp, each stamped with its due time. Inputs are stamped on arrival (`stamp`) and taken
    in the order of their stamps.

    Args:
        machine: the state machine.
        policy: the journal.
        clock: the journal's time.
        resumes: whether an event marks a restart of the process. Timers that came due during the downtime fire after
            it, not before: otherwise they would be decided on with outdated knowledge.
    """

    def __init__(
        self,
        machine: StateMachine[State, Event, Command],
        policy: Policy[State, Event, Command],
        clock: Clock,
        resumes: Callable[[Event], bool] = lambda event: False,
    ) -> None:
        self._policy, self._clock = policy, clock
        self._make_timer, self._resumes = machine.make_timer, resumes
        self._stamped = 0.0
        self._execution = policy.open(machine, clock)

    @property
    def state(self) -> State:
        """The state after all inputs."""
        return self._execution.state

    @property
    def seq(self) -> int:
        """The number of the last input."""
        return self._execution.seq

    @property
    def history(self) -> deque[Decided[Event, Command]]:
        """Recent decisions, oldest first."""
        return self._execution.history

    @property
    def replayed(self) -> int:
        """The number of inputs replayed when the journal was opened."""
        return self._execution.replayed

    @property
    def different(self) -> int:
        """The number of replayed inputs, written by this version, whose journaled decision differs."""
        return self._execution.different

    @property
    def skipped(self) -> int:
        """The number of inputs since the last snapshot that failed."""
        return self._execution.skipped

    def now(self) -> float:
        """The journal's time."""
        return max(self._clock.now(), self._execution.at)

    def wall(self) -> float:
        """Wall time."""
        return self._clock.wall()

    def stamp(self) -> float:
        """The stamp of an input that arrives now: the journal's time, never less than an earlier stamp.

        If inputs arrive in several threads, one lock must cover stamping and queueing (see `Inbox`).
        """
        self._stamped = max(self._clock.now(), self._stamped, self._execution.at)
        return self._stamped

    def next_due(self) -> float | None:
        """When the next timer fires, in the journal's time."""
        return self._execution.next_due()

    def fire(self, before: float) -> Decided[Event, Command] | None:
        """Fire the timer that is due at or before a time, stamped with its due time; None if none is due.

        Raises:
            JournalUnavailableError: it cannot be journaled; it stays due.
            SkippedInputError: it failed; it is due again later.
        """
        due = self.next_due()
        if due is None or due > before or self._make_timer is None:
            return None
        return self.take(self._make_timer(), due)

    def fire_due(
        self, before: float, failed: Callable[[SkippedInputError], object] = lambda problem: None
    ) -> Iterator[Decided[Event, Command]]:
        """Fire every timer that is due at or before a time, lazily, including timers set by earlier ones. `failed` is
        called with each failure.

        Raises:
            JournalUnavailableError: a timer cannot be journaled; it stays due.
        """
        while True:
            try:
                decided = self.fire(before)
            except SkippedInputError as problem:
                failed(problem)
                continue
            if decided is None:
                return
            yield decided

    def take_in_order(
        self, event: Event, at: float, failed: Callable[[SkippedInputError], object] = lambda problem: None
    ) -> Iterator[Decided[Event, Command]]:
        """Take an input stamped `at`, after the timers due before it; the last decision is the input's own.

        Defines the order of inputs and timers, in real and in simulated time. `failed`: as in `fire_due`.

        Raises:
            JournalUnavailableError: the journal cannot be written; the input is rejected.
            SkippedInputError: the input failed.
        """
        if not self._resumes(event):
            yield from self.fire_due(at, failed)
        yield self.take(event, at)

    def take(self, event: Event, at: float | None = None) -> Decided[Event, Command]:
        """Number, stamp and journal an input, then decide on it. `at`: when it arrived; by default, now.

        Fires no timers (see `take_in_order`).

        Raises:
            JournalUnavailableError: it cannot be journaled and is rejected.
            SkippedInputError: it failed.
        """
        execution = self._execution
        seq, wall = execution.seq + 1, self._clock.wall()
        at = max(self.stamp() if at is None else at, execution.at)
        self._policy.take(seq, at, wall, event)
        execution.seq, execution.at, execution.wall = seq, at, wall
        try:
            decided = execution.decide(seq, at, wall, event)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the policy says what becomes of the input
            decided = self._policy.instead(seq, at, wall, event, problem)
        self._policy.decided(decided)
        return decided

    def encoded(self, decided: Decided[Event, Command]) -> bytes:
        """The reproducible part of a decision, equal byte for byte in every run: number, time, event and commands."""
        dump = self._policy.dump
        commands = b",".join(map(dump, decided.commands))
        record = b'{"seq":%d,"at":%r,"event":%s,"commands":[%s]}'
        return record % (decided.seq, decided.at, dump(decided.event), commands)

    def compact(self) -> None:
        """Compact the journal, if it is durable.

        Raises:
            JournalUnavailableError: it could not be written; the journal is unchanged.
        """
        self._policy.compact()

    def probe(self) -> None:
        """Check that the journal can be written.

        Raises:
            JournalUnavailableError: it cannot.
        """
        self._policy.probe()

    def close(self) -> None:
        """Close the journal."""
        self._policy.close()


Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """A queue for inputs of several threads, in the order of their stamps. `stamp`: see `Intake.stamp`."""

    def __init__(self, stamp: Callable[[], float]) -> None:
        self._stamp = stamp
        # Covers stamping and queueing, so that both have the same order.
        self._arrival = threading.Lock()
        self._items: queue.SimpleQueue[tuple[float, Item]] = queue.SimpleQueue()

    def put(self, item: Item) -> None:
        """Stamp an item and queue it."""
        with self._arrival:
            self._items.put((self._stamp(), item))

    def get(self, timeout: float | None) -> tuple[float, Item] | None:
        """The next item with its stamp; None after `timeout` seconds (None: wait forever)."""
        try:
            return self._items.get(timeout=timeout)
        except queue.Empty:
            return None

    def quiet_until(self) -> float | None:
        """The current stamp if the queue is empty, else None.

        Timers due by that time may fire: all further items have later stamps.
        """
        with self._arrival:
            return self._stamp() if self._items.empty() else None
