"""What the planner knows between two events. Immutable."""

from dataclasses import dataclass, field
from typing import Literal

from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.plans.plan import Plan, StageId
from qoop.replan.decision import Rules, Straggler

Phase = Literal["planning", "running", "switching", "as written", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Running:
    """A stage that runs: of which plan, reading what, its work as estimated at its start, the fraction done since."""

    plan: int
    inputs: tuple[StageId, ...]
    work: Work
    uncertainty: float
    done: float = 0.0


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """What happened over the query's life."""

    stages: int = 0
    switches: int = 0
    reused: int = 0
    cancelled: int = 0
    unused: int = 0
    lost: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """The present share, as `ShareChanged` told it."""

    slots: float
    executors: int | None
    seq: int | None


@dataclass(frozen=True, slots=True)
class State:
    """A query on its way.

    `plans` and `estimator` as known now; `prior`: the estimates before anything was measured. `ready`: the stages whose
    output is kept, with their row counts. `decided_slots`: those for which the present plan was chosen.
    `stragglers`: what is thought of stages that were late when a switch stopped them, until they are counted.
    `awaiting_cancel`: stages that were told to stop and have not yet. `confirmed`: the last share that the arbiter
    was told is kept to. `credited_at`: until when the work of running stages has been counted. `began_at`: when the
    first stage was started. `wake_at`: when running stages are to be looked at again.
    """

    plans: tuple[Plan, ...]
    estimator: Estimator
    prior: Estimator
    rules: Rules
    phase: Phase = "planning"
    current: int | None = None
    share: Share | None = None
    decided_slots: float | None = None
    executors: int | None = None
    confirmed: int | None = None
    ready: dict[StageId, float] = field(default_factory=dict)
    running: dict[StageId, Running] = field(default_factory=dict)
    stragglers: dict[StageId, Straggler] = field(default_factory=dict)
    awaiting_cancel: frozenset[StageId] = frozenset()
    attempts: dict[StageId, int] = field(default_factory=dict)
    credited_at: float = 0.0
    began_at: float | None = None
    wake_at: float | None = None
    counts: QueryCounts = field(default_factory=QueryCounts)
