"""Asynchronous successive halving (ASHA): a trial is promoted once it is among the best of those seen in its rung.

Li, Jamieson, Rostamizadeh, Gonina, Ben-Tzur, Hardt, Recht and Talwalkar, "A system for massively parallel
hyperparameter tuning", MLSys 2020, algorithm 2. No trial waits for the slowest of its rung, and some are promoted that
successive halving would stop.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from themis_agent.search.halving import rungs, survivors
from themis_agent.search.trials import Decision, Failed, Progress, Ranking, Report, Trial
from themis_agent.search.work import Bracket, Phase, Work
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus

Result = tuple[str, float]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Asha:
    """`trials`: those that train or wait for a promotion; `places`: the rung of each. `ends`: the iteration at which
    each rung ends. `results`: of each rung but the last, (trial, loss) of those that have reached its end. `promoted`:
    of each rung, those that have left it upwards. `completed`: how many have reached the last end. `budget_gpu_s`,
    `max_gpus`: see `Work`."""

    trials: tuple[Progress, ...]
    places: tuple[int, ...]
    ends: tuple[float, ...]
    eta: int
    budget_gpu_s: float
    max_gpus: int
    results: tuple[tuple[Result, ...], ...]
    promoted: tuple[tuple[str, ...], ...]
    completed: int = 0

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        return not self.trials

    def work(self) -> Work:
        """The jobs of all rungs, side by side, and the promotions that are still to come."""
        jobs = tuple(one.job(self.ends[place]) for one, place in zip(self.trials, self.places, strict=True))
        begun = len(self.trials) + self.completed
        counts = survivors(begun, len(self.ends), self.eta)
        phases = []
        for place in range(1, len(self.ends)):
            left = counts[place] - len(self.promoted[place - 1])
            if left > 0:
                phases.append(Phase(left, self.ends[place] - self.ends[place - 1], self.max_gpus))
        return Work((Bracket(jobs, tuple(phases)),) if jobs else (), self.budget_gpu_s, self.max_gpus * begun)

    def take(self, report: Report | Failed) -> tuple["Asha", tuple[Decision, ...]]:
        """The search after a report. Whoever reaches the end of a rung may promote itself and others of it."""
        position = next((number for number, one in enumerate(self.trials) if one.trial.id == report.trial), None)
        if position is None:
            return self, ()
        place = self.places[position]
        if isinstance(report, Failed):
            return self._without(report.trial)._settled(())
        if self._waits(report.trial, place):
            return self, ()
        after = self.trials[position].reported(report)
        search = replace(self, trials=(*self.trials[:position], after, *self.trials[position + 1 :]))
        if after.iteration < self.ends[place]:
            return search, ()
        if place + 1 == len(self.ends):
            done = replace(search._without(report.trial), completed=self.completed + 1)
            return done._settled((Decision(report.trial, "complete"),))
        results = (*self.results[place], (report.trial, after.loss))
        search = replace(search, results=_with(self.results, place, results))
        return search._settled(())

    def retry(self, failed: Sequence[Trial]) -> "Asha":
        """The search in which trials that have failed run again, from the first rung."""
        ids = {trial.id for trial in failed}
        return replace(
            self,
            trials=(*self.trials, *map(Progress, failed)),
            places=(*self.places, *(0 for _ in failed)),
            results=tuple(tuple(one for one in rung if one[0] not in ids) for rung in self.results),
            promoted=tuple(tuple(one for one in rung if one not in ids) for rung in self.promoted),
        )

    def allocate(self, allocation: Mapping[str, Gpus]) -> "Asha":
        """The search whose trials run on these GPUs."""
        return replace(self, trials=tuple(replace(one, held=allocation.get(one.trial.id, ())) for one in self.trials))

    def _waits(self, trial: str, place: int) -> bool:
        return place < len(self.results) and any(one == trial for one, _ in self.results[place])

    def _without(self, trial: str) -> "Asha":
        kept = [pair for pair in zip(self.trials, self.places, strict=True) if pair[0].trial.id != trial]
        return replace(self, trials=tuple(one for one, _ in kept), places=tuple(place for _, place in kept))

    def _settled(self, decisions: tuple[Decision, ...]) -> tuple["Asha", tuple[Decision, ...]]:
        """The search after all promotions that are due; when nothing trains any more, the trials that wait stop."""
        search = self
        for place in reversed(range(len(self.results))):
            best = search._ranked(place)[: len(search.results[place]) // self.eta]
            for trial, _ in best:
                if trial not in search.promoted[place]:
                    search, decision = search._promote(trial, place)
                    decisions += (decision,)
        waiting = [
            (one.trial.id, place)
            for one, place in zip(search.trials, search.places, strict=True)
            if search._waits(one.trial.id, place)
        ]
        if len(waiting) < len(search.trials):
            return search, decisions
        if waiting and not search.completed:
            # Failures have left too few for a promotion: the best of the highest rung goes on.
            top = max(place for _, place in waiting)
            trial = next(name for name, _ in search._ranked(top) if (name, top) in waiting)
            search, decision = search._promote(trial, top)
            return search, (*decisions, decision)
        stops = tuple(Decision(trial, "stop", ranking=search._ranking(trial, place)) for trial, place in waiting)
        return replace(search, trials=(), places=()), (*decisions, *stops)

    def _promote(self, trial: str, place: int) -> tuple["Asha", Decision]:
        places = tuple(
            at + 1 if one.trial.id == trial else at for one, at in zip(self.trials, self.places, strict=True)
        )
        promoted = _with(self.promoted, place, (*self.promoted[place], trial))
        decision = Decision(trial, "promote", self.ends[place + 1], self._ranking(trial, place))
        return replace(self, places=places, promoted=promoted), decision

    def _ranked(self, place: int) -> list[Result]:
        """The results of a rung, the best first; those of trials that have failed since count, but go nowhere."""
        alive = {one.trial.id for one in self.trials} | set(self.promoted[place])
        return sorted((one for one in self.results[place] if one[0] in alive), key=lambda one: (one[1], one[0]))

    def _ranking(self, trial: str, place: int) -> Ranking:
        ranked = self._ranked(place)
        number = [name for name, _ in ranked].index(trial) + 1
        losses = [loss if math.isfinite(loss) else None for _, loss in ranked]
        kept = max(len(ranked) // self.eta, 1)
        return Ranking(place, number, len(ranked), losses[number - 1], kept, losses[kept - 1])


def _with(items: tuple[Item, ...], place: int, item: Item) -> tuple[Item, ...]:
    return (*items[:place], item, *items[place + 1 :])


def asha(trials: Sequence[Trial], max_iterations: float, eta: int = 3) -> Asha:
    """A search that starts with these trials, with the rungs that successive halving has.

    Raises:
        BadInputError: no trials, or two with the same id.
    """
    if not trials or len({trial.id for trial in trials}) < len(trials):
        raise BadInputError("trials", sorted(trial.id for trial in trials), "at least one, each with an id of its own")
    ends = rungs(len(trials), max_iterations, eta)
    counts = survivors(len(trials), len(ends), eta)
    median = sorted(trial.iteration_s for trial in trials)[len(trials) // 2]
    added = [end - before for end, before in zip(ends, (0.0, *ends), strict=False)]
    budget = added[0] * sum(trial.iteration_s for trial in trials)
    budget += sum(count * each * median for count, each in zip(counts[1:], added[1:], strict=True))
    empty: tuple[tuple[Result, ...], ...] = ((),) * (len(ends) - 1)
    nobody: tuple[tuple[str, ...], ...] = ((),) * (len(ends) - 1)
    most = max(trial.max_gpus for trial in trials)
    progress = tuple(map(Progress, trials))
    return Asha(progress, (0,) * len(trials), ends, eta, budget, most, empty, nobody)
