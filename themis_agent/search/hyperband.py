"""Hyperband: successive halving from several trade-offs between many trials and long ones.

Li, Jamieson, DeSalvo, Rostamizadeh and Talwalkar, "Hyperband: A novel bandit-based approach to hyperparameter
optimization", JMLR 18 (2018), algorithm 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from themis_agent.search.halving import Halving, phase_ends, successive_halving
from themis_agent.search.trials import Decision, Failed, Report, Trial
from themis_agent.search.work import Work
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus


@dataclass(frozen=True, slots=True)
class BracketSize:
    """A bracket of algorithm 1: `trials` (n) start, each with `iterations` (r); `phases` (s + 1) in all.

    `ends`: the whole iterations at which they end, r eta^i rounded up.
    """

    trials: int
    iterations: float
    ends: tuple[float, ...]

    @property
    def phases(self) -> int:
        """How many there are."""
        return len(self.ends)


def bracket_sizes(max_iterations: float, eta: int = 2) -> tuple[BracketSize, ...]:
    """The brackets for at most R iterations of a trial: s = floor(log_eta R), ..., 0; n = ceil((s_max + 1) eta^s /
    (s + 1)), r = R / eta^s.

    Raises:
        BadInputError: R below 1, eta below 2.
    """
    if not max_iterations >= 1 or math.isinf(max_iterations):
        raise BadInputError("max_iterations", max_iterations, "must be at least 1")
    if eta < 2:
        raise BadInputError("eta", eta, "must be at least 2")
    largest = 0
    while eta ** (largest + 1) <= max_iterations:
        largest += 1
    return tuple(
        BracketSize(
            -(-(largest + 1) * eta**s // (s + 1)), max_iterations / eta**s, phase_ends(max_iterations, s + 1, eta)
        )
        for s in range(largest, -1, -1)
    )


@dataclass(frozen=True, slots=True)
class Hyperband:
    """Brackets of successive halving, side by side: the search ends with the slowest."""

    brackets: tuple[Halving, ...]

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        return all(one.ended for one in self.brackets)

    def work(self) -> Work:
        """The brackets that still run."""
        parts = [one.work() for one in self.brackets]
        return Work(
            tuple(bracket for part in parts for bracket in part.brackets),
            sum(part.budget_gpu_s for part in parts),
            sum(part.max_gpus for part in parts),
        )

    def take(self, report: Report | Failed) -> tuple["Hyperband", tuple[Decision, ...]]:
        """The search after a report. Each bracket decides about its own trials."""
        results = [one.take(report) for one in self.brackets]
        decisions = tuple(decision for _, found in results for decision in found)
        return replace(self, brackets=tuple(bracket for bracket, _ in results)), decisions

    def allocate(self, allocation: Mapping[str, Gpus]) -> "Hyperband":
        """The search whose trials run on these GPUs."""
        return replace(self, brackets=tuple(one.allocate(allocation) for one in self.brackets))


def hyperband(trials: Sequence[Trial], max_iterations: float, eta: int = 2, max_gpus: int | None = None) -> Hyperband:
    """A search over these trials, in this order: the first ones are those of the bracket with most trials.

    A trial that is promoted trains on from where it is: in phase i it ends at r eta^i iterations, rounded up, so
    phases after the first add r eta^i - r eta^(i-1). `max_gpus`: cap on a trial's GPUs; None: the largest of their own.

    Raises:
        BadInputError: not as many trials as the brackets need; bad `max_iterations` or `eta`.
    """
    sizes = bracket_sizes(max_iterations, eta)
    needed = sum(size.trials for size in sizes)
    if len(trials) != needed:
        raise BadInputError("trials", len(trials), f"{max_iterations:g} iterations and eta {eta} need {needed}")
    if len({trial.id for trial in trials}) < len(trials):
        raise BadInputError("trials", sorted(trial.id for trial in trials), "two have the same id")
    brackets, start = [], 0
    for size in sizes:
        added = [end - before for end, before in zip(size.ends, (0.0, *size.ends), strict=False)]
        caps = None if max_gpus is None else [max_gpus] * size.phases
        brackets.append(successive_halving(trials[start : start + size.trials], added, eta, caps))
        start += size.trials
    return Hyperband(tuple(brackets))
