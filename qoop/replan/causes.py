"""The causes of decisions, as values; `qoop.run.wording` renders them for people.

`kind` names a cause in journals, independent of its class name. Texts in a cause come from outside the planner, such as
Spark's error messages; the planner writes none itself.
"""

from dataclasses import dataclass
from typing import Literal

from qoop.as_written.causes import AsWrittenCause, UntypedCause
from qoop.plans.plan import StageId


@dataclass(frozen=True, slots=True)
class PlansMade:
    """The candidate plans are ready: their number, and that of their join trees."""

    plans: int
    join_trees: int
    kind: Literal["plans-made"] = "plans-made"


@dataclass(frozen=True, slots=True)
class NewShare:
    """The slots changed; `before` is None for the first share.

    `said`: the feed's message. `why`: the kinds of its causes, as in `ShareChanged`.
    """

    before: float | None
    slots: float
    said: str
    why: tuple[str, ...] = ()
    kind: Literal["new-share"] = "new-share"


@dataclass(frozen=True, slots=True)
class NewExecutors:
    """The executors changed so that the query has other slots than before, within its share."""

    before: float
    slots: float
    kind: Literal["new-executors"] = "new-executors"


@dataclass(frozen=True, slots=True)
class FinishedStage:
    """A stage finished. `joins`: the aliases of the relations that it joins; empty for a block's result."""

    stage: StageId
    joins: tuple[str, ...]
    kind: Literal["finished-stage"] = "finished-stage"


@dataclass(frozen=True, slots=True)
class OutgrownStage:
    """A running stage has far more rows than were expected. `joins`: as in `FinishedStage`. `rows`: those of its whole
    output, if the rest is like what is stored."""

    stage: StageId
    joins: tuple[str, ...]
    rows: float
    expected: float
    kind: Literal["outgrown-stage"] = "outgrown-stage"


@dataclass(frozen=True, slots=True)
class FailedStage:
    """A stage failed and is not retried. `joins`: as in `FinishedStage`. `error`: Spark's message."""

    stage: StageId
    joins: tuple[str, ...]
    error: str
    kind: Literal["failed-stage"] = "failed-stage"


@dataclass(frozen=True, slots=True)
class LostOutput:
    """The output of a finished stage was lost. `joins`: as in `FinishedStage`. `said`: how the loss was detected."""

    stage: StageId
    joins: tuple[str, ...]
    said: str
    kind: Literal["lost-output"] = "lost-output"


@dataclass(frozen=True, slots=True)
class StagesChecked:
    """Running stages were compared with their estimates."""

    kind: Literal["stages-checked"] = "stages-checked"


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """None of the query's plans is run, or none any longer. `cause`: why."""

    cause: AsWrittenCause
    kind: Literal["not-planned"] = "not-planned"


@dataclass(frozen=True, slots=True)
class PlannerFailed:
    """The planner raised an exception. `error`: its class. `said`: its message."""

    error: str
    said: str
    kind: Literal["planner-failed"] = "planner-failed"


@dataclass(frozen=True, slots=True)
class Retried:
    """The query as written failed for a transient reason and is retried. `attempt`: attempt number, from 0."""

    error: str
    attempt: int
    kind: Literal["retried"] = "retried"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The query was cancelled from outside."""

    said: str
    kind: Literal["stopped"] = "stopped"


WhyDecided = (
    PlansMade | NewShare | NewExecutors | FinishedStage | OutgrownStage | LostOutput | StagesChecked | UntypedCause
)
"""Why the candidate plans were compared."""

WhyAsWritten = NotPlanned | FailedStage | PlannerFailed | Retried | UntypedCause
"""Why the query runs as written."""

WhyFailed = FailedStage | Stopped | UntypedCause
"""Why the query failed."""

Cause = WhyDecided | WhyAsWritten | WhyFailed
