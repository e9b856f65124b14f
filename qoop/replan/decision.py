"""Which plan finishes first now, and whether it is worth leaving the present one (002, section 2.3.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.estimate.packing import Task, finish_times
from qoop.plans.plan import GOAL, Plan, StageId


@dataclass(frozen=True, slots=True)
class Rules:
    """`hysteresis`: the fraction of the remaining time that a switch must save (002 finds 10-25% good, figure 2.15).

    `least_gain`: seconds that it must save. `cancel_seconds`: what it costs to stop running stages. `force`: after
    every stage, switch to another tree of the unfinished part, whatever it costs (a test option).
    """

    hysteresis: float = 0.15
    least_gain: float = 0.3
    cancel_seconds: float = 0.2
    force: bool = False


@dataclass(frozen=True, slots=True)
class Underway:
    """A running stage: the plan it was started for, its work as estimated then, and the fraction of it done by now.

    `done` is above 1 when it should have ended. `doubt`: how wrong the size of its output may be (standard deviation
    of the logarithm).
    """

    plan: int
    work: Work
    done: float
    doubt: float


@dataclass(frozen=True, slots=True)
class Progress:
    """What has been done: the stages whose output is kept, and those that run."""

    ready: frozenset[StageId]
    running: Mapping[StageId, Underway]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan under a share: when it would finish, in seconds from now, and what becomes of the running stages."""

    plan: int
    seconds: float
    cancel: tuple[StageId, ...] = ()
    let_finish: tuple[StageId, ...] = ()


Winner = Literal[
    "first",
    "kept",
    "forced",
    "share",
    "row counts",
    "share or row counts",
    "share and row counts",
    "late stage",
    "late stage and share or row counts",
]
"""What made a plan win: "or": each would have sufficed; "and": none would have alone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One evaluation of all candidates. `seconds`: the estimate of every plan by number; `won_by`: why the plan won."""

    cause: str
    slots: float
    before: int | None
    plan: int
    seconds: tuple[float, ...]
    cancel: tuple[StageId, ...]
    let_finish: tuple[StageId, ...]
    reused: tuple[StageId, ...]
    left_behind: tuple[StageId, ...]
    won_by: Winner
    reason: str

    @property
    def switched(self) -> bool:
        """Whether the query left its plan for another."""
        return self.before is not None and self.plan != self.before


def evaluate(
    plans: Sequence[Plan], estimator: Estimator, progress: Progress, slots: float, rules: Rules
) -> list[Candidate]:
    """When each plan would finish, from what has been done, if the share stays as it is."""
    return [_evaluate(number, plans, estimator, progress, slots, rules) for number in range(len(plans))]


def best_of(candidates: Sequence[Candidate], current: int | None, rules: Rules) -> int:
    """The plan to follow: the fastest, if it beats the present one by the hysteresis."""
    best = min(candidates, key=lambda candidate: (candidate.seconds, candidate.plan))
    if current is None:
        return best.plan
    now = candidates[current].seconds
    gains = now - best.seconds
    return best.plan if gains >= rules.least_gain and gains >= rules.hysteresis * now else current


def other_tree(plans: Sequence[Plan], candidates: Sequence[Candidate], current: int, ready: frozenset[StageId]) -> int:
    """For the test option: the fastest plan whose unfinished part differs, taking turns so that all get theirs."""
    todo = plans[current].stages(ready).keys()
    others = [one for one in candidates if plans[one.plan].stages(ready).keys() != todo]
    if not others:
        return current
    ranked = sorted(others, key=lambda one: (one.seconds, one.plan))
    return ranked[(7 * len(ready)) % len(ranked)].plan


def slowdown(progress: Progress, speed_doubt: float) -> float:
    """How much slower than estimated the machine seems to be, going by stages that should have ended.

    Such a stage may be larger than thought, or the machine slower, which would hold for all others too: the blame is
    shared by how doubtful each was (variances of the logarithms).
    """
    worst = 1.0
    for underway in progress.running.values():
        if underway.done > 1.0:
            blame = speed_doubt**2 / max(speed_doubt**2 + underway.doubt**2, 1e-9)
            worst = max(worst, underway.done**blame)
    return worst


def _evaluate(
    number: int, plans: Sequence[Plan], estimator: Estimator, progress: Progress, slots: float, rules: Rules
) -> Candidate:
    plan, running = plans[number], progress.running
    usable = {stage for stage, underway in running.items() if plan.same_way(plans[underway.plan], stage)}
    at_hand = progress.ready | usable
    stages = {stage: plan.reads(stage, at_hand) - progress.ready for stage in plan.stages(at_hand)}
    used = usable & frozenset().union({GOAL}, *stages.values())
    slower = slowdown(progress, estimator.speed_doubt)
    tasks = [
        Task(stage, after, _slowed(estimator.work(plan, stage, at_hand), slower)) for stage, after in stages.items()
    ]
    tasks += [_rest_of(stage, running[stage]) for stage in sorted(used)]
    alone = finish_times(tasks, slots)[GOAL]
    useless = tuple(sorted(running.keys() - used))
    if not useless:
        return Candidate(number, alone)
    together = finish_times([*tasks, *(_rest_of(stage, running[stage]) for stage in useless)], slots)[GOAL]
    # A stage that costs nothing is left to finish: its output is one more point to come back to. A block's result is
    # not: it is being computed in the way that this plan leaves.
    if together <= alone + rules.cancel_seconds and not any(stage in plan.stages(progress.ready) for stage in useless):
        return Candidate(number, together, let_finish=useless)
    return Candidate(number, alone + rules.cancel_seconds, cancel=useless)


def _slowed(work: Work, factor: float) -> Work:
    return Work(work.core_seconds * factor, work.fixed_seconds, work.tasks)


def _rest_of(stage: StageId, underway: Underway) -> Task[StageId]:
    """What is left of a running stage; one that should have ended is taken to be two thirds done."""
    rest = max(1.0 - underway.done, underway.done / 2)
    work = underway.work
    return Task(stage, frozenset(), Work(work.core_seconds * rest, work.fixed_seconds * min(rest, 1.0), work.tasks))
