"""The one place where a process takes in what happens: ordered, stamped, journaled, then decided on."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.execution import Command, Decided, Event, Execution, SkippedInputError, State, StateMachine

__all__ = ["Decided", "Intake", "Policy", "SkippedInputError", "StateMachine"]


class Policy(Protocol[State, Event, Command]):
    """How an intake journals, and what becomes of an input on which nothing can be decided."""

    def open(
        self,
        machine: StateMachine[State, Event, Command],
        clock: Clock,
    ) -> Execution[State, Event, Command]:
        """What was decided by earlier processes; the clock goes on from it."""
        ...

    def take(self, seq: int, at: float, wall: float, event: Event) -> None:
        """Journal an input that is to be decided on. What this raises refuses the input: it was never taken."""
        ...

    def decided(self, decided: Decided[Event, Command]) -> None:
        """Journal what was decided on the last input."""
        ...

    def instead(self, seq: int, at: float, wall: float, event: Event, problem: Exception) -> Decided[Event, Command]:
        """What is decided on an input on which the step failed; or the error that says nothing is."""
        ...

    def dump(self, value: object) -> bytes:
        """An event or a command as the journal holds it."""
        ...

    def compact(self) -> None:
        """Rewrite the journal as short as it can be."""
        ...

    def probe(self) -> None:
        """Find out whether the journal takes records."""
        ...

    def close(self) -> None:
        """Close the journal."""
        ...


class Intake(Generic[State, Event, Command]):
    """Drives a state machine and journals around it.

    An input is journaled before it is decided on. How (`Durable`, `BestEffort`), and what becomes of an input on which
    `step` fails, its policy says; the state stays as it was before that input, whatever is changed in place.

    Timers come in journal order, so that live, simulated and replayed agree: `take_in_order` fires those that are due
    at or before an input's stamp, stamped with the time that they are due, and then takes the input. An input is
    stamped when it arrives (`stamp`), and the order of stamps is the order in which inputs are taken.

    Args:
        machine: decides.
        policy: the journal.
        clock: the journal's time.
        resumes: whether an event says that the process has begun again. Timers that came due while it was down are not
            fired before that: they would be decided on with what was known before.
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
        """What is known after all inputs."""
        return self._execution.state

    @property
    def seq(self) -> int:
        """The number of the last input."""
        return self._execution.seq

    @property
    def history(self) -> deque[Decided[Event, Command]]:
        """The last decided inputs, oldest first."""
        return self._execution.history

    @property
    def replayed(self) -> int:
        """How many inputs were decided on again when the journal was opened."""
        return self._execution.replayed

    @property
    def different(self) -> int:
        """On how many of them, written by this version, the journal holds another decision."""
        return self._execution.different

    @property
    def skipped(self) -> int:
        """How many inputs, of those since the last snapshot, could not be decided on."""
        return self._execution.skipped

    def now(self) -> float:
        """The journal's time."""
        return max(self._clock.now(), self._execution.at)

    def wall(self) -> float:
        """The time on the wall."""
        return self._clock.wall()

    def stamp(self) -> float:
        """The journal's time now, for an input that arrives now; never less than an earlier stamp.

        Where inputs arrive in several threads, the caller's lock covers this and the place in the queue.
        """
        self._stamped = max(self._clock.now(), self._stamped, self._execution.at)
        return self._stamped

    def next_due(self) -> float | None:
        """When the next timer is to fire, in the journal's time."""
        return self._execution.next_due()

    def fire(self, before: float) -> Decided[Event, Command] | None:
        """Take the timer that is due at or before a time, stamped with the time it is due; None if none is.

        Raises:
            JournalUnavailableError: the journal does not take it; it stays due.
            SkippedInputError: nothing could be decided on it; it is due again later.
        """
        due = self.next_due()
        if due is None or due > before or self._make_timer is None:
            return None
        return self.take(self._make_timer(), due)

    def fire_due(
        self, before: float, failed: Callable[[SkippedInputError], object] = lambda problem: None
    ) -> Iterator[Decided[Event, Command]]:
        """Fire every timer that is due at or before a time, also those that follow from others; each is taken when the
        one before it has been consumed. `failed` is told of those on which nothing could be decided.

        Raises:
            JournalUnavailableError: the journal does not take one; it stays due.
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
        """Take an input that was stamped `at`, after the timers that come before it: the last one is the input's own.

        The one order of inputs and timers, in real and in simulated time. `failed`: as in `fire_due`.

        Raises:
            JournalUnavailableError: the journal takes no more. The input was not decided on, and never will be.
            SkippedInputError: nothing could be decided on the input.
        """
        if not self._resumes(event):
            yield from self.fire_due(at, failed)
        yield self.take(event, at)

    def take(self, event: Event, at: float | None = None) -> Decided[Event, Command]:
        """Number, stamp and journal an input, then decide on it. `at`: when it arrived; now, if not given.

        Timers that are due before it are the caller's to fire (`take_in_order`).

        Raises:
            JournalUnavailableError: the journal does not take it. It was not decided on, and never will be.
            SkippedInputError: nothing could be decided on it.
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
        """What two runs on the same inputs agree on, byte for byte: number, time, event, commands; no wall time."""
        dump = self._policy.dump
        commands = b",".join(map(dump, decided.commands))
        record = b'{"seq":%d,"at":%r,"event":%s,"commands":[%s]}'
        return record % (decided.seq, decided.at, dump(decided.event), commands)

    def compact(self) -> None:
        """Replace the journal by the state and the remembered decisions, where it is kept durably.

        Raises:
            JournalUnavailableError: it could not be written; the journal is as it was.
        """
        self._policy.compact()

    def probe(self) -> None:
        """Find out whether the journal takes records.

        Raises:
            JournalUnavailableError: it does not.
        """
        self._policy.probe()

    def close(self) -> None:
        """Close the journal."""
        self._policy.close()


Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items in the order of their stamps. `stamp`: gives the time of one that arrives now (see `Intake.stamp`)."""

    def __init__(self, stamp: Callable[[], float]) -> None:
        self._stamp = stamp
        # Covers an item's stamp and its place: the order of both is the same.
        self._arrival = threading.Lock()
        self._items: queue.SimpleQueue[tuple[float, Item]] = queue.SimpleQueue()

    def put(self, item: Item) -> None:
        """Stamp an item and queue it."""
        with self._arrival:
            self._items.put((self._stamp(), item))

    def get(self, timeout: float | None) -> tuple[float, Item] | None:
        """The next item with its stamp; None after so many seconds without one (never, where that is None)."""
        try:
            return self._items.get(timeout=timeout)
        except queue.Empty:
            return None

    def quiet_until(self) -> float | None:
        """A time before which nothing can arrive any more: now, where nothing waits; None where something does.

        A timer that is due by then is due before everything that is still to come.
        """
        with self._arrival:
            return self._stamp() if self._items.empty() else None
