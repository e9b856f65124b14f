"""Virtual time: an agenda of future actions, and the arbiter driven by it instead of a clock."""

import math
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

ArbiterDecision = Decided[Event, Command]


class World:
    """What lives by an agenda. By itself it has no timers, and goes on while there are actions."""

    def is_done(self) -> bool:
        """Whether nothing more needs to happen."""
        return False

    def next_due(self) -> float:
        """When the next timer is due; infinity without one."""
        return math.inf

    def fire(self, at: float) -> None:
        """The first timer is due."""

    def settle(self) -> None:
        """No action is left of this moment, or the world is done. Timers may be."""


class Agenda:
    """Future actions by time; those of the same time in the order in which they were added. `now`: the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._actions: list[tuple[float, int, bool, Callable[[float], None]]] = []
        self._count = self._essential = 0

    def put(self, at: float, action: Callable[[float], None], essential: bool = True) -> None:
        """Call `action` with its time. `essential`: it may lead to progress of an application."""
        self._count += 1
        self._essential += essential
        heappush(self._actions, (at, self._count, essential, action))

    def next_at(self) -> float:
        """The time of the next action; infinity if none is left."""
        return self._actions[0][0] if self._actions else math.inf

    def pop(self) -> tuple[float, Callable[[float], None]]:
        """Remove the next action; returns it with its time."""
        at, _, essential, action = heappop(self._actions)
        self._essential -= essential
        return at, action

    def run(self, world: World, stuck_after: float = math.inf) -> None:
        """Let one thing happen after the other until the world is done, or nothing is left. Timers precede actions of
        the same time.

        `stuck_after`: stop when for so many seconds no essential action was left.
        """
        progress_at = self.now
        while not world.is_done() and self.now < progress_at + stuck_after:
            due, timer = self.next_at(), world.next_due()
            if min(due, timer) == math.inf:
                return
            essential = self._essential
            if timer <= due:
                self.now = timer
                world.fire(timer)
            else:
                self.now, action = self.pop()
                action(self.now)
            if self.next_at() > self.now or world.is_done():
                world.settle()
            if essential or self._essential:
                progress_at = self.now


class VirtualClock:
    """A clock that is set explicitly; its wall-clock time is the same."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def resume(self, at: float, wall: float) -> None:
        """Continue from the last record of a journal."""
        self.at = max(self.at, at)

    def now(self) -> float:
        """The current time."""
        return self.at

    def wall(self) -> float:
        """The current time, too."""
        return self.at


class UncompactedJournal(MemoryRecords):
    """A journal in memory that is never compacted."""

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records."""
        super().append(*records, durable=durable)
        self.size = 0


class NoJournal(MemoryRecords):
    """Discards all records, for simulations of which only the outcome is needed."""

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Discard records."""


class VirtualArbiter:
    """The arbiter in virtual time, on an `Intake` like the live one: timers fire in journal order at their due times.

    Args:
        on_decision: called with every decision, in order. It carries out the commands and must not call `take`.
        registry: the controllers and policies.
        journal: for the records; by default they are discarded.
        at: the start time.
    """

    def __init__(
        self,
        on_decision: Callable[[ArbiterDecision], None],
        registry: Registry = BUILT_IN,
        journal: Records | None = None,
        at: float = 0.0,
    ) -> None:
        self._clock = VirtualClock(at)
        self._intake = open_intake(NoJournal() if journal is None else journal, self._clock, registry)
        self._on_decision = on_decision

    @property
    def state(self) -> State:
        """The arbiter's state."""
        return self._intake.state

    @property
    def seq(self) -> int:
        """The number of the last input."""
        return self._intake.seq

    @property
    def now(self) -> float:
        """The current time."""
        return self._clock.at

    def next_due(self) -> float | None:
        """The due time of the next timer; None if there is none."""
        return self._intake.next_due()

    def encoded(self, decision: ArbiterDecision) -> bytes:
        """The part of a decision that is identical, byte for byte, in all runs with the same inputs."""
        return self._intake.encoded(decision)

    def take(self, event: Event, at: float | None = None) -> tuple[Command, ...]:
        """Take an input at a time (default: now), after the timers that are due before it.

        Raises:
            SkippedInputError: the input raises an error.
        """
        due = max(self.now if at is None else at, self.now)
        commands: tuple[Command, ...] = ()
        for decision in self._intake.take_in_order(event, due, _raise):
            commands = self._report(decision)
        return commands

    def advance_to(self, until: float) -> None:
        """Advance the time and fire the timers that are due by then.

        Raises:
            SkippedInputError: a timer raises an error.
        """
        for decision in self._intake.fire_due(until, _raise):
            self._report(decision)
        self._clock.at = max(self.now, until)

    def _report(self, decision: ArbiterDecision) -> tuple[Command, ...]:
        self._clock.at = max(self.now, decision.at)
        self._on_decision(decision)
        return decision.commands


def _raise(problem: SkippedInputError) -> None:
    raise problem
