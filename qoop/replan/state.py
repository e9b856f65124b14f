"""The immutable state of the planner between two events."""

from dataclasses import dataclass, field
from typing import Literal

from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.plans.plan import Plan, StageId
from qoop.replan.decision import Rules, StoppedStage, Straggler
from qoop.replan.events import ExecutorsChanged

Phase = Literal["planning", "running", "switching", "as written", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Running:
    """A running stage: its plan, its inputs, its work as estimated at its start, and the fraction of it done.

    `kept`: the fraction of its output that was stored already; `work` is the rest. `started_at`: when it started.
    `measured`: its tasks have been measured, so `done` is known and not only expected.
    """

    plan: int
    inputs: tuple[StageId, ...]
    work: Work
    uncertainty: float
    done: float = 0.0
    kept: float = 0.0
    started_at: float = 0.0
    measured: bool = False


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Counts over the life of a query.

    `reused`: outputs that the plan after a switch reads. `unused`: outputs that only the plan before it reads.
    """

    stages: int = 0
    switches: int = 0
    reused: int = 0
    cancelled: int = 0
    unused: int = 0
    lost: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a query had and used: seconds with a share, slots times seconds, and the run time of its finished tasks.

    `core_seconds`: None once a stage was not measured.
    """

    seconds: float = 0.0
    slot_seconds: float = 0.0
    core_seconds: float | None = 0.0

    @property
    def mean_slots(self) -> float | None:
        """The average share; None if it had none for any time."""
        return self.slot_seconds / self.seconds if self.seconds > 0 else None

    def having(self, slots: float, seconds: float) -> "Usage":
        """With a share that it had for some time."""
        return Usage(self.seconds + seconds, self.slot_seconds + slots * seconds, self.core_seconds)

    def using(self, core_seconds: float | None) -> "Usage":
        """With the tasks of a stage."""
        if self.core_seconds is None or core_seconds is None:
            return Usage(self.seconds, self.slot_seconds, None)
        return Usage(self.seconds, self.slot_seconds, self.core_seconds + core_seconds)


@dataclass(frozen=True, slots=True)
class Share:
    """The present share, from the last `ShareChanged`."""

    slots: float
    executors: int | None
    seq: int | None


@dataclass(frozen=True, slots=True)
class State:
    """The state of a query.

    `estimator`: the present estimates. `initial_estimator`: those before any measurement. `ready`: the stages whose
    output is stored, and their row counts. `executors`: the present ones, from the last `ExecutorsChanged`. `usage`:
    until the last event. `decided_slots`: the slots for which the present plan was chosen. `stragglers`: late stages
    that a switch cancelled, and stages that outgrew their estimates, until they are measured. `stopped`: cancelled
    stages that can be resumed. `awaiting_cancel`: cancelled stages that still run. `attempts`, `losses`: how often
    stages failed, and their outputs were lost. `confirmed`: the last share that was confirmed to the arbiter.
    `progress_at`: when the progress of running stages was last updated. `started_at`: when the first stage started.
    `timer_at`: when running stages are compared with their estimates next. `held_until`: until then the present plan
    stays: `HELD_FACTOR` times what its earlier runs took.
    """

    plans: tuple[Plan, ...]
    estimator: Estimator
    initial_estimator: Estimator
    rules: Rules
    phase: Phase = "planning"
    current: int | None = None
    share: Share | None = None
    decided_slots: float | None = None
    executors: ExecutorsChanged | None = None
    confirmed: int | None = None
    ready: dict[StageId, float] = field(default_factory=dict)
    running: dict[StageId, Running] = field(default_factory=dict)
    stragglers: dict[StageId, Straggler] = field(default_factory=dict)
    stopped: dict[StageId, StoppedStage] = field(default_factory=dict)
    awaiting_cancel: frozenset[StageId] = frozenset()
    attempts: dict[StageId, int] = field(default_factory=dict)
    losses: dict[StageId, int] = field(default_factory=dict)
    progress_at: float = 0.0
    started_at: float | None = None
    timer_at: float | None = None
    held_until: float = 0.0
    counts: QueryCounts = field(default_factory=QueryCounts)
    usage: Usage = field(default_factory=Usage)

    @property
    def slots(self) -> float:
        """The slots to plan with, once there is a share: those of the share, and no more than the executors have."""
        assert self.share is not None
        live = self.executors.slots if self.executors is not None else None
        # Without executors nothing is known about how many there will be.
        return min(self.share.slots, live) if live else self.share.slots
