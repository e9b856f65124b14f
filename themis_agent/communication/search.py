"""The search for a plan: Metropolis steps over the options of the operations (Syndicate section 4.4.3.1).

The thesis' pseudocode returns the plan that was accepted last; this returns the best that was seen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Iteration
from themis_agent.communication.options import TimedOption
from themis_agent.communication.schedule import (
    REPLAYED,
    UNROLLED,
    Graph,
    Sequence_,
    critical_path,
    fold,
    graph,
    in_program_order,
    list_schedule,
    replay,
)


class Numbers(Protocol):
    """Random numbers, such as those of numpy's generators."""

    def integers(self, high: int, /) -> int:
        """One from 0 to `high` - 1."""

    def uniform(self, low: float = 0.0, high: float = 1.0, /) -> float:
        """One from `low` to `high`."""


Choices = Mapping[int, Sequence[TimedOption]]
"""The options of each task that communicates."""

Chosen = tuple[int, ...]
"""The number of the option of each task of `Choices`, in its order."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a plan is made for. `overlap`: see `CostTable`."""

    iteration: Iteration
    choices: Choices
    channels: int
    overlap: tuple[tuple[float, ...], ...] = ()
    serial: bool = False

    def graph_of(self, chosen: Chosen) -> Graph:
        """The graph under these options."""
        motifs = {
            task: options[number].motifs for (task, options), number in zip(self.choices.items(), chosen, strict=True)
        }
        return graph(self.iteration, motifs, self.channels, self.overlap, self.serial)

    @property
    def greedy(self) -> Chosen:
        """For each operation the option that takes the least time alone."""
        return tuple(
            min(range(len(options)), key=lambda number: options[number].total_s) for options in self.choices.values()
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """Options with an order. `period_s`: the time of an iteration when the order repeats."""

    chosen: Chosen
    sequence: Sequence_
    period_s: float
    idle: float


@dataclass(frozen=True, slots=True)
class Limits:
    """When a search ends: after this many steps, or when more than half of them have found nothing better.

    `beta`: of the Metropolis rule, for a loss relative to the greedy plan.
    """

    steps: int = 500
    beta: float = 8.0
    min_steps: int = 300


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found, and the steps it took."""

    best: Candidate
    steps: int


def scheduled(problem: Problem, chosen: Chosen) -> Candidate:
    """These options in the order of the critical path; in that of the program, if the schedule had not settled, so that
    repeating it puts a motif before one that it waits for.
    """
    under = problem.graph_of(chosen)
    for order in (fold(list_schedule(under, UNROLLED, critical_path(under, UNROLLED))), in_program_order(under)):
        try:
            timeline = replay(under, REPLAYED, order)
        except PlanError:
            continue
        break
    return Candidate(chosen, order, timeline.period_s, timeline.idle)


def in_order(problem: Problem, chosen: Chosen) -> Candidate:
    """These options, executed in the order of the program."""
    under = problem.graph_of(chosen)
    order = in_program_order(under)
    timeline = replay(under, REPLAYED, order)
    return Candidate(chosen, order, timeline.period_s, timeline.idle)


Evaluate = Callable[[Problem, Chosen], Candidate]


def worth_trying(options: Sequence[TimedOption]) -> list[int]:
    """The numbers of the options of an operation without those that another makes needless: as many motifs on the same
    channels, in less time.
    """
    best: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(options):
        kind = (tuple(motif.channel for motif in one.motifs), tuple(motif.after for motif in one.motifs))
        if kind not in best or one.total_s < options[best[kind]].total_s:
            best[kind] = number
    return sorted(best.values())


def search(
    problem: Problem,
    numbers: Numbers,
    limits: Limits,
    evaluate: Evaluate = scheduled,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Found:
    """The best candidate seen. `numbers`: what the steps are drawn with. `out_of_time`: ends the search early."""
    seen: dict[Chosen, Candidate] = {}

    def cost(chosen: Chosen) -> Candidate:
        if chosen not in seen:
            seen[chosen] = evaluate(problem, chosen)
        return seen[chosen]

    # What costs nothing to try: the greedy options in the order of the program.
    current = cost(problem.greedy)
    best = min(current, in_order(problem, problem.greedy), key=lambda one: one.period_s)
    scale = current.period_s or 1.0
    tried = [worth_trying(options) for options in problem.choices.values()]
    several = [place for place, options in enumerate(tried) if len(options) > 1]
    improved_at = step = 0
    for step in range(1, limits.steps + 1) if several else ():
        chosen = list(current.chosen)
        # Some plans are better only if two operations change together.
        for _ in range(2 if step % 4 == 0 else 1):
            place = several[int(numbers.integers(len(several)))]
            others = [number for number in tried[place] if number != chosen[place]]
            chosen[place] = others[int(numbers.integers(len(others)))]
        candidate = cost(tuple(chosen))
        loss = (candidate.period_s - current.period_s) / scale
        if loss <= 0 or numbers.uniform() < math.exp(-limits.beta * loss):
            current = candidate
        if candidate.period_s < best.period_s * (1 - 1e-9):
            best, improved_at = candidate, step
        if out_of_time() or (step >= limits.min_steps and step - improved_at > step / 2):
            break
    return Found(best, step)
