"""A journal for later reading only: the process continues even if it cannot be written."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.execution import Command, Decided, Event, Execution, State, StateMachine

Given = TypeVar("Given", contravariant=True)
Known = TypeVar("Known", contravariant=True)
Told = TypeVar("Told", contravariant=True)


class Notes(Protocol[Known, Given, Told]):
    """A record of inputs and decisions. No method raises: an implementation that cannot write warns once and stops.

    `seq`: the number of the last record. Records need not be synced: they survive the process, not the machine.
    """

    seq: int

    def input(self, seq: int, at: float, event: Given) -> None:
        """Record an input before the decision on it."""
        ...

    def decision(self, seq: int, at: float, commands: tuple[Told, ...], state: Known) -> None:
        """Record a decision and the state after it."""
        ...

    def dump(self, value: object) -> bytes:
        """An event or a command as it is recorded."""
        ...

    def close(self) -> None:
        """Stop recording."""
        ...


class BestEffort(Generic[State, Event, Command]):
    """Records each input before the decision on it; decides even if it cannot be recorded.

    Args:
        notes: the journal.
        fallback: decides when the step fails, from the state before it: `fallback(state, problem)`. Its errors are
            raised to the caller that submitted the input.
    """

    def __init__(
        self,
        notes: Notes[State, Event, Command],
        fallback: Callable[[State, Exception], tuple[State, tuple[Command, ...]]],
    ) -> None:
        self._notes, self._fallback = notes, fallback
        self._execution: Execution[State, Event, Command]

    def open(
        self,
        machine: StateMachine[State, Event, Command],
        clock: Clock,
    ) -> Execution[State, Event, Command]:
        """Start with the empty state: nothing is replayed."""
        self._execution = Execution(machine)
        self._execution.seq = self._notes.seq
        return self._execution

    def dump(self, value: object) -> bytes:
        """A value as it is recorded."""
        return self._notes.dump(value)

    def take(self, seq: int, at: float, wall: float, event: Event) -> None:
        """Record an input before the decision on it."""
        self._notes.input(seq, at, event)

    def decided(self, decided: Decided[Event, Command]) -> None:
        """Record a decision."""
        self._notes.decision(decided.seq, decided.at, decided.commands, self._execution.state)

    def instead(self, seq: int, at: float, wall: float, event: Event, problem: Exception) -> Decided[Event, Command]:
        """The fallback's decision."""
        state, commands = self._fallback(self._execution.state, problem)
        return self._execution.accept(state, Decided(seq, at, event, commands, wall))

    def compact(self) -> None:
        """Do nothing: this journal is not compacted."""

    def probe(self) -> None:
        """Do nothing: no input depends on this journal."""

    def close(self) -> None:
        """Stop recording."""
        self._notes.close()
