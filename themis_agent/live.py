"""An agent in real time: events from any thread are journaled and decided on in one, which carries out the commands."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from themis_agent.agent.commands import Command
from themis_agent.agent.events import Event, Restarted, TimerFired
from themis_agent.agent.state import State
from themis_agent.agent.step import next_due, step
from themis_agent.agent.tags import TAGS
from yarn_plugin.journal.clock import JournalClock
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.execution import Decided, SkippedInputError, StateMachine
from yarn_plugin.journal.intake import Inbox, Intake
from yarn_plugin.journal.records import JournalUnavailableError, Records, read_records
from yarn_plugin.journal.replay import Replay

log = logging.getLogger("themis_agent")

MACHINE = StateMachine[State | None, Event, Command](step, None, next_due, TimerFired)
"""What an agent's journal drives."""

JOURNAL_RETRY_S = 0.5
"""After which a journal that could not be written is tried again."""

IDLE_S = 0.5
"""How often `run` calls `idle` at least."""


def recorded(journal: Path) -> State | None:
    """The state of an agent by its journal, also while it runs; None if its search has not begun.

    Raises:
        JournalError: the journal cannot be read.
    """
    replay: Replay[State | None, Event, Command] = Replay(MACHINE, TAGS)
    replay.take_all(read_records(journal))
    replay.decide_waiting()
    return replay.state


class InvalidEventError(ValueError):
    """An event that cannot be journaled."""


_Item = tuple[Event, Future[None]]

GROUP = 256
"""The most events that are made durable at once."""


class LiveAgent:
    """See the module. Opening it replays the journal.

    Args:
        records: the journal.
        carry_out: called with each command, in the thread of `run`; must not block for long. What came of a command is
            an event; an exception ends `run`.
        observe: called after each decision with the event and the state.

    `journal_problem`: why the journal cannot be written now. Until it can, nothing is decided, and nothing is lost.

    Raises:
        JournalError: the journal cannot be used.
    """

    def __init__(
        self,
        records: Records,
        carry_out: Callable[[Command], object],
        observe: Callable[[Event, State], object] = lambda event, state: None,
    ) -> None:
        policy: Durable[State | None, Event, Command] = Durable(TAGS, records)
        self._intake = Intake(MACHINE, policy, JournalClock(), lambda event: isinstance(event, Restarted))
        self._codec = policy.replay.codec
        self._inbox: Inbox[_Item] = Inbox(self._intake.stamp)
        self._carry_out, self._observe = carry_out, observe
        self._commit: Callable[[], object] | None = None
        self._committed = self._intake.state
        self._decided: list[tuple[Decided[Event, Command], State | None]] = []
        self._taken: list[Future[None]] = []
        self.journal_problem = ""

    def group(self, commit: Callable[[], object]) -> None:
        """From now on, take the events that wait together, for a journal that is slow however little is written.

        `commit`: makes durable what was journaled since the last call; raises `JournalUnavailableError` if it cannot.
        Nothing is acted on, shown or acknowledged before.
        """
        self._commit, self._committed = commit, self._intake.state

    @property
    def state(self) -> State | None:
        """What the agent knows; None before the search has begun."""
        return self._intake.state if self._commit is None else self._committed

    def now(self) -> float:
        """The time in the journal."""
        return self._intake.now()

    def journal_time(self, wall: float) -> float:
        """Seconds since the epoch in the journal's time."""
        return self._intake.now() + wall - self._intake.wall()

    def wall(self, time: float) -> float:
        """A time in the journal's in seconds since the epoch."""
        return self._intake.wall() + time - self._intake.now()

    def put(self, event: Event) -> Future[None]:
        """Hand an event over. The future is done when it is journaled and decided on.

        Raises:
            InvalidEventError: the journal would not give it back as it is. Nothing is journaled.
        """
        (future,) = self.put_all((event,))
        return future

    def put_all(self, found: Sequence[Event]) -> list[Future[None]]:
        """Hand events over, all of them or none.

        Raises:
            InvalidEventError: the journal would not give one of them back as it is.
        """
        for event in found:
            try:
                self._codec.check(event)
            except ValueError as problem:
                raise InvalidEventError(str(problem)) from problem
        futures: list[Future[None]] = [Future() for _ in found]
        for item in zip(found, futures, strict=True):
            self._inbox.put(item)
        return futures

    def run(self, is_over: Callable[[State | None], bool], idle: Callable[[], object] = lambda: None) -> None:
        """Decide on events and timers until the state says that it is over. `idle` is called twice a second or more."""
        while not is_over(self.state):
            due = self._intake.next_due()
            wait = IDLE_S if due is None else min(max(due - self._intake.now(), 0.0), IDLE_S)
            found = self._inbox.get(wait)
            if found is not None:
                for one in self._and_those_that_wait(found):
                    while not self._take(*one):
                        self._wait_for_room(idle)
            elif (until := self._inbox.quiet_until()) is not None:
                self._fire_due(until)
            self._act_on_group(idle)
            idle()

    def close(self) -> None:
        """Close the journal."""
        self._intake.close()

    def _and_those_that_wait(self, first: tuple[float, _Item]) -> Iterator[tuple[float, _Item]]:
        yield first
        for _ in range(GROUP - 1 if self._commit is not None else 0):
            found = self._inbox.get(0)
            if found is None:
                return
            yield found

    def _act_on_group(self, idle: Callable[[], object]) -> None:
        """Act on what was decided, when it is durable."""
        if self._commit is None or not (self._decided or self._taken):
            return
        while True:
            try:
                self._commit()
                break
            except JournalUnavailableError as problem:
                self._note(problem)
                self._wait_for_room(idle)
        self._note_success()
        self._committed = self._intake.state
        decided, taken, self._decided, self._taken = self._decided, self._taken, [], []
        for one, state in decided:
            self._act_on(one, state)
        for future in taken:
            future.set_result(None)

    def _fire_due(self, until: float) -> None:
        try:
            for decided in self._intake.fire_due(until, self._skipped):
                self._follow(decided)
        except JournalUnavailableError as problem:
            # The timers stay due.
            self._note(problem)
        else:
            self.journal_problem = ""

    def _note(self, problem: JournalUnavailableError) -> None:
        if not self.journal_problem:
            log.error("%s; the search waits until it can be written", problem)
        self.journal_problem = str(problem)

    def _wait_for_room(self, idle: Callable[[], object]) -> None:
        idle()
        time.sleep(JOURNAL_RETRY_S)

    def _take(self, at: float, item: _Item) -> bool:
        """Take an event; False if the journal cannot be written now."""
        event, future = item
        try:
            for decided in self._intake.take_in_order(event, at, self._skipped):
                self._follow(decided)
        except JournalUnavailableError as problem:
            self._note(problem)
            return False
        except SkippedInputError as problem:
            # It is journaled as failed, and would fail again.
            self._skipped(problem)
        except BaseException as problem:
            future.set_exception(problem)
            raise
        self._note_success()
        if self._commit is None:
            future.set_result(None)
        else:
            self._taken.append(future)
        return True

    def _note_success(self) -> None:
        if self.journal_problem:
            log.warning("the journal can be written again")
            self.journal_problem = ""

    def _follow(self, decided: Decided[Event, Command]) -> None:
        if self._commit is None:
            self._act_on(decided, self.state)
        else:
            self._decided.append((decided, self._intake.state))

    def _act_on(self, decided: Decided[Event, Command], state: State | None) -> None:
        if state is not None:
            self._observe(decided.event, state)
        for command in decided.commands:
            self._carry_out(command)

    @staticmethod
    def _skipped(problem: SkippedInputError) -> None:
        log.error("%s; report this", problem)
