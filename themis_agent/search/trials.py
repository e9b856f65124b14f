"""Trials: what is known of them, what they report, and what a search decides about them."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from yarn_plugin.model.gpus import Gpus, Job, Slowdown, Speeds

KEPT_LOSSES = 64
"""How many of a trial's latest losses are kept."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A training job with one choice of hyperparameters.

    `iteration_s`: seconds of one iteration on one GPU. `iterations`: to its end, if it is not stopped; the phases of
    successive halving have their own. It can use `min_gpus`, `min_gpus + step_gpus`, ... up to `max_gpus`. `speeds`:
    as those of a `Job`.
    """

    id: str
    iteration_s: float
    iterations: float = math.inf
    min_gpus: int = 1
    max_gpus: int = 1
    step_gpus: int = 1
    slowdown: Slowdown = field(default_factory=Slowdown)
    speeds: Speeds = ()


@dataclass(frozen=True, slots=True)
class Report:
    """How far a trial is. `loss`: None if it has not been measured; NaN and infinity are worse than any number.

    `attained_gpu_s`: GPU seconds that it has had so far. `iteration_s`, `slowdown`: as measured (seconds of one
    iteration on one GPU); None: as before. A trial that restarts from a checkpoint may report an earlier iteration
    than before.
    """

    trial: str
    iteration: float
    loss: float | None = None
    attained_gpu_s: float = 0.0
    iteration_s: float | None = None
    slowdown: Slowdown | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A trial ended with an error and will not report again."""

    trial: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """How a trial compared with the others at the end of a phase: it was number `place`, from 1, of `trials` by `loss`.

    `kept`: how many went on; `bar`: the loss of the last of these. None: of a trial that has reported no number.
    """

    phase: int
    place: int
    trials: int
    loss: float | None
    kept: int
    bar: float | None


@dataclass(frozen=True, slots=True)
class Decision:
    """`stop`: end it and release its GPUs. `promote`: train it on, until iteration `until`. `complete`: it has reached
    its end. `begin`: a new trial goes on from the checkpoint of its `parent`. A trial without a decision goes on; one
    that has reached the end of its phase waits. `ranking`: why, if trials were compared."""

    trial: str
    kind: Literal["stop", "promote", "complete", "begin"]
    until: float = 0.0
    ranking: Ranking | None = field(default=None, compare=False)
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """A trial and how far it is. `losses`: (iteration, loss), oldest first. `held`: the GPUs that it runs on."""

    trial: Trial
    iteration: float = 0.0
    losses: tuple[tuple[float, float], ...] = ()
    attained_gpu_s: float = 0.0
    held: Gpus = ()
    failed: bool = False

    @property
    def loss(self) -> float:
        """The latest loss; infinite without one, and if it is not a number."""
        latest = self.losses[-1][1] if self.losses else math.inf
        return math.inf if self.failed or math.isnan(latest) else latest

    def reported(self, report: Report) -> "Progress":
        """With this report."""
        losses = self.losses
        if report.loss is not None:
            before = tuple(one for one in losses if one[0] < report.iteration)
            losses = (*before, (report.iteration, report.loss))[-KEPT_LOSSES:]
        trial = self.trial if report.iteration_s is None else replace(self.trial, iteration_s=report.iteration_s)
        trial = trial if report.slowdown is None else replace(trial, slowdown=report.slowdown)
        return replace(
            self, trial=trial, iteration=report.iteration, losses=losses, attained_gpu_s=report.attained_gpu_s
        )

    def job(self, until: float, max_gpus: int | None = None) -> Job:
        """The job that trains it until an iteration; `max_gpus`: instead of the trial's own."""
        most = self.trial.max_gpus if max_gpus is None else max(max_gpus, self.trial.min_gpus)
        return Job(
            self.trial.id,
            0.0 if self.failed else max(until - self.iteration, 0.0),
            self.trial.iteration_s,
            iterations_done=self.iteration,
            min_gpus=self.trial.min_gpus,
            max_gpus=most,
            step_gpus=self.trial.step_gpus,
            slowdown=self.trial.slowdown,
            attained_gpu_s=self.attained_gpu_s,
            losses=self.losses,
            held=self.held,
            speeds=self.trial.speeds,
        )
