"""What the planner is told. Times are seconds since the epoch; `slots` are cores that tasks of the query can use."""

from dataclasses import dataclass

from qoop.plans.plan import StageId


@dataclass(frozen=True, slots=True)
class Planned:
    """Candidate plans are there, best first; how many of them, over which join trees."""

    plans: int
    join_trees: int


@dataclass(frozen=True, slots=True)
class CannotPlan:
    """The query can only run as it is written, in one piece."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShareChanged:
    """The query's share of the cluster: `slots` to plan with, `executors` to hold from `effective_at` on.

    `seq`: the arbiter's number of this share; None where a profile or a fixed share feeds the query. `reason`: the
    feed's own words; `why`: the kinds of what happened, such as "app-arrived", as far as the feed names them.
    """

    slots: float
    executors: int | None
    reason: str
    effective_at: float
    seq: int | None = None
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageFinished:
    """A stage's output is kept. `core_seconds`: the run time of its tasks, summed up; None where not measured."""

    stage: StageId
    rows: float
    bytes: float
    seconds: float
    core_seconds: float | None


@dataclass(frozen=True, slots=True)
class StageFailed:
    """A stage did not finish. `retry`: it may if it is run again, nothing is wrong with the query itself."""

    stage: StageId
    error: str
    retry: bool


@dataclass(frozen=True, slots=True)
class StageCancelled:
    """A stage was stopped because a switch asked for it."""

    stage: StageId


@dataclass(frozen=True, slots=True)
class QueryCancelled:
    """Somebody stopped the query's jobs from outside: it is not to be answered any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointLost:
    """A finished stage's output is gone, or so much of it that it is to be computed again."""

    stage: StageId
    reason: str


@dataclass(frozen=True, slots=True)
class ExecutorsChanged:
    """So many executors are there now."""

    executors: int


@dataclass(frozen=True, slots=True)
class ArbiterAway:
    """Nobody tells the share any more; the last known one stays."""

    reason: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time asked for has come."""


Event = (
    Planned
    | CannotPlan
    | ShareChanged
    | StageFinished
    | StageFailed
    | StageCancelled
    | QueryCancelled
    | CheckpointLost
    | ExecutorsChanged
    | ArbiterAway
    | TimerFired
)
