"""The commands of the planner; the outcome of each comes back as an event."""

from dataclasses import dataclass

from qoop.plans.plan import StageId
from qoop.replan.causes import WhyAsWritten, WhyFailed
from qoop.replan.decision import Decision


@dataclass(frozen=True, slots=True)
class StartStage:
    """Run a stage of plan number `plan` that reads the outputs of `inputs`.

    `kept`: the fraction of its output that is stored since it was cancelled; such a stage runs as it did then.
    """

    stage: StageId
    plan: int
    inputs: tuple[StageId, ...]
    attempt: int
    kept: float = 0.0


@dataclass(frozen=True, slots=True)
class CancelStages:
    """Cancel these stages."""

    stages: tuple[StageId, ...]


@dataclass(frozen=True, slots=True)
class SetExecutors:
    """Set the number of executors: request missing ones, decommission surplus ones, which must have gone at `by`."""

    executors: int
    by: float


@dataclass(frozen=True, slots=True)
class ConfirmVacated:
    """Confirm to the arbiter that the query is within share number `seq`."""

    seq: int


@dataclass(frozen=True, slots=True)
class RunAsWritten:
    """Run the query as the user wrote it, as a single stage."""

    cause: WhyAsWritten


@dataclass(frozen=True, slots=True)
class Finish:
    """The result is complete."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The query has failed."""

    cause: WhyFailed


@dataclass(frozen=True, slots=True)
class Note:
    """Record a decision, with its estimates and its cause, for the journal and the report."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire a timer at this time; replaces the previous one."""

    at: float


Command = StartStage | CancelStages | SetExecutors | ConfirmVacated | RunAsWritten | Finish | Fail | Note | SetTimer
