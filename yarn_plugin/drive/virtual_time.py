"""Virtual time: an agenda of what is to happen when, and the arbiter driven by it instead of by a clock."""

from collections.abc import Callable
from heapq import heappop, heappush

from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.state import State
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.journal.intake import Decided, SkippedInputError
from yarn_plugin.journal.records import MemoryRecords, Record, Records

Taken = Decided[Event, Command]


class Agenda:
    """What is to happen, by time; at the same time in the order in which it was put down."""

    def __init__(self) -> None:
        self._things: list[tuple[float, int, bool, Callable[[float], None]]] = []
        self._count = self._matter = 0

    def put(self, at: float, happens: Callable[[float], None], matters: bool = True) -> None:
        """Have something happen at a time, which it is given. `matters`: it may change what becomes of somebody."""
        self._count += 1
        self._matter += matters
        heappush(self._things, (at, self._count, matters, happens))

    def is_idle(self) -> bool:
        """Whether nothing that matters is left."""
        return not self._matter

    def next_at(self) -> float | None:
        """When the next thing happens; None when nothing is left."""
        return self._things[0][0] if self._things else None

    def pop(self) -> tuple[float, Callable[[float], None]]:
        """The next thing, with its time."""
        at, _, matters, happens = heappop(self._things)
        self._matter -= matters
        return at, happens


class VirtualClock:
    """A clock that stands still until it is moved; the time on the wall is the same."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def resume(self, at: float, wall: float) -> None:
        """Go on from the last record of a journal."""
        self.at = max(self.at, at)

    def now(self) -> float:
        """The time it was moved to."""
        return self.at

    def wall(self) -> float:
        """The same."""
        return self.at


class UncompactedJournal(MemoryRecords):
    """Every record from the first one on, never compacted."""

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records."""
        super().append(*records, durable=durable)
        self.size = 0


class NoJournal(MemoryRecords):
    """Keeps nothing: for a simulation of which only the outcome is wanted."""

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Let records go."""


class VirtualArbiter:
    """The arbiter in virtual time, on an `Intake` as everywhere: timers come in journal order, at the very time that
    they are due.

    Args:
        taken: is shown every input that was decided on, in order; it carries out the commands, and takes nothing.
        registry: the controllers and policies that there are.
        journal: where its records go; nowhere, if not given.
        at: the time at which it begins.
    """

    def __init__(
        self,
        taken: Callable[[Taken], None],
        registry: Registry = BUILT_IN,
        journal: Records | None = None,
        at: float = 0.0,
    ) -> None:
        self._clock = VirtualClock(at)
        self._intake = open_intake(NoJournal() if journal is None else journal, self._clock, registry)
        self._taken = taken

    @property
    def state(self) -> State:
        """What the arbiter knows."""
        return self._intake.state

    @property
    def seq(self) -> int:
        """The number of the last input."""
        return self._intake.seq

    @property
    def now(self) -> float:
        """The time."""
        return self._clock.at

    def next_due(self) -> float | None:
        """When the next timer fires."""
        return self._intake.next_due()

    def encoded(self, taken: Taken) -> bytes:
        """What two runs on the same inputs agree on, byte for byte."""
        return self._intake.encoded(taken)

    def take(self, event: Event, at: float | None = None) -> tuple[Command, ...]:
        """Take an input in at a time (now, if not given), after the timers that come before it.

        Raises:
            SkippedInputError: nothing can be decided on it.
        """
        due = max(self.now if at is None else at, self.now)
        commands: tuple[Command, ...] = ()
        for taken in self._intake.take_in_order(event, due, _raise):
            commands = self._show(taken)
        return commands

    def wait(self, until: float) -> None:
        """Let time pass: fire the timers that are due by then.

        Raises:
            SkippedInputError: nothing can be decided on one.
        """
        for taken in self._intake.fire_due(until, _raise):
            self._show(taken)
        self._clock.at = max(self.now, until)

    def _show(self, taken: Taken) -> tuple[Command, ...]:
        self._clock.at = max(self.now, taken.at)
        self._taken(taken)
        return taken.commands


def _raise(problem: SkippedInputError) -> None:
    raise problem
