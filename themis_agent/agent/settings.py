"""What an agent decides with: the parts of an application's file that matter to its decisions."""

from dataclasses import dataclass
from typing import Literal

from yarn_plugin.model.gpus import Speeds

DEFAULT_STEP_S = 1.0
"""Seconds of a step on one GPU, until it is measured, if nobody knows better."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A search: see docs/training.md. `step_s`: expected seconds of a step on one GPU of speed 1; None: unknown."""

    algorithm: Literal["hyperband", "successive_halving", "curve_stopping", "plain"]
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
