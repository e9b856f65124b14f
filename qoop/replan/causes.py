"""Why the planner decided something, as values. `qoop.run.wording` makes sentences of them, for people only.

Each cause has a `kind` that names it in journals, whatever its class is called. Texts in a cause are what somebody
outside the planner said (Spark, the feed of the share); the planner writes none itself.
"""

from dataclasses import dataclass
from typing import Literal

from qoop.plans.plan import StageId


@dataclass(frozen=True, slots=True)
class PlansMade:
    """The candidate plans are there: so many, over so many join trees."""

    plans: int
    join_trees: int
    kind: Literal["plans-made"] = "plans-made"


@dataclass(frozen=True, slots=True)
class NewShare:
    """The slots changed; `before` is None for the first share.

    `said`: the feed's own words; `why`: the kinds of what happened, as in `ShareChanged`.
    """

    before: float | None
    slots: float
    said: str
    why: tuple[str, ...] = ()
    kind: Literal["new-share"] = "new-share"


@dataclass(frozen=True, slots=True)
class FinishedStage:
    """A stage finished. `joins`: the aliases of the relations that it joins; empty where it is a block's result."""

    stage: StageId
    joins: tuple[str, ...]
    kind: Literal["finished-stage"] = "finished-stage"


@dataclass(frozen=True, slots=True)
class FailedStage:
    """A stage failed and is not tried again as it was. `joins` as in `FinishedStage`; `error`: Spark's own words."""

    stage: StageId
    joins: tuple[str, ...]
    error: str
    kind: Literal["failed-stage"] = "failed-stage"


@dataclass(frozen=True, slots=True)
class LostOutput:
    """The output of a finished stage is gone. `joins` as in `FinishedStage`; `said`: how that was seen."""

    stage: StageId
    joins: tuple[str, ...]
    said: str
    kind: Literal["lost-output"] = "lost-output"


@dataclass(frozen=True, slots=True)
class StagesChecked:
    """Nothing happened: running stages were compared with their estimates."""

    kind: Literal["stages-checked"] = "stages-checked"


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """The query has no plans; `said`: why, in the parser's words."""

    said: str
    kind: Literal["not-planned"] = "not-planned"


@dataclass(frozen=True, slots=True)
class PlannerFailed:
    """The planner itself raised an exception of class `error`, which said `said`."""

    error: str
    said: str
    kind: Literal["planner-failed"] = "planner-failed"


@dataclass(frozen=True, slots=True)
class Retried:
    """The query as written failed in a way that may pass, and is run once more: attempt number `attempt`, from 0."""

    error: str
    attempt: int
    kind: Literal["retried"] = "retried"


@dataclass(frozen=True, slots=True)
class Stopped:
    """Somebody stopped the query from outside."""

    said: str
    kind: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True)
class Said:
    """A cause of which only the sentence is known, from a journal written before causes were values."""

    text: str
    kind: Literal["said"] = "said"


WhyDecided = PlansMade | NewShare | FinishedStage | LostOutput | StagesChecked | Said
"""Why the candidates were compared."""

WhyAsWritten = NotPlanned | FailedStage | PlannerFailed | Retried | Said
"""Why the query is run as written."""

WhyFailed = FailedStage | Stopped | Said
"""Why there is no answer."""

Cause = WhyDecided | WhyAsWritten | WhyFailed
