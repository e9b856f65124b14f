"""Performance-curve stopping: a trial whose curve cannot catch up with the best one is stopped.

Themis, thesis section 3.4.3.2; Golovin et al., "Google Vizier", KDD 2017, section 3.1; Rasley et al., "HyperDrive",
Middleware 2017. A trial is stopped if even the most optimistic of its possible curves, less two standard errors, and
its latest trend end above the best loss that any trial has had. The best trial so far at an iteration is not stopped
there: it may be compared with one that has ended.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from themis_agent.search.curves import possible_curves, trend
from themis_agent.search.trials import Decision, Failed, Progress, Report, Trial
from themis_agent.search.work import Bracket, Work
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus

STANDARD_ERRORS = 2.0

MAX_FRONTIER = 512
"""Points of the best losses by iteration; of more, every other one is dropped."""

Frontier = tuple[tuple[float, float], ...]
"""(iteration, loss): the best loss that any trial has had by then, where it improves."""


@dataclass(frozen=True, slots=True)
class CurveStopping:
    """Trials side by side. `trials`: those that run. `budget_gpu_s`, `max_gpus`: see `Work`.

    `target`: a trial that has reached this loss is complete; None: a trial ends with its last iteration. `patience`:
    a trial is stopped only after so many iterations. `best`: the best loss that any trial has had; None: none yet.
    `frontier`: the same by iteration; None: not looked at, nor are trends, as by searches of earlier versions.
    """

    trials: tuple[Progress, ...]
    budget_gpu_s: float
    max_gpus: int
    target: float | None = None
    patience: float = 0.0
    best: float | None = None
    frontier: Frontier | None = None

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        return not self.trials

    def work(self) -> Work:
        """One phase: each trial until the latest iteration at which it may end."""
        jobs = tuple(one.job(self._latest_end(one)) for one in self.trials)
        return Work((Bracket(jobs),) if jobs else (), self.budget_gpu_s, self.max_gpus)

    def take(self, report: Report | Failed) -> tuple["CurveStopping", tuple[Decision, ...]]:
        """The search after a report. The trial that reported may end; a new best loss may stop others."""
        found = next((one for one in self.trials if one.trial.id == report.trial), None)
        if found is None:
            return self, ()
        others = [one for one in self.trials if one is not found]
        if isinstance(report, Failed):
            return replace(self, trials=tuple(others)), ()
        found = found.reported(report)
        best = self.best if math.isinf(found.loss) else found.loss if self.best is None else min(self.best, found.loss)
        frontier = None if self.frontier is None else _improved(self.frontier, report.iteration, found.loss)
        after = replace(self, best=best, frontier=frontier)
        decisions = []
        if self._is_complete(found):
            decisions.append(Decision(report.trial, "complete"))
            candidates = others
        else:
            candidates = [found if one.trial.id == report.trial else one for one in self.trials]
        hopeless = {
            one.trial.id for one in candidates if (best != self.best or one is found) and after._is_hopeless(one)
        }
        decisions += [Decision(trial, "stop") for trial in sorted(hopeless)]
        kept = tuple(one for one in candidates if one.trial.id not in hopeless)
        return replace(after, trials=kept), tuple(decisions)

    def retry(self, failed: Sequence[Trial]) -> "CurveStopping":
        """The search in which trials that have failed run again."""
        return replace(self, trials=(*self.trials, *map(Progress, failed)))

    def allocate(self, allocation: Mapping[str, Gpus]) -> "CurveStopping":
        """The search whose trials run on these GPUs."""
        return replace(self, trials=tuple(replace(one, held=allocation.get(one.trial.id, ())) for one in self.trials))

    def _is_complete(self, one: Progress) -> bool:
        return one.iteration >= one.trial.iterations or (self.target is not None and one.loss <= self.target)

    def _is_hopeless(self, one: Progress) -> bool:
        if one.iteration < self.patience or self.best is None:
            return False
        last = one.trial.iterations
        ends = [curve.loss(last) - STANDARD_ERRORS * curve.error for curve in possible_curves(one.losses)]
        if ends and self.frontier is not None:
            if one.loss <= _best_by(self.frontier, one.iteration):
                return False
            ends.append(trend(one.losses).loss(last))
        return bool(ends) and min(ends) > self.best

    def _latest_end(self, one: Progress) -> float:
        """The latest iteration at which a possible curve reaches the target, at most the last one of the trial.

        The estimate errs on the long side, so that T_sh is not too small (thesis, section 3.4.3.2); it gets more
        accurate as the trial progresses.
        """
        last = one.trial.iterations
        if self.target is None:
            return last
        ends = [curve.reaches(self.target) for curve in possible_curves(one.losses)]
        # Whoever has not reached it by now has at least one iteration left.
        return min(max([*ends, one.iteration + 1.0]), last) if ends else last


def _best_by(frontier: Frontier, iteration: float) -> float:
    """The best loss that any trial has had by an iteration."""
    before = bisect_right(frontier, iteration, key=lambda point: point[0])
    return frontier[before - 1][1] if before else math.inf


def _improved(frontier: Frontier, iteration: float, loss: float) -> Frontier:
    """The best losses by iteration with another one."""
    if loss >= _best_by(frontier, iteration):
        return frontier
    before = [point for point in frontier if point[0] < iteration]
    after = [point for point in frontier if point[0] > iteration and point[1] < loss]
    points = [*before, (iteration, loss), *after]
    if len(points) > MAX_FRONTIER:
        del points[-2::-2]
    return tuple(points)


def curve_stopping(trials: Sequence[Trial], target: float | None = None, patience: float = 0.0) -> CurveStopping:
    """A search that starts with these trials; the budget is that of all of them to their last iteration.

    Raises:
        BadInputError: no trials, two with the same id, or one without an end.
    """
    if not trials or len({trial.id for trial in trials}) < len(trials):
        raise BadInputError("trials", sorted(trial.id for trial in trials), "at least one, each with an id of its own")
    if endless := [trial.id for trial in trials if not 0 < trial.iterations < math.inf]:
        raise BadInputError("iterations", endless[0], "the trial needs a number of iterations above 0")
    budget = sum(trial.iterations * trial.iteration_s for trial in trials)
    most = sum(trial.max_gpus for trial in trials)
    return CurveStopping(tuple(Progress(trial) for trial in trials), budget, most, target, patience, frontier=())
