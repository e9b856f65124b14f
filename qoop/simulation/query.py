"""A query in virtual time: the live planner and state machine, on stages whose true sizes the planner does not know."""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from qoop.errors import QoopError
from qoop.estimate.cost import CostModel
from qoop.estimate.packing import completion_time
from qoop.estimate.statistics import ColumnStatistics, TableStatistics
from qoop.parsing.spark_sql import Types
from qoop.parsing.statement import parse_statement
from qoop.planner import PlannedQuery, plan
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import (
    CancelStages,
    Command,
    ConfirmVacated,
    Fail,
    Finish,
    RunAsWritten,
    SetExecutors,
    SetTimer,
    StartStage,
)
from qoop.replan.decision import Rules
from qoop.replan.events import Event, ExecutorsChanged, Planned, ShareChanged, StageCancelled, TimerFired
from qoop.replan.machine import step
from qoop.replan.state import State
from qoop.run.wording import why
from qoop.simulation.stages import Stages, true_sizes
from yarn_plugin.errors import BadInputError
from yarn_plugin.simulation.application import (
    Application,
    Container,
    ContainersChanged,
    Finished,
    MessageReceived,
    Notification,
    Request,
    SetContainers,
    ShareUpdated,
    Started,
    Vacated,
    WakeUpAt,
    WokenUp,
)

MAX_PROFILE_POINTS = 10_000
"""Points of a random profile; after the last one the share is constant."""


class Volatility(BaseModel):
    """A random share, drawn from the seed: `levels` (slots) in random order, each for an exponentially distributed time
    with mean `mean_s`. `first`: the first level; by default one of the levels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    levels: tuple[Annotated[float, Field(ge=1, le=1e6)], ...] = Field(min_length=2)
    mean_s: float = Field(gt=0, le=1e6)
    first: float | None = Field(default=None, ge=1, le=1e6)


class QueryParameters(BaseModel):
    """The parameters of a simulated query in a workload file.

    `query`: its SQL text. `tables`: for each table `rows`, and the number of distinct values of each column.
    `row_error`: scales the error of the estimates; 1: as large as the planner's own uncertainty. `feedback`: the
    planner is notified of every share change; otherwise only of the first share, as stock Spark plans once.
    `replanning`: it may switch plans. `profile` (pairs of seconds since its start, slots) or `volatility`: its share,
    instead of the arbiter's. `max_containers`: the most containers that it requests.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str = Field(min_length=1)
    tables: dict[str, dict[str, float]] = Field(min_length=1)
    row_error: float = Field(default=1.0, ge=0, le=10)
    feedback: bool = True
    replanning: bool = True
    hysteresis: float = Field(default=0.15, ge=0, le=1)
    candidates: int = Field(default=24, ge=1, le=64)
    profile: tuple[tuple[float, float], ...] | None = None
    volatility: Volatility | None = None
    max_containers: int | None = Field(default=None, ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, table in self.tables.items():
            if table.get("rows", 0) < 1:
                raise ValueError(f"tables.{name}.rows: must be a number, at least 1")
        if self.profile is not None and self.volatility is not None:
            raise ValueError("profile, volatility: give only one; each of them sets the share")
        if self.profile is not None:
            self._check(self.profile)
        return self

    @staticmethod
    def _check(profile: tuple[tuple[float, float], ...]) -> None:
        times = [at for at, _ in profile]
        if not times or times[0] != 0 or times != sorted(set(times)):
            raise ValueError("profile: must be pairs of seconds and slots, with seconds ascending from 0")
        if any(slots <= 0 for _, slots in profile):
            raise ValueError("profile: slots must be above 0")


class QueryKind:
    """The application kind `qoop`."""

    parameters = QueryParameters

    def application(self, parameters: QueryParameters, container: Container, seed: str) -> Application:
        """A query with these parameters.

        True row counts and a random share follow from the seed alone, so they are the same with and without feedback.

        Raises:
            BadInputError: the query cannot be planned.
        """
        return SimulatedQuery(parameters, container, seed)


class SimulatedQuery:
    """A running query: the live state machine, on stages that the held slots process in virtual time."""

    def __init__(self, parameters: QueryParameters, container: Container, seed: str) -> None:
        self._parameters, self._slots_each = parameters, max(container.vcores, 1)
        planned = _planned(parameters.query, _frozen(parameters.tables))
        self._plans = planned.plans[: parameters.candidates]
        self._true = true_sizes(planned.estimator, self._plans, parameters.row_error, Random(f"{seed}/rows"))
        self._profile = _profile(parameters, Random(f"{seed}/share"))
        self._profile_index = 0
        rules = Rules(hysteresis=parameters.hysteresis if parameters.replanning else float("inf"))
        self._state = State(self._plans, planned.estimator, planned.estimator, rules)
        self._join_trees = planned.join_trees
        self._stages = Stages()
        self._timer: float | None = None
        self._started_at = 0.0
        self._share: ShareUpdated | None = None
        self._notified = self._started = self._ended = False
        self._cancelled: list[Event] = []

    @property
    def max_containers(self) -> int | None:
        """The most containers that it can use; 0 if its share comes from a profile."""
        return 0 if self._profile else self._parameters.max_containers

    def isolated_runtime(self, containers: int) -> float:
        """Seconds that its fastest plan takes with `containers` containers, or with its profile's largest share."""
        slots = max(slots for _, slots in self._profile) if self._profile else float(containers * self._slots_each)
        return min(completion_time(self._true.tasks(each), max(slots, 1.0)) for each in self._plans)

    def handle(self, at: float, notification: Notification) -> Sequence[Request]:
        """Handle a notification; returns the requests that follow from it."""
        if self._ended:
            return ()
        requests: list[Request] = []
        self._finish_stages(at, requests)
        match notification:
            case Started() if not self._started:
                self._started, self._started_at = True, at
                self._step(at, Planned(len(self._plans), self._join_trees), requests)
                self._apply_share(at, requests)
            case ShareUpdated():
                self._share = notification
                if self._started:
                    self._apply_share(at, requests)
            case ContainersChanged(held, _):
                self._stages.slots = float(held * self._slots_each)
                if self._parameters.feedback:
                    self._step(at, ExecutorsChanged(held, float(held * self._slots_each)), requests)
            case Started() | WokenUp() | MessageReceived():
                pass
        if self._started and not self._ended:
            self._continue(at, requests)
        return requests

    def _continue(self, at: float, requests: list[Request]) -> None:
        """Apply due changes of the profile and the planner's timer, and request to be woken at the next one."""
        while (changes_at := self._changes_at()) is not None and changes_at <= at + 1e-9:
            self._profile_index += 1
            self._apply_share(at, requests)
        if self._timer is not None and self._timer <= at + 1e-9:
            self._timer = None
            self._step(at, TimerFired(), requests)
        if self._ended:
            return
        times = (self._stages.next_at(), self._timer, self._changes_at())
        if due := [time for time in times if time is not None]:
            requests.append(WakeUpAt(max(min(due), at)))

    def _changes_at(self) -> float | None:
        """When the profile changes the share next; None: never."""
        following = self._profile_index + 1
        return self._started_at + self._profile[following][0] if following < len(self._profile) else None

    def _apply_share(self, at: float, requests: list[Request]) -> None:
        """Adjust to a new share, and notify the planner if it is to know of it."""
        is_notified = self._parameters.feedback or not self._notified
        if self._profile:
            slots = self._profile[self._profile_index][1]
            self._stages.slots = slots
            if is_notified:
                self._notified = True
                self._step(at, _share_changed(slots, None, at, None), requests)
        elif self._share is not None:
            share, limit = self._share, self._parameters.max_containers
            held = max(share.entitled if limit is None else min(share.entitled, limit), 1)
            requests.append(SetContainers(held))
            self._stages.slots = min(self._stages.slots, float(held * self._slots_each))
            if is_notified:
                self._notified = True
                slots = float(max(share.guaranteed, 1) * self._slots_each)
                self._step(at, _share_changed(slots, held, share.effective_at, share.seq), requests)
            if not self._parameters.feedback and share.shrinks:
                requests.append(Vacated(share.seq))

    def _finish_stages(self, at: float, requests: list[Request]) -> None:
        """Advance stages to now, and notify the planner of those that have finished."""
        for finished in self._stages.work_until(at, self._true):
            if not self._ended:
                self._step(at, finished, requests)

    def _step(self, at: float, event: Event, requests: list[Request]) -> None:
        self._state, commands = step(self._state, at, event)
        for command in commands:
            self._carry_out(at, command, requests)
        while self._cancelled:
            self._step(at, self._cancelled.pop(0), requests)

    def _carry_out(self, at: float, command: Command, requests: list[Request]) -> None:
        match command:
            case StartStage(stage, number, inputs, _):
                self._stages.start(at, stage, self._true.work(self._plans[number], stage, frozenset(inputs)))
            case CancelStages(stages):
                self._stages.stop(stages)
                self._cancelled += [StageCancelled(stage) for stage in stages]
            case SetTimer(due):
                self._timer = due
            case ConfirmVacated(seq) if self._share is not None and self._share.shrinks and seq == self._share.seq:
                requests.append(Vacated(seq))
            case SetExecutors() | ConfirmVacated():
                # The number of containers follows from the share: see `_apply_share`.
                pass
            case Finish():
                self._ended = True
                requests.append(Finished(self._figures()))
            case Fail(cause) | RunAsWritten(cause):
                # Simulated stages do not fail, so the planner did.
                raise QoopError(f"the planner failed on a simulated query: {why(cause)}")

    def _figures(self) -> Mapping[str, float]:
        counts = self._state.counts
        return {"switches": float(counts.switches), "stages": float(counts.stages), "stopped": float(counts.cancelled)}


def _share_changed(slots: float, executors: int | None, effective_at: float, seq: int | None) -> ShareChanged:
    return ShareChanged(slots, executors, f"{slots:g} slots", effective_at, seq)


def _profile(parameters: QueryParameters, random: Random) -> tuple[tuple[float, float], ...]:
    """The share over time, if it does not come from the arbiter; else empty."""
    if parameters.profile is not None:
        return parameters.profile
    drawn = parameters.volatility
    if drawn is None:
        return ()
    points, at, level = list[tuple[float, float]](), 0.0, drawn.first or random.choice(drawn.levels)
    while len(points) < MAX_PROFILE_POINTS:
        points.append((at, level))
        at += random.expovariate(1.0 / drawn.mean_s)
        level = random.choice([other for other in drawn.levels if other != level] or drawn.levels)
    return tuple(points)


Tables = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""Tables of a workload file, hashable: names, each with pairs of `rows` or a column and a number."""


def _frozen(tables: Mapping[str, Mapping[str, float]]) -> Tables:
    return tuple((name, tuple(table.items())) for name, table in tables.items())


class _Catalogue:
    """The tables of a workload file, as a catalogue for the planner."""

    def __init__(self, tables: Tables) -> None:
        self._tables = {name: dict(columns) for name, columns in tables}

    def columns(self, table: str) -> Types | None:
        """The columns that are listed, all of type int."""
        found = self._tables.get(table)
        return None if found is None else {name: "int" for name in found if name != "rows"}

    def statistics(self, table: str) -> TableStatistics:
        """Row counts and distinct values of columns."""
        found = self._tables[table]
        columns = {name: ColumnStatistics(max(float(one), 1.0)) for name, one in found.items() if name != "rows"}
        return TableStatistics(found["rows"], found["rows"] * 8.0 * max(len(columns), 1), columns)


@cache
def _planned(text: str, tables: Tables) -> PlannedQuery:
    """The plans of a query, cached for equal queries.

    Raises:
        BadInputError: the query cannot be planned.
    """
    known = _Catalogue(tables)
    try:
        return plan(parse_statement(text), known, known.statistics, CutPolicy(), CostModel())
    except QoopError as problem:
        raise BadInputError(
            "query", " ".join(text.split())[:60], f"must be a query that joins tables; {problem}"
        ) from None


KIND = QueryKind()
