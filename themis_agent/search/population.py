"""Population-based training: at the end of each generation the worst trials give way to variants of the best.

Jaderberg et al., "Population Based Training of Neural Networks", 2017, sections 3 and 4.1. Here the population is
compared when all of it has trained `ready` more iterations, so that it may be larger than the GPUs that it has. By
truncation selection (appendix A.1.1), each of the worst ends, and a new trial begins at the checkpoint of one of the
best, with its hyperparameters perturbed: the worst is replaced from the best, the second worst from the second best,
and so on. So the same losses lead to the same trials.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from themis_agent.search.trials import Decision, Failed, Progress, Ranking, Report, Trial
from themis_agent.search.work import Bracket, Phase, Work
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus


@dataclass(frozen=True, slots=True)
class Population:
    """`trials`: of the present generation, `phase`. `ready`: iterations of a generation; the last one ends at
    `max_iterations`. `replaced`: how many trials are at the end of each other one. `new`: the trials that may still
    begin, in order. `budget_gpu_s`: see `Work`."""

    trials: tuple[Progress, ...]
    new: tuple[Trial, ...]
    ready: float
    max_iterations: float
    replaced: int
    budget_gpu_s: float
    phase: int = 0

    @property
    def target(self) -> float:
        """The iteration at which the present generation ends."""
        return min((self.phase + 1) * self.ready, self.max_iterations)

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        return not self.trials

    def work(self) -> Work:
        """The jobs of the present generation, and the generations to come."""
        most = max((one.trial.max_gpus for one in self.trials), default=0)
        jobs, phases, done = tuple(one.job(self.target) for one in self.trials), list[Phase](), self.target
        while done < self.max_iterations:
            phases.append(Phase(len(jobs), min(self.ready, self.max_iterations - done), most))
            done += self.ready
        return Work((Bracket(jobs, tuple(phases)),) if jobs else (), self.budget_gpu_s, most * len(jobs))

    def take(self, report: Report | Failed) -> tuple["Population", tuple[Decision, ...]]:
        """The search after a report. The last trial of a generation to report its end decides about all."""
        if all(one.trial.id != report.trial for one in self.trials):
            return self, ()
        if isinstance(report, Failed):
            trials = tuple(one for one in self.trials if one.trial.id != report.trial)
        else:
            trials = tuple(one.reported(report) if one.trial.id == report.trial else one for one in self.trials)
        changed = replace(self, trials=trials)
        if not all(one.iteration >= self.target for one in trials):
            return changed, ()
        return changed._next_generation()

    def retry(self, failed: Sequence[Trial]) -> "Population":
        """The search in which trials that have failed run again, from their beginning."""
        return replace(self, trials=(*self.trials, *map(Progress, failed)))

    def allocate(self, allocation: Mapping[str, Gpus]) -> "Population":
        """The search whose trials run on these GPUs."""
        return replace(self, trials=tuple(replace(one, held=allocation.get(one.trial.id, ())) for one in self.trials))

    def _next_generation(self) -> tuple["Population", tuple[Decision, ...]]:
        ranked = sorted(self.trials, key=lambda one: (one.loss, one.trial.id))
        if self.target >= self.max_iterations:
            return replace(self, trials=()), tuple(Decision(one.trial.id, "complete") for one in ranked)
        ends = min(self.replaced, len(ranked) // 2, len(self.new))
        kept, worst = ranked[: len(ranked) - ends], ranked[len(ranked) - ends :]
        # A copy of what diverged would diverge.
        pairs = [
            (old, trial, parent)
            for old, trial, parent in zip(reversed(worst), self.new, ranked, strict=False)
            if math.isfinite(parent.loss)
        ]
        stopped = {old.trial.id for old, _, _ in pairs}
        kept = [*kept, *(one for one in worst if one.trial.id not in stopped)]
        children = [replace(parent, trial=trial, losses=(), attained_gpu_s=0.0, held=()) for _, trial, parent in pairs]
        after = replace(self, trials=(*kept, *children), new=self.new[len(pairs) :], phase=self.phase + 1)
        losses = [one.loss if math.isfinite(one.loss) else None for one in ranked]
        places = {one.trial.id: place for place, one in enumerate(ranked, 1)}

        def ranking(trial: str) -> Ranking:
            place, going_on = places[trial], len(kept)
            return Ranking(self.phase, place, len(ranked), losses[place - 1], going_on, losses[going_on - 1])

        return after, (
            *(Decision(one.trial.id, "promote", after.target, ranking(one.trial.id)) for one in kept),
            *(Decision(one, "stop", ranking=ranking(one)) for one in sorted(stopped)),
            *(Decision(trial.id, "begin", after.target, parent=parent.trial.id) for _, trial, parent in pairs),
        )


def generations(max_iterations: float, ready: float) -> int:
    """How many generations there are."""
    return max(math.ceil(max_iterations / ready), 1)


def replaced_of(trials: int, quantile: float) -> int:
    """How many trials of a population are replaced at the end of a generation."""
    return min(max(int(quantile * trials), 1), trials // 2)


def population(trials: Sequence[Trial], count: int, max_iterations: float, ready: float, quantile: float) -> Population:
    """A search that starts with the first `count` of these trials; the others may replace some of them.

    Raises:
        BadInputError: two trials have the same id, or there are fewer than two at the start.
    """
    if len({trial.id for trial in trials}) < len(trials):
        raise BadInputError("trials", sorted(trial.id for trial in trials), "two have the same id")
    if not 2 <= count <= len(trials):
        raise BadInputError("count", count, f"must be from 2 to {len(trials)}, the trials")
    first = trials[:count]
    budget = max_iterations * sum(trial.iteration_s for trial in first)
    replaced = replaced_of(count, quantile)
    return Population(tuple(map(Progress, first)), tuple(trials[count:]), ready, max_iterations, replaced, budget)
