"""What an agent decides with: the parts of an application's file that matter to its decisions."""

from dataclasses import dataclass
from typing import Literal

from yarn_plugin.model.gpus import Speeds

DEFAULT_STEP_S = 1.0
"""Seconds of a step on one GPU, until it is measured, if nobody knows better."""


VIOLATED = 1e300
"""The loss with which a trial competes that violates a constraint: worse than any other. Journals hold no infinity."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A metric that a trial must keep at most (`is_upper`) or at least at a limit."""

    metric: str
    limit: float
    is_upper: bool

    def holds(self, value: float) -> bool:
        """Whether it does with this value."""
        return value <= self.limit if self.is_upper else value >= self.limit

    def __str__(self) -> str:
        return f"{self.metric} {'<=' if self.is_upper else '>='} {self.limit:g}"


RULES: Literal[3] = 3
"""By which searches decide that begin now."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A search: see docs/training.md. `step_s`: expected seconds of a step on one GPU of speed 1; None: unknown.
    `trial_timeout_s`: a trial that has trained for so long, over all its starts, goes no further.

    `rules`: by which it decides, so that journals of earlier versions replay as they were written. 1, of earlier
    versions: Hyperband's first trials are those with the fewest steps; of the trials 0 to 9, five failures stop a
    search; curve stopping looks at possible curves alone; what is no number is ignored after the end of a rung. 2: the
    first trials, which may be enqueued, have the most steps; the first ten that end count; curve stopping looks at
    trends too; what is no number fails a trial whenever it comes. 3: bids are for no more GPUs than trials would use,
    and others are given back (see `leasing`).

    `by_trial`: each trial is a job of its own at the arbiter, and each lease is for one trial: of a GPU, or of a slot
    of cores.

    `ready_steps`, `quantile`: of a population, the steps of a generation, and the part of it that is replaced at the
    end of each.
    """

    algorithm: Literal["hyperband", "successive_halving", "asha", "curve_stopping", "population", "plain"]
    trials: int
    max_steps: int
    eta: int = 3
    patience: int = 0
    maximize: bool = False
    target: float | None = None
    max_time_s: float | None = None
    retries: int = 1
    min_gpus: int = 1
    max_gpus: int = 1
    step_gpus: int = 1
    step_s: float | None = None
    grace_s: float = 30.0
    speeds: Speeds = ()
    constraints: tuple[Constraint, ...] = ()
    trial_timeout_s: float | None = None
    rules: Literal[1, 2, 3] = 1
    by_trial: bool = False
    ready_steps: int = 1
    quantile: float = 0.25
