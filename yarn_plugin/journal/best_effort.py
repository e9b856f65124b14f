"""A journal for later: whatever becomes of it, the process goes on."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.execution import Command, Decided, Event, Execution, State, StateMachine

Given = TypeVar("Given", contravariant=True)
Known = TypeVar("Known", contravariant=True)
Told = TypeVar("Told", contravariant=True)


class Notes(Protocol[Known, Given, Told]):
    """Where inputs and decisions are noted. Nothing here raises: who cannot write gives up, and says so once.

    `seq`: the number of the last note. Nothing needs to be on the disk: the notes outlive the process, not the machine.
    """

    seq: int

    def input(self, seq: int, at: float, event: Given) -> None:
        """Note an input that is to be decided on."""
        ...

    def decision(self, seq: int, at: float, commands: tuple[Told, ...], state: Known) -> None:
        """Note what was decided, and led to this state."""
        ...

    def dump(self, value: object) -> bytes:
        """An event or a command as it is noted."""
        ...

    def close(self) -> None:
        """Nothing more is noted."""
        ...


class BestEffort(Generic[State, Event, Command]):
    """An input is noted before it is decided on; where that fails it is decided on all the same.

    Args:
        notes: the journal.
        fallback: decides where the step fails, on the state as it was: `fallback(state, problem)`. What it raises ends
            the input, and goes to whoever gave it.
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
        """Begin: nothing is read."""
        self._execution = Execution(machine)
        self._execution.seq = self._notes.seq
        return self._execution

    def dump(self, value: object) -> bytes:
        """A value as it is noted."""
        return self._notes.dump(value)

    def take(self, seq: int, at: float, wall: float, event: Event) -> None:
        """Note an input that is to be decided on."""
        self._notes.input(seq, at, event)

    def decided(self, decided: Decided[Event, Command]) -> None:
        """Note what was decided."""
        self._notes.decision(decided.seq, decided.at, decided.commands, self._execution.state)

    def instead(self, seq: int, at: float, wall: float, event: Event, problem: Exception) -> Decided[Event, Command]:
        """What the fallback decides."""
        state, commands = self._fallback(self._execution.state, problem)
        return self._execution.accept(state, Decided(seq, at, event, commands, wall))

    def compact(self) -> None:
        """Nothing is rewritten."""

    def probe(self) -> None:
        """Nothing depends on whether it can be written."""

    def close(self) -> None:
        """Nothing more is noted."""
        self._notes.close()
