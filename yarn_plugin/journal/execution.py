"""A state machine in execution: each input is decided on atomically. Independent of the journal."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from yarn_plugin.errors import ReportedError
from yarn_plugin.model.journaled import Mutable, roll_back

State = TypeVar("State")
Event = TypeVar("Event")
Command = TypeVar("Command")

TIMER_RETRY, MAX_TIMER_RETRY = 5.0, 300.0
"""Initial and maximum delay in seconds (of the journal's time) before a failed timer fires again; doubled each time."""


class SkippedInputError(ReportedError):
    """An event failed and was skipped. It is recorded as number `seq` with its `error`; the state is unchanged.

    `name`: the event's class.
    """

    def __init__(self, seq: int, name: str, error: str) -> None:
        super().__init__(f"event {seq} ({name}) failed and was skipped: {error}")
        self.seq, self.error = seq, error


@dataclass(frozen=True, slots=True)
class Decided(Generic[Event, Command]):
    """An input with its number and times, and the commands decided on it.

    `at`: the journal's time, used for the decision. `wall`: wall time, for display.
    """

    seq: int
    at: float
    event: Event
    commands: tuple[Command, ...]
    wall: float


@dataclass(frozen=True, slots=True)
class FailedTimer:
    """The last failed timer: when it was due, when it was stamped, and the failures in a row.

    It follows from the journal, so a restart and a replay wait as long as the process that failed would have.
    """

    due: float | None
    at: float
    times: int

    @property
    def retry_at(self) -> float:
        """When it fires again, if the state still sets it."""
        return self.at + min(TIMER_RETRY * 2.0 ** (self.times - 1), MAX_TIMER_RETRY)


@dataclass(frozen=True)
class StateMachine(Generic[State, Event, Command]):
    """What an intake drives.

    `step(state, seq, at, event) -> (state, commands)`: pure; the state after a step sets no timer at or before the
    step's time. `empty`: the state before the first input. `due`: when a state's next timer is due, or None.
    `make_timer`: the timer's event, always equal; None without timers. `parts`: the mutable parts of a state, which are
    rolled back if `step` fails.
    """

    step: Callable[[State, int, float, Event], tuple[State, tuple[Command, ...]]]
    empty: State
    due: Callable[[State], float | None] = lambda state: None
    make_timer: Callable[[], Event] | None = None
    parts: Callable[[State], Iterable[Mutable]] = lambda state: ()


class Execution(Generic[State, Event, Command]):
    """Executes a state machine.

    `seq`, `at`, `wall`: of the last input. `history`: recent decisions, oldest first.
    """

    def __init__(self, machine: StateMachine[State, Event, Command]) -> None:
        self.state = machine.empty
        self.seq, self.at, self.wall = 0, 0.0, 0.0
        self.replayed = self.different = self.skipped = 0
        self.history: deque[Decided[Event, Command]] = deque()
        self.failed_timer: FailedTimer | None = None
        self.last_commands = b""
        self._machine = machine
        self.timer = machine.make_timer() if machine.make_timer is not None else None

    def decide(self, seq: int, at: float, wall: float, event: Event) -> Decided[Event, Command]:
        """Decide on an input, atomically: an exception leaves the state unchanged, including its mutable parts."""
        savepoints = [(part, part.savepoint()) for part in self._machine.parts(self.state)]
        try:
            state, commands = self._machine.step(self.state, seq, at, event)
            last_commands = self.encode(commands)
        except BaseException:
            roll_back(savepoints)
            raise
        self.last_commands = last_commands
        return self.accept(state, Decided(seq, at, event, commands, wall))

    def accept(self, state: State, decided: Decided[Event, Command]) -> Decided[Event, Command]:
        """Commit a decision."""
        for part in self._machine.parts(state):
            part.commit()
        self.state = state
        if self.failed_timer is not None and self.is_timer(decided.event):
            self.failed_timer = None
        return decided

    def encode(self, commands: tuple[Command, ...]) -> bytes:
        """Commands as they are journaled. Part of deciding: a decision that cannot be journaled fails.

        Raises:
            ValueError: a command cannot be journaled.
        """
        return b""

    def skip(self, at: float, is_timer: bool) -> None:
        """Count a failed input; schedule a failed timer again."""
        self.skipped += 1
        if is_timer:
            times = self.failed_timer.times if self.failed_timer is not None else 0
            self.failed_timer = FailedTimer(self._machine.due(self.state), at, times + 1)

    def next_due(self) -> float | None:
        """When the next timer fires: when it is due, or later if it has failed."""
        due, failed = self._machine.due(self.state), self.failed_timer
        return failed.retry_at if due is not None and failed is not None and failed.due == due else due

    def is_timer(self, event: Event) -> bool:
        """Whether an event is the state machine's timer."""
        return self.timer is not None and event == self.timer
