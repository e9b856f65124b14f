"""Successive halving: after each phase the best part of the trials trains on, the others stop.

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016; Themis,
thesis section 3.4.3.2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from themis_agent.search.trials import Decision, Failed, Progress, Ranking, Report, Trial
from themis_agent.search.work import Bracket, Phase, Work
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus


def phase_count(trials: int, eta: int) -> int:
    """The number of phases until one trial is left: floor(log_eta n) + 1."""
    count = 1
    while trials >= eta:
        trials, count = trials // eta, count + 1
    return count


def survivors(trials: int, phases: int, eta: int) -> tuple[int, ...]:
    """How many trials run in each phase: floor(n / eta^i)."""
    return tuple(trials // eta**phase for phase in range(phases))


def rungs(trials: int, max_iterations: float, eta: int) -> tuple[float, ...]:
    """The iterations at which phases end, as in a bracket of Hyperband. None ends before the first iteration."""
    count = phase_count(trials, eta)
    while count > 1 and eta ** (count - 1) > max_iterations:
        count -= 1
    return phase_ends(max_iterations, count, eta)


def phase_ends(max_iterations: float, phases: int, eta: int) -> tuple[float, ...]:
    """The last phase ends at `max_iterations`, each other at 1 / eta of the next.

    Rounded up to whole iterations: a trial reports no others, so that it is at the next one that it is compared.
    """
    whole = [float(math.ceil(max_iterations / eta**left)) for left in range(phases - 1, 0, -1)]
    return (*whole, float(max_iterations))


def iterations_of_budget(trials: Sequence[Trial], budget_gpu_s: float, eta: int) -> tuple[float, ...]:
    """The iterations of a trial in each phase when a budget is divided evenly among the phases.

    Whole iterations; the last phase takes what is left. Trials of later phases take the upper median of the times of
    an iteration (Themis, thesis section 3.4.3.3: 8, 16 and 36 iterations).

    Raises:
        BadInputError: the budget is too small for an iteration of each trial in each phase.
    """
    counts = survivors(len(trials), phase_count(len(trials), eta), eta)
    median = sorted(trial.iteration_s for trial in trials)[len(trials) // 2]
    round_s = [sum(trial.iteration_s for trial in trials), *(count * median for count in counts[1:])]
    left, found = budget_gpu_s, []
    for phase, seconds in enumerate(round_s):
        share = budget_gpu_s / len(round_s) if phase < len(round_s) - 1 else left
        found.append(float(math.floor(share / seconds + 1e-9)))
        left -= found[-1] * seconds
    if min(found) < 1:
        raise BadInputError("budget_gpu_s", budget_gpu_s, f"too small for {len(trials)} trials in {len(found)} phases")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Halving:
    """A search by successive halving: the trials of the present phase, and the plan of all phases.

    `counts`: how many trials run in each phase. `iterations`: of each of them in that phase. `max_gpus`: cap on the
    GPUs of one trial in that phase. `budget_gpu_s`: see `Work`. A trial keeps its progress from phase to phase.
    """

    trials: tuple[Progress, ...]
    counts: tuple[int, ...]
    iterations: tuple[float, ...]
    max_gpus: tuple[int, ...]
    budget_gpu_s: float
    phase: int = 0

    @property
    def target(self) -> float:
        """The iteration at which the present phase ends."""
        return sum(self.iterations[: self.phase + 1])

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        return not self.trials

    def work(self) -> Work:
        """The jobs of the present phase, and the phases to come."""
        most = max(count * gpus for count, gpus in zip(self.counts, self.max_gpus, strict=True))
        return Work((self.bracket(),) if self.trials else (), self.budget_gpu_s, most)

    def bracket(self) -> Bracket:
        """The jobs of the present phase, and the phases to come."""
        jobs = tuple(one.job(self.target, self.max_gpus[self.phase]) for one in self.trials)
        later = range(self.phase + 1, len(self.counts))
        return Bracket(jobs, tuple(Phase(self.counts[i], self.iterations[i], self.max_gpus[i]) for i in later))

    def take(self, report: Report | Failed) -> tuple["Halving", tuple[Decision, ...]]:
        """The search after a report. The last trial of a phase to report its end decides about all."""
        if all(one.trial.id != report.trial for one in self.trials):
            return self, ()
        trials = tuple(_learn(one, report) if one.trial.id == report.trial else one for one in self.trials)
        changed = replace(self, trials=trials)
        if not all(one.failed or one.iteration >= self.target for one in trials):
            return changed, ()
        return changed._next_phase()

    def retry(self, failed: Sequence[Trial], phase: int) -> "Halving":
        """The search in which trials that have failed run again: in the present phase, with those that run; without
        any, in this phase, where the first of them failed."""
        ids = {trial.id for trial in failed}
        running = tuple(one for one in self.trials if one.trial.id not in ids and not one.failed)
        again = tuple(Progress(trial) for trial in failed)
        return replace(self, trials=(*running, *again), phase=self.phase if running else phase)

    def allocate(self, allocation: Mapping[str, Gpus]) -> "Halving":
        """The search whose trials run on these GPUs."""
        return replace(self, trials=tuple(replace(one, held=allocation.get(one.trial.id, ())) for one in self.trials))

    def _next_phase(self) -> tuple["Halving", tuple[Decision, ...]]:
        ranked = sorted((one for one in self.trials if not one.failed), key=lambda one: (one.loss, one.trial.id))
        last = self.phase + 1 == len(self.counts)
        if last:
            return replace(self, trials=()), tuple(Decision(one.trial.id, "complete") for one in ranked)
        kept = ranked[: self.counts[self.phase + 1]]
        ids = {one.trial.id for one in kept}
        following = replace(self, trials=tuple(one for one in self.trials if one.trial.id in ids), phase=self.phase + 1)
        losses = [one.loss if math.isfinite(one.loss) else None for one in ranked]
        return following, tuple(
            Decision(
                one.trial.id,
                "promote" if one.trial.id in ids else "stop",
                following.target if one.trial.id in ids else 0.0,
                Ranking(self.phase, place, len(ranked), losses[place - 1], len(kept), losses[len(kept) - 1]),
            )
            for place, one in enumerate(ranked, 1)
        )


def _learn(progress: Progress, report: Report | Failed) -> Progress:
    return progress.reported(report) if isinstance(report, Report) else replace(progress, failed=True)


def successive_halving(
    trials: Sequence[Trial], iterations: Sequence[float], eta: int = 2, max_gpus: Sequence[int] | None = None
) -> Halving:
    """A search that starts with these trials.

    `iterations`: of a trial in each phase. `max_gpus`: cap on its GPUs in each phase; None: the largest of the trials'
    own. A phase with no trial left is not reached: floor(log_eta n) + 1 phases at most.

    Raises:
        BadInputError: no trials, two with the same id, eta below 2, or the wrong number of phases.
    """
    if not trials:
        raise BadInputError("trials", 0, "at least one")
    if len({trial.id for trial in trials}) < len(trials):
        raise BadInputError("trials", sorted(trial.id for trial in trials), "two have the same id")
    if eta < 2:
        raise BadInputError("eta", eta, "must be at least 2")
    most = phase_count(len(trials), eta)
    if not 1 <= len(iterations) <= most or min(iterations) <= 0:
        raise BadInputError("iterations", tuple(iterations), f"1 to {most} phases, each above 0")
    caps = tuple(max_gpus or [max(trial.max_gpus for trial in trials)] * len(iterations))
    if len(caps) != len(iterations) or min(caps) < 1:
        raise BadInputError("max_gpus", caps, f"{len(iterations)} caps, one for each phase, each at least 1")
    counts = survivors(len(trials), len(iterations), eta)
    median = sorted(trial.iteration_s for trial in trials)[len(trials) // 2]
    budget = iterations[0] * sum(trial.iteration_s for trial in trials) + sum(
        count * each * median for count, each in zip(counts[1:], iterations[1:], strict=True)
    )
    return Halving(tuple(Progress(trial) for trial in trials), counts, tuple(iterations), caps, budget)
