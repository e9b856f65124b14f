"""One query from its plans to its result: takes in events in order, decides, and passes commands to the edges."""

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from qoop.errors import QoopError
from qoop.estimate.cost import CostModel
from qoop.estimate.estimator import Estimator
from qoop.journal import QueryJournal
from qoop.planning import Planned
from qoop.plans.plan import GOAL, Query, StageId
from qoop.replan.commands import (
    CancelStages,
    Command,
    ConfirmVacated,
    Fail,
    Finish,
    Note,
    RunAsWritten,
    SetExecutors,
    SetTimer,
    StartStage,
)
from qoop.replan.decision import Decision, Rules
from qoop.replan.events import ArbiterAway, CannotPlan, Event, TimerFired
from qoop.replan.events import Planned as PlansMade
from qoop.replan.machine import run_as_written, step
from qoop.replan.state import State, Tally
from qoop.sql.render import query_text, view_of


class QueryFailedError(QoopError):
    """The query has no answer; the message is the engine's."""


class StageRunner(Protocol):
    """What runs stages. Returns at once; outcomes are told as events."""

    def start(self, stage: StageId, query: str, view: str | None, attempt: int) -> None:
        """Run a query and keep its output as `view`; None: it is the result."""
        ...

    def cancel(self, stages: tuple[StageId, ...]) -> None:
        """Stop stages."""
        ...

    def set_executors(self, target: int) -> None:
        """Have so many executors."""
        ...


class Feed(Protocol):
    """Where the share comes from."""

    def start(self, tell: Callable[[Event], None]) -> None:
        """Begin to tell; the present share first."""
        ...

    def close(self) -> None:
        """Tell no more."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a query, beside its result."""

    tally: Tally
    join_trees: int
    seconds: float
    one_stage_reason: str | None
    decisions: tuple[Decision, ...]


class QueryRun:
    """Runs one query. `tell` may be called from any thread; all else happens in the thread that calls `run`.

    Args:
        text: the query as written, run in one piece where that is asked for.
        planned: its candidate plans; None (and `reason`) where it can only run as written.
        confirm: tells the arbiter that a share is kept to.
        warn: shows a line to the user.
        watch: is shown every decision.
    """

    def __init__(
        self,
        name: str,
        text: str,
        planned: Planned | None,
        reason: str | None,
        rules: Rules,
        journal: QueryJournal,
        confirm: Callable[[int], None] = lambda seq: None,
        warn: Callable[[str], None] = lambda line: None,
        watch: Callable[[Command], None] = lambda command: None,
    ) -> None:
        self._name, self._text, self._planned, self._reason = name, text, planned, reason
        self._rules, self._journal = rules, journal
        self._confirm, self._warn, self._watch = confirm, warn, watch
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wake_at: float | None = None
        self._decisions: list[Decision] = []
        self._ended: Command | None = None

    def tell(self, event: Event) -> None:
        """Take in an event."""
        self._inbox.put(event)

    def run(self, engine: StageRunner, feed: Feed) -> Outcome:
        """Run the query to its end.

        Raises:
            QueryFailedError: it has no answer.
        """
        began = time.monotonic()
        plans = self._planned.plans if self._planned else ()
        self._journal.query(time.time(), self._name, self._text, plans, self._reason)
        state = self._begin(engine)
        try:
            feed.start(self.tell)
            while self._ended is None:
                state = self._take(state, self._next(), engine)
        finally:
            feed.close()
        if isinstance(self._ended, Fail):
            raise QueryFailedError(self._ended.error)
        planned = self._planned
        return Outcome(
            tally=state.tally,
            join_trees=planned.join_trees if planned else 1,
            seconds=time.monotonic() - began,
            one_stage_reason=planned.one_stage_reason() if planned else self._reason,
            decisions=tuple(self._decisions),
        )

    def _begin(self, engine: StageRunner) -> State:
        if self._planned is None:
            nothing = Estimator(Query({}), {}, CostModel())
            reason = self._reason or "it was not planned"
            return self._take(State((), nothing, nothing, self._rules), CannotPlan(reason), engine)
        estimator = self._planned.estimator
        state = State(self._planned.plans, estimator, estimator, self._rules)
        return self._take(state, PlansMade(len(state.plans), self._planned.join_trees), engine)

    def _next(self) -> Event:
        if self._wake_at is None:
            return self._inbox.get()
        try:
            return self._inbox.get(timeout=max(self._wake_at - time.time(), 0.0))
        except queue.Empty:
            self._wake_at = None
            return TimerFired()

    def _take(self, state: State, event: Event, engine: StageRunner) -> State:
        at = time.time()
        if isinstance(event, ArbiterAway):
            self._warn(f"{event.reason}; the last known share stays")
        before = state
        try:
            state, commands = step(state, at, event)
            texts = self._texts(state, commands)
        except Exception as problem:
            if before.phase == "as written":
                raise
            # Whatever the planner stumbles over: Spark has read the query as it is written.
            reason = f"the planner failed: {type(problem).__name__}: {problem}"
            state, commands = run_as_written(before, reason)
            texts = {}
        self._journal.took(at, event, commands, state.phase)
        for command in commands:
            self._watch(command)
            self._act(command, texts, engine)
        return state

    def _texts(self, state: State, commands: tuple[Command, ...]) -> dict[Command, str]:
        """The text of each stage that is to be started."""
        if self._planned is None:
            return {}
        return {
            one: query_text(self._planned.text, state.plans[one.plan], one.stage, one.inputs)
            for one in commands
            if isinstance(one, StartStage)
        }

    def _act(self, command: Command, texts: dict[Command, str], engine: StageRunner) -> None:
        match command:
            case StartStage(stage, _, _, attempt):
                engine.start(stage, texts[command], None if stage == GOAL else view_of(stage), attempt)
            case CancelStages(stages):
                engine.cancel(stages)
            case SetExecutors(executors, _):
                self._attempt(f"{executors} executors could not be asked for", lambda: engine.set_executors(executors))
            case ConfirmVacated(seq):
                self._attempt(f"share {seq} could not be confirmed", lambda: self._confirm(seq))
            case RunAsWritten(reason):
                if self._planned is not None:
                    self._warn(f"running the query as written: {reason}")
                engine.start(GOAL, self._text, None, 0)
            case SetTimer(at):
                self._wake_at = at
            case Note(decision):
                self._decisions.append(decision)
            case Finish() | Fail():
                self._ended = command

    def _attempt(self, failed: str, act: Callable[[], None]) -> None:
        """Do what the query can do without: a failure costs time or neighbours their patience, never the answer."""
        try:
            act()
        except Exception as problem:  # noqa: BLE001 - whatever fails, the stages run on
            self._warn(f"{failed}: {type(problem).__name__}: {' '.join(str(problem).split())[:300]}")
