"""Training applications: what a workload of GPU jobs consists of. Plain values without files or time."""

from dataclasses import dataclass, field
from typing import Literal

from yarn_plugin.model.gpus import Slowdown, Speeds
from yarn_plugin.model.loss import Loss

SearchKind = Literal["plain", "successive_halving", "curve_stopping"]
"""How an application stops its jobs early (thesis, section 3.4.3.2). `plain`: each job runs all of its iterations."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training job (trial).

    `iterations`: until it ends if nothing stops it. `iteration_s`: seconds of one iteration on one GPU; n GPUs that
    span nothing need 1/n of it. `min_gpus`, `max_gpus`, `step_gpus`: it can use min, min + step, min + 2 step, ... up
    to max. `model`: of its network, for reports. `speeds`: on models of GPUs.
    """

    id: str
    iterations: float
    iteration_s: float
    min_gpus: int = 1
    max_gpus: int = 1
    step_gpus: int = 1
    slowdown: Slowdown = field(default_factory=Slowdown)
    loss: Loss | None = None
    model: str = ""
    speeds: Speeds = ()

    @property
    def work_s(self) -> float:
        """GPU seconds of all its iterations without slowdown."""
        return self.iterations * self.iteration_s


@dataclass(frozen=True, slots=True)
class TrainingApp:
    """An application: jobs that belong together. It finishes with the last of them.

    `arrival_s`: seconds. `phases`: with `successive_halving`, how many iterations each job of a phase runs. After a
    phase the half (rounded down) with the lowest loss goes on, ties by id, and the others are stopped; the last phase
    ends them all. `doubling`: with every phase the GPUs that a job can use double, so that a search can use as many in
    its last phase as in its first (Themis, thesis, section 3.4.3.2). With `curve_stopping`, a job is stopped when its
    loss falls by less than `min_gain` of its first value within a tenth of its iterations.
    """

    name: str
    arrival_s: float
    jobs: tuple[TrainingJob, ...]
    search: SearchKind = "plain"
    phases: tuple[float, ...] = ()
    min_gain: float = 0.0
    user: str = "user"
    weight: float = 1.0
    doubling: bool = False

    def growth(self, phase: int) -> int:
        """By what factor the GPUs that a job can use have grown in a phase."""
        return 1 << phase if self.doubling else 1


@dataclass(frozen=True, slots=True)
class TrainingWorkload:
    """Applications in order of arrival. `notes`: for a person, what was taken or ignored when they were read."""

    apps: tuple[TrainingApp, ...]
    notes: tuple[str, ...] = ()


def ordered(apps: list[TrainingApp]) -> tuple[TrainingApp, ...]:
    """Applications in order of arrival, ties by name."""
    return tuple(sorted(apps, key=lambda app: (app.arrival_s, app.name)))
