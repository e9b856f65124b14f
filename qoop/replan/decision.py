"""Which plan finishes first now, and whether it is worth leaving the present one (QOOP, section 2.3.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Literal

from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.estimate.packing import Task, finish_times
from qoop.plans.plan import RESULT, Plan, StageId
from qoop.replan.causes import WhyDecided


@dataclass(frozen=True, slots=True)
class Rules:
    """`hysteresis`: the fraction of the remaining time that a switch must save (QOOP finds 10-25% good, figure 2.15).

    `min_gain`: seconds that it must save. `cancel_seconds`: what it costs to stop running stages. `let_finish`:
    running stages that the new plan does not need may go on where that is estimated cheaper. `force`: after every stage
    and on every change of the share, switch to another tree of the unfinished part, whatever it costs; on a change of
    the share to one that stops running stages, if there is one (a test option).
    """

    hysteresis: float = 0.15
    min_gain: float = 0.3
    cancel_seconds: float = 0.2
    let_finish: bool = True
    force: bool = False


@dataclass(frozen=True, slots=True)
class StageProgress:
    """A running stage: the plan it was started for, its work as estimated then, and the fraction of it done by now.

    `done` is above 1 when it is overdue. `uncertainty`: standard deviation of the logarithm of its output's size.
    """

    plan: int
    work: Work
    done: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Straggler:
    """A stage that was late when it was stopped: the rows it is taken to have, the core seconds it is taken to need."""

    rows: float
    core_seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """What has been done: the stages whose output is kept, and those that run.

    `stragglers`: what is thought of stages that were stopped when they were late.
    """

    ready: frozenset[StageId]
    running: Mapping[StageId, StageProgress]
    stragglers: Mapping[StageId, Straggler] = field(default_factory=dict)


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
    """One evaluation of all candidates. `seconds`: the estimate of every plan by number; `won_by`: why the plan won.

    `fastest`: the plan that would finish first, chosen or not. `needed`: the seconds that it had to save to be worth
    leaving the plan of before; None where there was none before, and where an early journal does not tell.
    """

    cause: WhyDecided
    slots: float
    before: int | None
    plan: int
    seconds: tuple[float, ...]
    cancel: tuple[StageId, ...]
    let_finish: tuple[StageId, ...]
    reused: tuple[StageId, ...]
    left_behind: tuple[StageId, ...]
    won_by: Winner
    fastest: int
    needed: float | None = None

    @property
    def switched(self) -> bool:
        """Whether the query left its plan for another."""
        return self.before is not None and self.plan != self.before


def evaluate(
    plans: Sequence[Plan],
    estimator: Estimator,
    progress: Progress,
    slots: float,
    rules: Rules,
    numbers: Sequence[int] | None = None,
) -> list[Candidate]:
    """When each plan (or those of these numbers) would finish, from what has been done, if the share stays."""
    late = delay_estimate(progress, estimator)
    rows = {**{stage: known.rows for stage, known in progress.stragglers.items()}, **late.rows}
    if rows:
        estimator = estimator.updated(rows, estimator.calibration.slowed_by(late.slowdown))
    wanted = range(len(plans)) if numbers is None else numbers
    return [_evaluate(number, plans, estimator, progress, slots, rules) for number in wanted]


def choose(candidates: Sequence[Candidate], current: int | None, rules: Rules) -> int:
    """The plan to follow: the fastest, if it beats the present one by the hysteresis."""
    best = min(candidates, key=lambda candidate: (candidate.seconds, candidate.plan))
    if current is None:
        return best.plan
    now = next(candidate.seconds for candidate in candidates if candidate.plan == current)
    return best.plan if now - best.seconds >= min_gain_for_switch(now, rules) else current


def min_gain_for_switch(now: float, rules: Rules) -> float:
    """The seconds that a switch must save where the present plan would take `now`."""
    return max(rules.min_gain, rules.hysteresis * now)


def forced_choice(
    plans: Sequence[Plan], candidates: Sequence[Candidate], current: int, ready: frozenset[StageId], stopping: bool
) -> int:
    """For the test option: the fastest plan whose unfinished part differs, taking turns so that all get theirs."""
    todo = plans[current].stages(ready).keys()
    others = [one for one in candidates if plans[one.plan].stages(ready).keys() != todo]
    if not others:
        return current
    if stopping:
        others = [one for one in others if one.cancel] or others
    ranked = sorted(others, key=lambda one: (one.seconds, one.plan))
    return ranked[(7 * len(ready)) % len(ranked)].plan


@dataclass(frozen=True, slots=True)
class DelayEstimate:
    """What late stages suggest: the machine is slower by this factor, these stages have more rows than estimated."""

    slowdown: float
    rows: Mapping[StageId, float]


def delay_estimate(progress: Progress, estimator: Estimator) -> DelayEstimate:
    """Explain overdue stages: the machine may be slow, or the stages may be larger than estimated.

    The logarithm of each delay is the machine's slowness, common to all, plus the stage's own error; both are normal,
    with the uncertainties of the calibration and of the stage as standard deviations. The result is the mean given the
    delays: many late stages of certain size mean a slow machine; a single late stage of uncertain size means a large
    stage, and with it large sets wherever its joins occur.
    """
    late = {stage: underway for stage, underway in progress.running.items() if underway.done > 1.0}
    weights = {stage: 1.0 / (underway.uncertainty**2 + MIN_UNCERTAINTY**2) for stage, underway in late.items()}
    total = sum(weights.values()) + 1.0 / estimator.calibration.uncertainty**2
    slowness = sum(weights[stage] * log(underway.done) for stage, underway in late.items()) / total
    rows = {
        stage: estimator.stage_rows(stage) * exp(max(log(underway.done) - slowness, 0.0))
        for stage, underway in late.items()
    }
    return DelayEstimate(exp(slowness), rows)


LATE_FACTOR = 1.5
"""A running stage that should have ended needs so much of the time that it has taken."""

MIN_UNCERTAINTY = 0.3
"""No stage is surer than this: costs are not known better."""


def _evaluate(
    number: int, plans: Sequence[Plan], estimator: Estimator, progress: Progress, slots: float, rules: Rules
) -> Candidate:
    plan, running = plans[number], progress.running
    usable = {stage for stage, underway in running.items() if plan.computes_same(plans[underway.plan], stage)}
    at_hand = progress.ready | usable
    stages = {stage: plan.reads(stage, at_hand) - progress.ready for stage in plan.stages(at_hand)}
    used = usable & frozenset().union({RESULT}, *stages.values())
    works = {stage: estimator.work(plan, stage, at_hand) for stage in stages}
    tasks = [Task(stage, after, _anew(works[stage], stage, progress)) for stage, after in stages.items()]
    tasks += [_rest_of(stage, running[stage]) for stage in sorted(used)]
    alone = finish_times(tasks, slots)[RESULT]
    useless = tuple(sorted(running.keys() - used))
    if not useless:
        return Candidate(number, alone)
    together = finish_times([*tasks, *(_rest_of(stage, running[stage]) for stage in useless)], slots)[RESULT]
    # A stage that costs nothing is left to finish: its output is one more point to come back to. A block's result is
    # not: it is being computed in the way that this plan leaves.
    may_go_on = rules.let_finish and not any(stage in plan.stages(progress.ready) for stage in useless)
    if may_go_on and together <= alone + rules.cancel_seconds:
        return Candidate(number, together, let_finish=useless)
    return Candidate(number, alone + rules.cancel_seconds, cancel=useless)


def stragglers(progress: Progress, estimator: Estimator, stopped: Sequence[StageId]) -> dict[StageId, Straggler]:
    """What is to be remembered of those stages that are late as they are stopped."""
    late = delay_estimate(progress, estimator).rows
    return {stage: Straggler(late[stage], _needs(progress.running[stage])) for stage in stopped if stage in late}


def _needs(underway: StageProgress) -> float:
    """The core seconds that a running stage must be thought to need: one that should have ended is taken to be two
    thirds done."""
    return underway.work.core_seconds * underway.done * (LATE_FACTOR if underway.done > 1.0 else 1.0)


def _anew(work: Work, stage: StageId, progress: Progress) -> Work:
    """The work of a stage that is to be started; where it runs already in another way, or ran, no less than that needs.

    What delays a stage (cold executors, more rows than estimated) delays it in any join order; that another one avoids
    it cannot be known before it is counted, and two that are late in turn would stop each other for ever.
    """
    underway, suspicion = progress.running.get(stage), progress.stragglers.get(stage)
    least = max(_needs(underway) if underway else 0.0, suspicion.core_seconds if suspicion else 0.0)
    return Work(max(work.core_seconds, least), work.fixed_seconds, work.tasks)


def _rest_of(stage: StageId, underway: StageProgress) -> Task[StageId]:
    """What is left of a running stage; one that should have ended is taken to be two thirds done."""
    rest = max(1.0 - underway.done, underway.done * (LATE_FACTOR - 1.0))
    work = underway.work
    return Task(stage, frozenset(), Work(work.core_seconds * rest, work.fixed_seconds * min(rest, 1.0), work.tasks))
