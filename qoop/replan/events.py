"""The events of the planner. Times are seconds since the epoch; `slots` are places for the query's tasks."""

from dataclasses import dataclass

from qoop.as_written.causes import AsWrittenCause
from qoop.plans.plan import StageId


@dataclass(frozen=True, slots=True)
class Planned:
    """The candidate plans are ready: their number, and that of their join trees."""

    plans: int
    join_trees: int


@dataclass(frozen=True, slots=True)
class CannotPlan:
    """The query can only run as written, as a single stage; its plans, if any have started, are given up."""

    cause: AsWrittenCause


@dataclass(frozen=True, slots=True)
class ShareChanged:
    """The query's share: `slots` to plan with, and `executors`, to be reached by `effective_at`.

    `seq`: the arbiter's number of the share; None if it comes from a profile or is fixed. `reason`: the feed's message.
    `why`: the kinds of its causes, such as "app-arrived", if the feed names them.
    """

    slots: float
    executors: int | None
    reason: str
    effective_at: float
    seq: int | None = None
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageFinished:
    """A stage finished and its output is stored.

    `core_seconds`: total run time of its tasks. `computing_seconds`: the time in which at least one of them ran or
    waited for a slot. Both None if not measured.
    """

    stage: StageId
    rows: float
    bytes: float
    seconds: float
    core_seconds: float | None
    computing_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StageGrew:
    """A running stage has stored this fraction of its output's partitions, with so many rows. Told as rows grow."""

    stage: StageId
    rows: float
    finished: float


@dataclass(frozen=True, slots=True)
class TasksRan:
    """How long the tasks of running stages have run until now, summed up for each stage, in core seconds."""

    stages: tuple[tuple[StageId, float], ...]


@dataclass(frozen=True, slots=True)
class StageFailed:
    """A stage failed. `retry`: the cause is outside the query, so a retry may succeed.

    `of_plan`: it was a plan's stage, not the query as written. `final`: it may have stored rows, so nothing may
    be tried again.
    """

    stage: StageId
    error: str
    retry: bool
    of_plan: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class StageCancelled:
    """A stage was cancelled: by a switch, to free memory, or as the query runs as written from now on.

    `kept`: the fraction of its output's partitions that are stored; it can be resumed. `core_seconds`: the run time of
    the tasks that computed its output in this attempt, without those that only prepared it; None if not measured.
    """

    stage: StageId
    kept: float = 0.0
    core_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class QueryCancelled:
    """The query's jobs were cancelled from outside, or its time is over."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointLost:
    """The output of a finished stage is lost, or so much of it that it must be recomputed; or a cancelled stage's."""

    stage: StageId
    reason: str


@dataclass(frozen=True, slots=True)
class ExecutorsChanged:
    """The executors changed: their number, and how many tasks they can run at the same time.

    `slots`: without those of executors that are leaving; None if it is not known. `may_grow`: there may be more of them
    later, as there are not in local mode.
    """

    executors: int
    slots: float | None = None
    may_grow: bool = True


@dataclass(frozen=True, slots=True)
class ArbiterAway:
    """The arbiter cannot be reached; the last known share stays in force."""

    reason: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The timer fired."""


Event = (
    Planned
    | CannotPlan
    | ShareChanged
    | StageFinished
    | StageGrew
    | TasksRan
    | StageFailed
    | StageCancelled
    | QueryCancelled
    | CheckpointLost
    | ExecutorsChanged
    | ArbiterAway
    | TimerFired
)
