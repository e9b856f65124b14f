"""What has been decided so far, and how the next input is: all or nothing. Knows no journal."""

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
"""Seconds of the journal's time until a timer fires again on which nothing could be decided; doubled each time, up to
the second."""


class SkippedInputError(ReportedError):
    """An input on which nothing could be decided: recorded as number `seq` with its `error`; the state is unchanged."""

    def __init__(self, seq: int, error: str) -> None:
        super().__init__(f"input {seq} failed and is skipped: {error}")
        self.seq, self.error = seq, error


@dataclass(frozen=True, slots=True)
class Decided(Generic[Event, Command]):
    """An input with its number and times, and what was decided on it.

    `at` is the journal's own time, by which it was decided; `wall` the machine's then, to be shown.
    """

    seq: int
    at: float
    event: Event
    commands: tuple[Command, ...]
    wall: float


@dataclass(frozen=True, slots=True)
class FailedTimer:
    """The last timer on which nothing could be decided: when the state wanted it, when it was stamped, how many in a
    row. It follows from the journal, so a restart and a replay wait as long as the process that failed would have."""

    due: float | None
    at: float
    times: int

    @property
    def retry_at(self) -> float:
        """When it is to fire again, if the state still wants it."""
        return self.at + min(TIMER_RETRY * 2.0 ** (self.times - 1), MAX_TIMER_RETRY)


@dataclass(frozen=True)
class StateMachine(Generic[State, Event, Command]):
    """What decides, and what of it an intake has to know.

    `step(state, seq, at, event) -> (state, commands)`: pure; after a step at a time, the state wants no timer at that
    time or before. `empty`: the state before the first input. `due`: when a state wants its next timer; None: it wants
    none. `make_timer`: the event that fires then, always an equal one; none where `due` is not given. `parts`: what of
    a state is changed in place; it is rolled back where `step` fails.
    """

    step: Callable[[State, int, float, Event], tuple[State, tuple[Command, ...]]]
    empty: State
    due: Callable[[State], float | None] = lambda state: None
    make_timer: Callable[[], Event] | None = None
    parts: Callable[[State], Iterable[Mutable]] = lambda state: ()


class Execution(Generic[State, Event, Command]):
    """Drives a state machine.

    `seq`, `at`, `wall`: of the last input. `history`: the last decided inputs, oldest first, as far as they are kept.
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
        """Decide on an input. An exception leaves everything as it was, also what is changed in place."""
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
        """Go on with a decision."""
        for part in self._machine.parts(state):
            part.commit()
        self.state = state
        if self.failed_timer is not None and self.is_timer(decided.event):
            self.failed_timer = None
        return decided

    def encode(self, commands: tuple[Command, ...]) -> bytes:
        """What a journal is to hold of a decision: part of deciding, for one that cannot be written is none.

        Raises:
            ValueError: it cannot be written.
        """
        return b""

    def skip(self, at: float, is_timer: bool) -> None:
        """Count an input on which nothing can be decided; a timer is to fire again."""
        self.skipped += 1
        if is_timer:
            times = self.failed_timer.times if self.failed_timer is not None else 0
            self.failed_timer = FailedTimer(self._machine.due(self.state), at, times + 1)

    def next_due(self) -> float | None:
        """When the state wants its next timer; later where nothing could be decided on that one."""
        due, failed = self._machine.due(self.state), self.failed_timer
        return failed.retry_at if due is not None and failed is not None and failed.due == due else due

    def is_timer(self, event: Event) -> bool:
        """Whether an event is the timer that the intake itself fires."""
        return self.timer is not None and event == self.timer
