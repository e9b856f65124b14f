"""Which plan finishes first now, and whether it is worth leaving the present one (002, section 2.3.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.estimate.packing import Task, finish_times
from qoop.plans.plan import Plan, StageId


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
    """A running stage: seconds since it started, and its work as it was estimated then."""

    elapsed: float
    work: Work


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


Winner = Literal["first", "kept", "share", "row counts", "share and row counts", "either", "forced"]


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
    return [_evaluate(number, plan, estimator, progress, slots, rules) for number, plan in enumerate(plans)]


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


def _evaluate(
    number: int, plan: Plan, estimator: Estimator, progress: Progress, slots: float, rules: Rules
) -> Candidate:
    stages = plan.stages(progress.ready)
    tasks = [
        _left(Task(stage, after, estimator.work(plan, stage, progress.ready)), progress, slots)
        for stage, after in stages.items()
    ]
    useless = tuple(sorted(stage for stage in progress.running if stage not in stages))
    alone = finish_times(tasks, slots)[plan.goal]
    if not useless:
        return Candidate(number, alone)
    stopped = alone + rules.cancel_seconds
    besides = [_left(Task(stage, frozenset(), progress.running[stage].work), progress, slots) for stage in useless]
    together = finish_times([*tasks, *besides], slots)[plan.goal]
    # A stage that costs nothing is left to finish: its output is one more point to come back to.
    if together <= stopped:
        return Candidate(number, together, let_finish=useless)
    return Candidate(number, stopped, cancel=useless)


def _left(task: Task[StageId], progress: Progress, slots: float) -> Task[StageId]:
    """What is left of a running stage; one that overran its estimate is taken to be two thirds done."""
    underway = progress.running.get(task.key)
    if underway is None:
        return task
    total = task.work.seconds(slots)
    rest = max(total - underway.elapsed, underway.elapsed / 2) / total if total else 0.0
    return replace(task, work=Work(task.work.core_seconds * rest, task.work.fixed_seconds * rest, task.work.tasks))
