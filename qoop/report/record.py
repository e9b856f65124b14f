"""The journal of a query, read back into what happened to each stage and what was decided when."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from qoop.errors import QoopError
from qoop.plans.plan import RESULT, StageId
from qoop.replan.causes import WhyAsWritten
from qoop.replan.commands import CancelStages, Command, Fail, Finish, Note, RunAsWritten, SetExecutors, StartStage
from qoop.replan.decision import Decision
from qoop.replan.events import (
    ArbiterAway,
    CheckpointLost,
    Event,
    ExecutorsChanged,
    Planned,
    ShareChanged,
    StageCancelled,
    StageFailed,
    StageFinished,
)
from qoop.run import journal, wording
from yarn_plugin.journal.codec import Codec

CODEC = Codec(journal.TAGS)


class NoRecordError(QoopError):
    """The file is not the record of a query."""


class JoinOf(BaseModel):
    """A join in a candidate plan; `stage`: the view that holds its output, where it is a stage of its own."""

    join: "tuple[JoinOf | str, ...]"
    stage: str | None = None


class CandidatePlan(BaseModel):
    """A candidate plan: the join tree of each block, and for each stage, by view, the stages that it reads."""

    trees: dict[str, JoinOf | str]
    stages: dict[str, tuple[str, ...]]


class Opening(BaseModel):
    """The first line of a journal."""

    at: float
    name: str
    text: str
    plans: tuple[CandidatePlan, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a stage; `plan` is None for the query as written. `ended`: None while nothing was heard of it."""

    stage: StageId
    plan: int | None
    inputs: tuple[StageId, ...]
    number: int
    began: float
    ended: float | None = None
    outcome: Literal["finished", "cancelled", "failed", "unfinished"] = "unfinished"
    result: StageFinished | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, when it was made, and on which event."""

    at: float
    event: Event
    decision: Decision

    @property
    def first(self) -> bool:
        """Whether no plan was in force before."""
        return self.decision.before is None


@dataclass(slots=True)
class QueryRecord:
    """What happened to a query. Times are seconds since the epoch; lists are in the order of time."""

    opening: Opening
    began: float
    ended: float
    status: Literal["done", "failed", "unfinished"] = "unfinished"
    error: str = ""
    join_trees: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    shares: list[tuple[float, ShareChanged]] = field(default_factory=list)
    wanted: list[tuple[float, int]] = field(default_factory=list)
    present: list[tuple[float, int]] = field(default_factory=list)
    losses: list[tuple[float, CheckpointLost]] = field(default_factory=list)
    away: list[tuple[float, str]] = field(default_factory=list)
    as_written: list[tuple[float, WhyAsWritten]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the plans to the result."""
        return self.ended - self.began

    @property
    def switches(self) -> list[Decided]:
        """The decisions that changed the plan."""
        return [made for made in self.decisions if made.decision.switched]

    @property
    def plans_in_force(self) -> list[int]:
        """The plans that the query followed, in the order of their first time."""
        return list(dict.fromkeys(made.decision.plan for made in self.decisions))


def read(path: Path) -> QueryRecord:
    """Read the journal of one query.

    Raises:
        NoRecordError: there is no such file, or it is not the record of a query.
        QoopError: it cannot be read, or a newer version wrote it.
    """
    if not path.is_file():
        raise NoRecordError(f"journal {str(path)!r}: no such file")
    try:
        return of_lines(journal.read(path))
    except (ValidationError, KeyError, ValueError, TypeError):
        raise NoRecordError(f"journal {str(path)!r}: is not the record of a query") from None


def of_lines(lines: Sequence[dict[str, Any]]) -> QueryRecord:
    """What the lines of a journal tell; of the last query, where it was written by several."""
    first = max(place for place, line in enumerate(lines) if line["kind"] == "query")
    lines = lines[first:]
    opening = Opening.model_validate(lines[0])
    record = QueryRecord(opening, began=opening.at, ended=opening.at)
    event: Event | None = None
    for line in lines[1:]:
        record.ended = at = float(line["at"])
        if line["kind"] == "input":
            event = CODEC.read(line["event"])
            _learn(record, at, event)
        elif event is not None:
            for command in line["commands"]:
                _follow(record, at, event, CODEC.read(command))
    return record


def _learn(record: QueryRecord, at: float, event: Event) -> None:
    match event:
        case Planned(_, join_trees):
            record.join_trees = join_trees
        case ShareChanged():
            record.shares.append((at, event))
        case ExecutorsChanged(executors):
            record.present.append((at, executors))
        case StageFinished(stage):
            _end(record, stage, ended=at, outcome="finished", result=event)
        case StageCancelled(stage):
            _end(record, stage, ended=at, outcome="cancelled")
        case StageFailed(stage, error):
            _end(record, stage, ended=at, outcome="failed", error=error)
        case CheckpointLost():
            record.losses.append((at, event))
        case ArbiterAway(reason):
            record.away.append((at, reason))


def _follow(record: QueryRecord, at: float, event: Event, command: Command) -> None:
    match command:
        case Note(decision):
            record.decisions.append(Decided(at, event, decision))
        case StartStage(stage, plan, inputs):
            _start(record, stage, plan, inputs, at)
        case RunAsWritten(cause):
            record.as_written.append((at, cause))
            _start(record, RESULT, None, (), at)
        case SetExecutors(executors):
            record.wanted.append((at, executors))
        case CancelStages(stages):
            for stage in stages:
                _end(record, stage, outcome="cancelled")
        case Finish():
            record.status = "done"
        case Fail(cause):
            record.status, record.error = "failed", wording.error(cause)


def _start(record: QueryRecord, stage: StageId, plan: int | None, inputs: tuple[StageId, ...], at: float) -> None:
    number = 1 + sum(attempt.stage == stage for attempt in record.attempts)
    record.attempts.append(Attempt(stage, plan, inputs, number, at))


def _end(record: QueryRecord, stage: StageId, **changes: Any) -> None:
    """Change the last run of a stage that has not ended; a stage of which nothing is known is left out."""
    for place in range(len(record.attempts) - 1, -1, -1):
        attempt = record.attempts[place]
        if attempt.stage == stage and attempt.ended is None:
            record.attempts[place] = replace(attempt, **changes)
            return
