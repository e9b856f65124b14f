"""The one place where a process takes in what happens: ordered, stamped, journaled, then decided on."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import Record, RecordFile

State = TypeVar("State")
Event = TypeVar("Event")
Command = TypeVar("Command")

COMPACT_AT = 32 * 1024 * 1024
"""Bytes of journal after which it is replaced by a snapshot."""

REMEMBERED = 4000
"""Decided inputs that survive compaction, for "why" and for clients that reconnect."""


@dataclass(frozen=True, slots=True)
class Decided(Generic[Event, Command]):
    """An input with its number and time, and what was decided on it."""

    seq: int
    at: float
    event: Event
    commands: tuple[Command, ...]


class Intake(Generic[State, Event, Command]):
    """Drives a pure `step(state, seq, at, event) -> (state, commands)` and journals around it.

    Opening it replays the journal, so `state` is what it was when the process ended, wherever it was killed: an input
    is durable before it is decided on, and a decision that was lost follows again from its input. `history` holds the
    last decided inputs, oldest first; `replayed` counts the inputs that were decided on again at opening, `different`
    those of them on which the journal holds another decision (0, unless another version of the program wrote it).
    """

    def __init__(
        self,
        step: Callable[[State, int, float, Event], tuple[State, tuple[Command, ...]]],
        empty: State,
        types: Iterable[type],
        journal: RecordFile,
        clock: Callable[[], float],
    ) -> None:
        self._step, self._journal, self._clock = step, journal, clock
        self._codec = Codec([*types, type(empty)])
        self.state = empty
        self.seq = 0
        self.replayed = 0
        self.different = 0
        self.history: deque[Decided[Event, Command]] = deque(maxlen=REMEMBERED)
        self._last_at = 0.0
        self._replay()

    def take(self, event: Event) -> Decided[Event, Command]:
        """Number, stamp and journal an input, then decide on it."""
        self.seq += 1
        # Time never runs backwards within a journal, whatever is done to the machine's clock.
        self._last_at = max(self._clock(), self._last_at)
        self._journal.append(self._input(self.seq, self._last_at, event))
        decided = self._decide(self.seq, self._last_at, event)
        self._journal.append(self._decision(decided), durable=False)
        if self._journal.size > COMPACT_AT:
            self.compact()
        return decided

    def compact(self) -> None:
        """Replace the journal by a snapshot of the state and the remembered decisions."""
        snapshot = {"kind": "snapshot", "seq": self.seq, "at": self._last_at, "state": self._codec.write(self.state)}
        remembered = [
            {**self._input(past.seq, past.at, past.event), "kind": "past", "commands": self._commands(past.commands)}
            for past in self.history
        ]
        self._journal.rewrite(*remembered, snapshot)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _decide(self, seq: int, at: float, event: Event) -> Decided[Event, Command]:
        self.state, commands = self._step(self.state, seq, at, event)
        decided = Decided(seq, at, event, commands)
        self.history.append(decided)
        return decided

    def _replay(self) -> None:
        undecided: Decided[Event, Command] | None = None
        for record in self._journal.read():
            self.seq, self._last_at = record["seq"], record["at"]
            match record["kind"]:
                case "snapshot":
                    self.state = self._codec.read(record["state"])
                case "past":
                    commands = tuple(self._codec.read(command) for command in record["commands"])
                    event = self._codec.read(record["event"])
                    self.history.append(Decided(self.seq, self._last_at, event, commands))
                case "input":
                    undecided = self._decide(self.seq, self._last_at, self._codec.read(record["event"]))
                    self.replayed += 1
                case "decision":
                    self._check(undecided, record)
                    undecided = None
        if undecided is not None:
            self._journal.append(self._decision(undecided))

    def _check(self, decided: Decided[Event, Command] | None, record: Record) -> None:
        if decided is None or decided.seq != record["seq"] or self._commands(decided.commands) != record["commands"]:
            self.different += 1

    def _input(self, seq: int, at: float, event: Event) -> Record:
        return {"kind": "input", "seq": seq, "at": at, "event": self._codec.write(event)}

    def _decision(self, decided: Decided[Event, Command]) -> Record:
        return {
            "kind": "decision",
            "seq": decided.seq,
            "at": decided.at,
            "commands": self._commands(decided.commands),
        }

    def _commands(self, commands: Sequence[Command]) -> list[dict[str, Any]]:
        return [self._codec.write(command) for command in commands]
