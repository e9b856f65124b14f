"""Choose the plan that finishes first, if it is worth leaving the present one (QOOP section 2.3.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import Literal

from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.estimate.guard import PlanTime, are_similar
from qoop.estimate.packing import Task, finish_times
from qoop.plans.plan import RESULT, Plan, StageId
from qoop.replan.causes import WhyDecided


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of switching.

    `hysteresis`: the fraction of the remaining time that a switch must save (QOOP figure 2.15 finds 10-25% good).
    `min_gain`: the seconds that it must save. `cancel_seconds`: the cost of cancelling running stages. `let_finish`:
    running stages that the new plan does not need may finish if that is estimated to be cheaper. `force` (a test
    option): after every stage and every change of the share, switch to another tree of the unfinished part at any cost;
    on a change of the share preferably to one that cancels running stages. `stores`: the last stage stores rows, so
    there is no switch once it runs. `trial_s`: the query as written is tried, if it is a candidate, and for so many
    seconds, at a share similar to `measured_slots`, no plan replaces it. `measured`: what plans take with
    `measured_slots`, by their signatures, as earlier runs have shown.
    """

    hysteresis: float = 0.15
    min_gain: float = 0.3
    cancel_seconds: float = 0.2
    let_finish: bool = True
    force: bool = False
    stores: bool = False
    trial_s: float | None = None
    measured: Mapping[str, PlanTime] = field(default_factory=dict, hash=False, repr=False)
    measured_slots: float = field(default=1.0, repr=False)

    def times_at(self, slots: float) -> Mapping[str, PlanTime]:
        """What plans take at a share, by their signatures; nothing is known at one that is not similar."""
        if not are_similar(slots, self.measured_slots):
            return {}
        return {plan: time.at(slots, self.measured_slots) for plan, time in self.measured.items()}


@dataclass(frozen=True, slots=True)
class StageProgress:
    """A running stage: the plan that started it, its work as estimated then, and the fraction done.

    `done` is above 1 when it is overdue. `uncertainty`: standard deviation of the logarithm of its output's size.
    """

    plan: int
    work: Work
    done: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Straggler:
    """A stage that was cancelled when late, or has outgrown its estimate: its suspected rows and core seconds."""

    rows: float
    core_seconds: float


@dataclass(frozen=True, slots=True)
class StoppedStage:
    """A cancelled stage of whose output the fraction `kept` is stored.

    `plan`, `inputs`: how it ran, and how it must run to be resumed. `rest`: the work that is left then.
    """

    plan: int
    inputs: tuple[StageId, ...]
    kept: float
    rest: Work


@dataclass(frozen=True, slots=True)
class Progress:
    """The stages whose output is stored, the running stages, and cancelled ones: late ones, and those to resume."""

    ready: frozenset[StageId]
    running: Mapping[StageId, StageProgress]
    stragglers: Mapping[StageId, Straggler] = field(default_factory=dict)
    stopped: Mapping[StageId, StoppedStage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan under a share: seconds until it would finish, and the running stages to cancel or to let finish."""

    plan: int
    seconds: float
    cancel: tuple[StageId, ...] = ()
    let_finish: tuple[StageId, ...] = ()


Winner = Literal[
    "first",
    "earlier runs",
    "trial",
    "late trial",
    "kept",
    "forced",
    "share",
    "row counts",
    "share or row counts",
    "share and row counts",
    "late stage",
    "late stage and share or row counts",
]
"""What made a plan win. "or": each would have sufficed. "and": neither would have sufficed alone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An evaluation of all candidates.

    `seconds`: the estimate of every plan, by number. `reused`: stage outputs that the chosen plan reads.
    `left_behind`: outputs that only the previous plan reads. `fastest`: the plan that would finish first, chosen or
    not. `needed`: the seconds that a switch had to save; None if there was no previous plan, or in an early journal.
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
    def expected(self) -> float:
        """The estimate of the chosen plan, in seconds."""
        return self.seconds[self.plan]

    @property
    def switched(self) -> bool:
        """Whether the query switched to another plan."""
        return self.before is not None and self.plan != self.before


def evaluate(
    plans: Sequence[Plan],
    estimator: Estimator,
    progress: Progress,
    slots: float,
    rules: Rules,
    numbers: Sequence[int] | None = None,
    doubt: float = 0.0,
) -> list[Candidate]:
    """Estimate when each plan (or each of `numbers`) would finish from the present progress under a constant share.

    `doubt`: by how many standard deviations there are more rows than expected, where they were not counted; negative:
    fewer.
    """
    late = delay_estimate(progress, estimator, doubt)
    rows = {stage: max(known.rows, late.rows.get(stage, 0.0)) for stage, known in progress.stragglers.items()}
    rows = {**late.rows, **rows}
    if rows:
        estimator = estimator.updated(rows, estimator.calibration.slowed_by(late.slowdown))
    if doubt:
        estimator = estimator.with_pessimism(doubt)
    wanted = range(len(plans)) if numbers is None else numbers
    return [_evaluate(number, plans, estimator, progress, slots, rules) for number in wanted]


def choose(candidates: Sequence[Candidate], current: int | None, rules: Rules) -> int:
    """Choose the fastest plan if it beats the current one by the hysteresis."""
    best = min(candidates, key=lambda candidate: (candidate.seconds, candidate.plan))
    if current is None:
        return best.plan
    now = next(candidate.seconds for candidate in candidates if candidate.plan == current)
    return best.plan if now - best.seconds >= min_gain_for_switch(now, rules) else current


def min_gain_for_switch(now: float, rules: Rules) -> float:
    """The seconds that a switch must save if the current plan would take `now` seconds."""
    return max(rules.min_gain, rules.hysteresis * now)


def forced_choice(
    plans: Sequence[Plan], candidates: Sequence[Candidate], current: int, ready: frozenset[StageId], stopping: bool
) -> int:
    """For `Rules.force`: a plan whose unfinished part differs and that is not ruinous, picked in rotation."""
    unfinished = plans[current].stages(ready).keys()
    limit = RUINOUS_FACTOR * min(one.seconds for one in candidates)
    others = [one for one in candidates if one.seconds <= limit and plans[one.plan].stages(ready).keys() != unfinished]
    if not others:
        return current
    if stopping:
        others = [one for one in others if one.cancel] or others
    ranked = sorted(others, key=lambda one: (one.seconds, one.plan))
    return ranked[(7 * len(ready)) % len(ranked)].plan


RUINOUS_FACTOR = 20.0
"""A plan that takes more than this multiple of the best plan's time is ruinous."""


def without_ruinous(plans: Sequence[Plan], estimators: Sequence[Estimator]) -> list[Plan]:
    """The plans that are not ruinous on one slot by at least one of these estimates.

    On one slot, because a large share only hides that a plan needs many times the work.
    """
    retained: set[int] = set()
    for estimator in estimators:
        found = evaluate(plans, estimator, Progress(frozenset(), {}), 1.0, Rules())
        limit = RUINOUS_FACTOR * min(one.seconds for one in found)
        retained |= {one.plan for one in found if one.seconds <= limit or plans[one.plan].as_written}
        if len(retained) == len(plans):
            break
    return [plan for number, plan in enumerate(plans) if number in retained]


@dataclass(frozen=True, slots=True)
class DelayEstimate:
    """What late stages suggest: the factor by which the machine is slower, and the rows of those stages."""

    slowdown: float
    rows: Mapping[StageId, float]


def delay_estimate(progress: Progress, estimator: Estimator, doubt: float = 0.0) -> DelayEstimate:
    """Explain overdue stages: the machine may be slow, stages may cost more than estimated, or have more rows.

    The logarithm of each delay is the machine's slowness, common to all plans, plus the errors of the stage's cost and
    of its rows; all are normal, with the uncertainty of the calibration, `MIN_UNCERTAINTY`, and the uncertainty of the
    rows as standard deviations. The result is the mean given the delays, of the rows `doubt` deviations more: many late
    stages of certain size mean a slow machine; a single late stage of uncertain size means a large stage, and with it
    large sets wherever its joins occur.
    """
    late = {stage: active for stage, active in progress.running.items() if active.done > 1.0}
    costs = MIN_UNCERTAINTY**2
    weights = {stage: 1.0 / (active.uncertainty**2 + costs) for stage, active in late.items()}
    total = sum(weights.values()) + 1.0 / estimator.calibration.uncertainty**2
    slowness = sum(weights[stage] * log(active.done) for stage, active in late.items()) / total
    rows = {}
    for stage, active in late.items():
        by_rows = active.uncertainty**2 * weights[stage]
        error = by_rows * (log(active.done) - slowness) + doubt * sqrt(by_rows**2 / total + by_rows * costs)
        rows[stage] = estimator.stage_rows(stage) * exp(max(error, 0.0))
    return DelayEstimate(exp(slowness), rows)


OVERDUE_FACTOR = 1.5
"""An overdue stage is assumed to need this multiple of the time that it has taken so far."""

MIN_UNCERTAINTY = 0.3
"""Lower bound of a stage's uncertainty: costs are not known more precisely."""


def _evaluate(
    number: int, plans: Sequence[Plan], estimator: Estimator, progress: Progress, slots: float, rules: Rules
) -> Candidate:
    plan, running = plans[number], progress.running
    usable = {stage for stage, active in running.items() if plan.computes_same(plans[active.plan], stage)}
    resumed = resumed_stages(number, plans, estimator, progress, progress.ready | usable)
    available = progress.ready | usable | resumed
    stages = {stage: plan.reads(stage, available) - progress.ready for stage in plan.stages(available)}
    read = frozenset().union({RESULT}, *stages.values())
    used = usable & read
    works = {stage: estimator.work(plan, stage, available) for stage in stages}
    tasks = [Task(stage, after, _restart_work(works[stage], stage, progress)) for stage, after in stages.items()]
    tasks += [Task(stage, frozenset(), progress.stopped[stage].rest) for stage in sorted(resumed & read)]
    tasks += [_remaining(stage, running[stage]) for stage in sorted(used)]
    alone = finish_times(tasks, slots)[RESULT]
    unneeded = tuple(sorted(running.keys() - used))
    if not unneeded:
        return Candidate(number, alone)
    # A stage that delays nothing may finish: its output allows backtracking. Not so a block's result that this plan
    # computes differently.
    if rules.let_finish and not any(stage in plan.stages(progress.ready) for stage in unneeded):
        also = [_remaining(stage, running[stage]) for stage in unneeded]
        together = finish_times([*tasks, *also], slots)[RESULT]
        if together <= alone + rules.cancel_seconds:
            return Candidate(number, together, let_finish=unneeded)
    return Candidate(number, alone + rules.cancel_seconds, cancel=unneeded)


def resumed_stages(
    number: int, plans: Sequence[Plan], estimator: Estimator, progress: Progress, available: frozenset[StageId]
) -> frozenset[StageId]:
    """The cancelled stages that a plan resumes where it needs them: those that it would compute in the same way, or in
    another way that takes longer than the rest of the present one.

    `available`: the stages that it need not start.
    """
    plan = plans[number]

    def is_resumed(stage: StageId, stopped: StoppedStage) -> bool:
        before = plans[stopped.plan]
        if not progress.ready.issuperset(stopped.inputs) or not plan.computes_same(before, stage):
            return False
        if not plan.contains(stage):
            return False
        inputs = frozenset(stopped.inputs)
        if plan.content(stage, inputs) == before.content(stage, inputs):
            return True
        otherwise = _restart_work(estimator.work(plan, stage, available), stage, progress)
        return stopped.rest.core_seconds <= otherwise.core_seconds

    if plan.as_written:
        return frozenset()
    return frozenset(
        stage for stage, stopped in progress.stopped.items() if stage not in available and is_resumed(stage, stopped)
    )


def stragglers(progress: Progress, estimator: Estimator, stopped: Sequence[StageId]) -> dict[StageId, Straggler]:
    """The late stages among those to be cancelled."""
    late = delay_estimate(progress, estimator).rows
    return {
        stage: Straggler(late[stage], _needed_core_seconds(progress.running[stage]))
        for stage in stopped
        if stage in late
    }


def suspecting(estimator: Estimator, known: Mapping[StageId, Straggler]) -> Estimator:
    """An estimator that takes stages to have the rows that they are suspected to have."""
    rows = {stage: one.rows for stage, one in known.items()}
    return estimator.updated(rows, estimator.calibration) if rows else estimator


def with_larger(known: Mapping[StageId, Straggler], found: Mapping[StageId, Straggler]) -> dict[StageId, Straggler]:
    """All of these; of a stage in both, the larger numbers."""
    both = {
        stage: Straggler(max(one.rows, found[stage].rows), max(one.core_seconds, found[stage].core_seconds))
        for stage, one in known.items()
        if stage in found
    }
    return {**known, **found, **both}


def _needed_core_seconds(running: StageProgress) -> float:
    """The core seconds that a running stage is assumed to need; an overdue one is assumed to be two thirds done."""
    return running.work.core_seconds * running.done * (OVERDUE_FACTOR if running.done > 1.0 else 1.0)


def _restart_work(work: Work, stage: StageId, progress: Progress) -> Work:
    """The work of a stage to start; at least what it is assumed to need where it runs or ran in another way.

    Whatever delays a stage (cold executors, more rows than estimated) is assumed to delay it in any join order;
    otherwise two late ways of computing it would cancel each other forever.
    """
    running, straggler = progress.running.get(stage), progress.stragglers.get(stage)
    least = max(_needed_core_seconds(running) if running else 0.0, straggler.core_seconds if straggler else 0.0)
    return Work(max(work.core_seconds, least), work.fixed_seconds, work.tasks)


def _remaining(stage: StageId, running: StageProgress) -> Task[StageId]:
    """The remaining work of a running stage; an overdue one is assumed to be two thirds done."""
    rest = max(1.0 - running.done, running.done * (OVERDUE_FACTOR - 1.0))
    work = running.work
    return Task(
        stage, frozenset(), Work(work.core_seconds * rest, work.fixed_seconds * min(rest, 1.0), work.tasks), True
    )
