"""One query from its plans to its result: a loop that takes events in order, decides, and carries out commands."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Protocol

from qoop.as_written.causes import AsWrittenCause, NotFaster
from qoop.as_written.wording import text
from qoop.errors import QueryFailedError
from qoop.estimate.cost import CostModel
from qoop.estimate.estimator import Estimator
from qoop.parsing.render import plan_query, stage_query
from qoop.planner import PlannedQuery
from qoop.plans.plan import RESULT, Plan, Query, StageId, StageName, view_name
from qoop.replan.causes import FailedStage, NotPlanned, PlannerFailed
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
from qoop.replan.completion import Completion, expected_completion
from qoop.replan.decision import Decision, Rules
from qoop.replan.events import ArbiterAway, CannotPlan, Event, Planned, TimerFired
from qoop.replan.machine import likely_starts, restart_as_written, run_as_written, step
from qoop.replan.state import QueryCounts, State, Usage
from qoop.run import wording
from qoop.run.journal import QueryJournal
from yarn_plugin.errors import describe
from yarn_plugin.journal.best_effort import BestEffort
from yarn_plugin.journal.clock import Clock, JournalClock
from yarn_plugin.journal.intake import Decided, Inbox, Intake, StateMachine
from yarn_plugin.quantities import count


class StageRunner(Protocol):
    """Runs stages. Outcomes arrive as events; methods return immediately, but `start` may run a whole query before."""

    def start(self, stage: StageId, query: str, view: str | None) -> None:
        """Run a stage's query and store its output as `view`; None: it is the result."""
        ...

    def prepare(self, query: str) -> None:
        """Prepare for a stage's query that is likely to start next, while others run."""
        ...

    def check_plan(self, text: Callable[[], str]) -> None:
        """Check that a plan computes the query as written; `text` writes the plan as one text, in any thread."""
        ...

    def cancel(self, stages: tuple[StageId, ...]) -> None:
        """Cancel stages."""
        ...

    def set_executors(self, target: int, by: float) -> None:
        """Set the number of executors; surplus ones have until `by` (seconds since the epoch) to migrate their data."""
        ...


class Feed(Protocol):
    """A source of shares."""

    def start(self, emit: Callable[[Event], None]) -> None:
        """Emit the current share, then every change."""
        ...

    def close(self) -> None:
        """Emit no more shares."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a query was run, apart from its result.

    `cause`: why it ran in one stage, if it never had another choice or none that was worth it; else None.
    `as_written`: nothing ran but the query as written. `usage`: of slots and cores. `stage_rows`: how many rows
    each stage had whose output was stored, in this run or in an earlier one that it knew of. `given_up`: in the end it
    was run as written, as its latest plan failed, stored too much, or could not be shown to compute the query.
    `stopped_planning`: it was, for that or any other reason.
    """

    counts: QueryCounts
    join_trees: int
    seconds: float
    cause: AsWrittenCause | None
    decisions: tuple[Decision, ...]
    as_written: bool = True
    usage: Usage = field(default_factory=Usage)
    stage_rows: Mapping[StageName, float] = field(default_factory=dict)
    given_up: bool = False
    stopped_planning: bool = False

    @property
    def one_stage_reason(self) -> str | None:
        """Why the query ran in one stage, in words."""
        return text(self.cause) if self.cause is not None else None


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a statement with several queries, one run after the other."""
    numbers = [asdict(one.counts) for one in outcomes]
    return Outcome(
        counts=QueryCounts(**{name: sum(one[name] for one in numbers) for name in numbers[0]}),
        join_trees=sum(one.join_trees for one in outcomes),
        seconds=sum(one.seconds for one in outcomes),
        cause=next((one.cause for one in outcomes if one.cause is not None), None),
        decisions=tuple(decision for one in outcomes for decision in one.decisions),
        as_written=all(one.as_written for one in outcomes),
        given_up=any(one.given_up for one in outcomes),
        stopped_planning=any(one.stopped_planning for one in outcomes),
    )


class QueryRun:
    """Runs one query. `send` may be called from any thread; all else happens in the thread that calls `run`.

    Args:
        text: the query as written.
        planned: its candidate plans; None if it can only run as written, for the given `cause`.
        cause: otherwise why it is tried as written, if it is.
        confirm: tells the arbiter that the query holds no more than a share, by its number.
        expect: tells the arbiter after each decision when the query is expected to finish.
        warn: prints a line for the user.
        watch: called with every event, and then with the commands that follow from it.
        clock: the query's time; by default one that cannot be set.
    """

    def __init__(
        self,
        name: str,
        text: str,
        planned: PlannedQuery | None,
        cause: AsWrittenCause | None,
        rules: Rules,
        journal: QueryJournal,
        confirm: Callable[[int], None] = lambda seq: None,
        warn: Callable[[str], None] = lambda line: None,
        watch: Callable[[Event | Command], None] = lambda told: None,
        clock: Clock | None = None,
        expect: Callable[[Completion], None] = lambda completion: None,
    ) -> None:
        self._name, self._text, self._planned, self._cause = name, text, planned, cause
        self._journal, self._confirm, self._warn, self._watch = journal, confirm, warn, watch
        self._expect = expect
        machine: StateMachine[State, Event, Command] = StateMachine(
            self._step, _first_state(planned, rules), _next_timer, TimerFired
        )
        policy = BestEffort(journal, self._give_up_planning)
        self._intake = Intake(machine, policy, clock or JournalClock())
        self._inbox: Inbox[Event] = Inbox(self._intake.stamp)
        self._texts: dict[Command, str] = {}
        self._checked: set[int] = set()
        self._to_check: list[Plan] = []
        self._decisions: list[Decision] = []
        self._started = self._first_at = 0.0
        self._end: Command | None = None
        self._gave_up = self._stopped_planning = False
        self._latest: Event | None = None

    def send(self, event: Event) -> None:
        """Put an event into the inbox."""
        self._inbox.put(event)

    def run(self, engine: StageRunner, feed: Feed) -> Outcome:
        """Run the query to its end.

        Raises:
            QueryFailedError: the query has failed.
        """
        self._started = time.monotonic()
        plans = self._planned.plans if self._planned else ()
        cause = self._cause if self._planned is None else None
        self._journal.query(self._intake.stamp(), self._name, self._text, plans, cause)
        try:
            feed.start(self.send)
            # It may run the whole query, so the share must have arrived.
            self._take(self._intake.stamp(), self._first_event(), engine)
            while self._end is None:
                self._take_next(engine)
        finally:
            self._try("could not stop asking for the share", feed.close)
        if isinstance(self._end, Fail):
            raise QueryFailedError(wording.error_message(self._end.cause))
        return self.outcome()

    def outcome(self) -> Outcome:
        """How the query has been run until now, or to its end."""
        planned = self._planned
        return Outcome(
            counts=self._intake.state.counts,
            join_trees=planned.join_trees if planned else 1,
            seconds=time.monotonic() - self._started,
            cause=self._one_stage_cause(),
            decisions=tuple(self._decisions),
            as_written=planned is None or self._ran_as_written(),
            usage=self._intake.state.usage,
            stage_rows=self._stage_rows(),
            given_up=self._gave_up,
            stopped_planning=self._stopped_planning,
        )

    def _stage_rows(self) -> dict[StageName, float]:
        estimator = self._intake.state.estimator
        return {estimator.query.name_of(stage): rows for stage, rows in estimator.counted.items()}

    def _one_stage_cause(self) -> AsWrittenCause | None:
        """Why the query ran in one stage, if it never had another choice or none that was worth it."""
        if self._planned is None:
            return self._cause
        if self._ran_as_written():
            return self._cause or NotFaster()
        return self._planned.one_stage_cause()

    def _ran_as_written(self) -> bool:
        """Whether no other plan was chosen at any time."""
        plans = self._planned.plans if self._planned else ()
        return bool(self._decisions) and all(plans[decision.plan].as_written for decision in self._decisions)

    def _first_event(self) -> Event:
        if self._planned is None:
            return CannotPlan(self._cause or NotFaster())
        return Planned(len(self._planned.plans), self._planned.join_trees)

    def _take_next(self, engine: StageRunner) -> None:
        """Take the next event, or fire the timer if none arrives before it is due."""
        due = self._intake.next_due()
        arrived = self._inbox.get(None if due is None else max(due - self._intake.now(), 0.0))
        if arrived is not None:
            self._take(*arrived, engine)
        elif (now := self._inbox.quiet_until()) is not None:
            for decided in self._intake.fire_due(now):
                self._carry_out(decided, engine)

    def _take(self, at: float, event: Event, engine: StageRunner) -> None:
        for decided in self._intake.take_in_order(event, at):
            self._carry_out(decided, engine)

    def _step(self, state: State, seq: int, at: float, event: Event) -> tuple[State, tuple[Command, ...]]:
        """Decide, and render the SQL of the stages to start: if that fails, the decision fails."""
        self._latest = event
        state, commands = step(state, at, event)
        self._texts = self._render(state, commands)
        return state, commands

    def _give_up_planning(self, state: State, problem: Exception) -> tuple[State, tuple[Command, ...]]:
        """Run the query as written after a failure of the planner: Spark has accepted it."""
        if state.phase == "as written":
            raise problem
        self._texts = {}
        cause = PlannerFailed(type(problem).__name__, str(problem))
        # The state does not know yet that the last stage has ended, if that was the event.
        has_ended = getattr(self._latest, "stage", None) == RESULT
        return (restart_as_written if has_ended else run_as_written)(state, cause)

    def _carry_out(self, decided: Decided[Event, Command], engine: StageRunner) -> None:
        if isinstance(decided.event, ArbiterAway):
            self._warn(f"{decided.event.reason}; the last known share stays in effect")
        self._try("could not show what has happened", partial(self._watch, decided.event))
        while self._to_check and self._planned is not None:
            engine.check_plan(partial(plan_query, self._planned.text, self._to_check.pop()))
        for command in decided.commands:
            self._try("could not show what the planner does", partial(self._watch, command))
            self._act(command, engine)
            if isinstance(command, Note):
                self._report(command.decision, decided.at)
        if any(isinstance(command, StartStage) for command in decided.commands):
            self._try("could not prepare for the next stages", lambda: self._prepare(engine))

    def _prepare(self, engine: StageRunner) -> None:
        """Let the engine prepare for what starts next if the plan stays; if it does not, that was in vain."""
        state, planned = self._intake.state, self._planned
        if planned is not None:
            for start in likely_starts(state):
                engine.prepare(stage_query(planned.text, state.plans[start.plan], start.stage, start.inputs))

    def _render(self, state: State, commands: tuple[Command, ...]) -> dict[Command, str]:
        """The SQL text of each stage to start."""
        if self._planned is None:
            return {}
        planned, starting = self._planned.text, [one for one in commands if isinstance(one, StartStage)]
        new = {one.plan for one in starting if not state.plans[one.plan].as_written} - self._checked
        self._checked |= new
        self._to_check += [state.plans[plan] for plan in new]
        return {
            one: self._text
            if state.plans[one.plan].as_written
            else stage_query(planned, state.plans[one.plan], one.stage, one.inputs)
            for one in starting
        }

    def _act(self, command: Command, engine: StageRunner) -> None:
        match command:
            case StartStage(stage):
                engine.start(stage, self._texts[command], None if stage == RESULT else view_name(stage))
            case CancelStages(stages):
                engine.cancel(stages)
            case SetExecutors(executors, by):
                failed = f"could not request {count(executors, 'executor')}"
                self._try(failed, lambda: engine.set_executors(executors, by))
            case ConfirmVacated(seq):
                failed = (
                    f"could not report to the arbiter that the containers over share {seq} are released; it waits "
                    "until the grace period ends"
                )
                self._try(failed, lambda: self._confirm(seq))
            case RunAsWritten(cause):
                if self._planned is not None:
                    self._stopped_planning = True
                    self._gave_up |= isinstance(cause, NotPlanned | FailedStage)
                    self._warn(f"replanning stopped, running the query as written: {wording.why(cause)}")
                engine.start(RESULT, self._text, None)
            case SetTimer():
                pass
            case Note(decision):
                self._decisions.append(decision)
            case Finish() | Fail():
                self._end = command

    def _report(self, latest: Decision, at: float) -> None:
        first = self._decisions[0]
        if latest is first:
            self._first_at = at
        completion = expected_completion(first, self._first_at, latest, at)
        self._try("could not report the expected completion", lambda: self._expect(completion))

    def _try(self, failed: str, act: Callable[[], None]) -> None:
        """Do something that the query does not depend on: a failure is only reported."""
        try:
            act()
        except Exception as problem:  # noqa: BLE001 - the stages continue
            self._warn(f"{failed}: {describe(problem)}")


def _first_state(planned: PlannedQuery | None, rules: Rules) -> State:
    if planned is None:
        nothing = Estimator(Query({}), {}, CostModel())
        return State((), nothing, nothing, rules)
    return State(planned.plans, planned.estimator, planned.estimator, rules)


def _next_timer(state: State) -> float | None:
    return state.timer_at
