"""A query's journal read back: the attempts of each stage, shares, decisions and losses with their times."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from qoop.as_written.causes import AsWrittenCause
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
    """The file is missing or not a query journal."""


class JoinNode(BaseModel):
    """A join in a candidate plan; `stage`: the view with its output, if it is a stage of its own."""

    join: "tuple[JoinNode | str, ...]"
    stage: str | None = None


class CandidatePlan(BaseModel):
    """A candidate plan: the join tree of each block, and for each stage's view the views that it reads.

    `as_written`: it is the query as written; the trees are those of the text.
    """

    trees: dict[str, JoinNode | str]
    stages: dict[str, tuple[str, ...]]
    as_written: bool = False


class QueryHeader(BaseModel):
    """The first record of a journal."""

    at: float
    name: str
    text: str
    plans: tuple[CandidatePlan, ...]
    cause: AsWrittenCause | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a stage; `plan` is None for the query as written, `ended` is None if its end is not recorded."""

    stage: StageId
    plan: int | None
    inputs: tuple[StageId, ...]
    number: int
    started: float
    ended: float | None = None
    outcome: Literal["finished", "cancelled", "failed", "unfinished"] = "unfinished"
    result: StageFinished | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class TimedDecision:
    """A decision with its time and the event that caused it."""

    at: float
    event: Event
    decision: Decision

    @property
    def first(self) -> bool:
        """Whether it chose the first plan."""
        return self.decision.before is None


@dataclass(slots=True)
class QueryRecord:
    """What happened to a query. Times are seconds since the epoch; lists are in the order of time.

    `target_executors`: numbers that were requested; `running_executors`: numbers that were registered, where they can
    change; `live_slots`: the slots that those have.
    """

    header: QueryHeader
    started: float
    ended: float
    status: Literal["done", "failed", "unfinished"] = "unfinished"
    error: str = ""
    join_trees: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    decisions: list[TimedDecision] = field(default_factory=list)
    shares: list[tuple[float, ShareChanged]] = field(default_factory=list)
    target_executors: list[tuple[float, int]] = field(default_factory=list)
    running_executors: list[tuple[float, int]] = field(default_factory=list)
    live_slots: list[tuple[float, float]] = field(default_factory=list)
    losses: list[tuple[float, CheckpointLost]] = field(default_factory=list)
    arbiter_losses: list[tuple[float, str]] = field(default_factory=list)
    as_written: list[tuple[float, WhyAsWritten]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Seconds from the plans to the end."""
        return self.ended - self.started

    @property
    def switches(self) -> list[TimedDecision]:
        """The decisions that changed the plan."""
        return [timed for timed in self.decisions if timed.decision.switched]

    @property
    def plans_used(self) -> list[int]:
        """The plans that the query used, in the order of their first use."""
        return list(dict.fromkeys(timed.decision.plan for timed in self.decisions))


def read_journal(path: Path) -> QueryRecord:
    """Read the journal of one query.

    Raises:
        NoRecordError: the file is missing or not a query journal.
        QoopError: the file cannot be read, or was written by a newer version.
    """
    if not path.is_file():
        raise NoRecordError(f"journal {str(path)!r}: no such file")
    try:
        return record_from_lines(journal.read(path))
    except (ValidationError, KeyError, ValueError, TypeError):
        raise NoRecordError(f"journal {str(path)!r}: not a query journal") from None


def record_from_lines(lines: Sequence[dict[str, Any]]) -> QueryRecord:
    """The record of the last query in the lines of a journal."""
    first = max(place for place, line in enumerate(lines) if line["kind"] == "query")
    lines = lines[first:]
    header = QueryHeader.model_validate(lines[0])
    record = QueryRecord(header, started=header.at, ended=header.at)
    event: Event | None = None
    for line in lines[1:]:
        record.ended = at = float(line["at"])
        if line["kind"] == "input":
            event = CODEC.read(line["event"])
            _apply_event(record, at, event)
        elif event is not None:
            for command in line["commands"]:
                _apply_command(record, at, event, CODEC.read(command))
    return record


def _apply_event(record: QueryRecord, at: float, event: Event) -> None:
    match event:
        case Planned(_, join_trees):
            record.join_trees = join_trees
        case ShareChanged():
            record.shares.append((at, event))
        case ExecutorsChanged(executors, slots, may_grow):
            if may_grow:
                record.running_executors.append((at, executors))
            if slots is not None:
                record.live_slots.append((at, slots))
        case StageFinished(stage):
            _end(record, stage, ended=at, outcome="finished", result=event)
        case StageCancelled(stage):
            _end(record, stage, ended=at, outcome="cancelled")
        case StageFailed(stage, error):
            _end(record, stage, ended=at, outcome="failed", error=error)
        case CheckpointLost():
            record.losses.append((at, event))
        case ArbiterAway(reason):
            record.arbiter_losses.append((at, reason))


def _apply_command(record: QueryRecord, at: float, event: Event, command: Command) -> None:
    match command:
        case Note(decision):
            record.decisions.append(TimedDecision(at, event, decision))
        case StartStage(stage, plan, inputs):
            _start(record, stage, plan, inputs, at)
        case RunAsWritten(cause):
            record.as_written.append((at, cause))
            _start(record, RESULT, None, (), at)
        case SetExecutors(executors):
            record.target_executors.append((at, executors))
        case CancelStages(stages):
            for stage in stages:
                _end(record, stage, outcome="cancelled")
        case Finish():
            record.status = "done"
        case Fail(cause):
            record.status, record.error = "failed", wording.error_message(cause)


def _start(record: QueryRecord, stage: StageId, plan: int | None, inputs: tuple[StageId, ...], at: float) -> None:
    number = 1 + sum(attempt.stage == stage for attempt in record.attempts)
    record.attempts.append(Attempt(stage, plan, inputs, number, at))


def _end(record: QueryRecord, stage: StageId, **changes: Any) -> None:
    """Change the last attempt of a stage that has not ended, if there is one."""
    for place in range(len(record.attempts) - 1, -1, -1):
        attempt = record.attempts[place]
        if attempt.stage == stage and attempt.ended is None:
            record.attempts[place] = replace(attempt, **changes)
            return
