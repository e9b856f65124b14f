"""What the planner wants done; the outcome of each comes back as an event."""

from dataclasses import dataclass

from qoop.plans.plan import StageId
from qoop.replan.causes import WhyAsWritten, WhyFailed
from qoop.replan.decision import Decision


@dataclass(frozen=True, slots=True)
class StartStage:
    """Run a stage of plan number `plan`, reading the outputs of `inputs`. The goal's output is the query's result."""

    stage: StageId
    plan: int
    inputs: tuple[StageId, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class CancelStages:
    """Stop these stages."""

    stages: tuple[StageId, ...]


@dataclass(frozen=True, slots=True)
class SetExecutors:
    """Hold so many executors: ask for missing ones, decommission surplus ones. From `by` on none of these is left."""

    executors: int
    by: float


@dataclass(frozen=True, slots=True)
class ConfirmVacated:
    """Tell the arbiter that no more is held than share number `seq` gives."""

    seq: int


@dataclass(frozen=True, slots=True)
class RunAsWritten:
    """Run the query as the user wrote it, in one piece."""

    cause: WhyAsWritten


@dataclass(frozen=True, slots=True)
class Finish:
    """The result is there."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The query cannot be answered."""

    cause: WhyFailed


@dataclass(frozen=True, slots=True)
class Note:
    """For the journal and the report: what was decided, with its estimates and its cause."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire at this time; replaces any earlier timer."""

    at: float


Command = StartStage | CancelStages | SetExecutors | ConfirmVacated | RunAsWritten | Finish | Fail | Note | SetTimer
