"""Stages in virtual time: their true sizes, and their progress on the slots that a query holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from qoop.estimate.calibration import Calibration
from qoop.estimate.cost import Work
from qoop.estimate.estimator import Estimator
from qoop.plans.plan import Plan, StageId
from qoop.plans.trees import joins
from qoop.replan.events import StageFinished

EPSILON = 1e-9
"""Seconds or core seconds that count as 0."""


def true_sizes(estimated: Estimator, plans: Sequence[Plan], row_error: float, random: Random) -> Estimator:
    """The true sizes of a query's stages, as an estimator that has counted every join.

    Every uncertain filter or join is wrong by a factor whose logarithm is normal, with `row_error` times its
    uncertainty as standard deviation; so sets that share a join share its error, as in reality.
    """
    counted: dict[StageId, float] = {}
    for block, rows in sorted(estimated.rows.items()):
        factors = [
            (source.relations, random.gauss(0.0, row_error * source.uncertainty)) for source in rows.prior.sources
        ]
        trees = [plan.block_plans[block].tree for plan in plans if block in plan.block_plans]
        for relations in sorted({join.relations for tree in trees for join in joins(tree)}):
            error = sum(factor for part, factor in factors if part & ~relations == 0)
            counted[StageId(block, relations)] = max(rows.prior.rows(relations) * exp(error), 1.0)
    return estimated.updated(counted, Calibration())


@dataclass(slots=True)
class _Stage:
    """A running stage: its work in all, and what is left of it."""

    started_at: float
    work: Work
    fixed_left: float
    core_left: float


class Stages:
    """The running stages of a query.

    Each stage first needs its fixed time, then shares the slots equally with the others, as in `qoop.estimate.packing`.
    `slots`: those that the query holds.
    """

    def __init__(self) -> None:
        self.slots = 0.0
        self._running: dict[StageId, _Stage] = {}
        self._at = 0.0

    def start(self, at: float, stage: StageId, work: Work) -> None:
        """Start a stage."""
        self._at = at
        self._running[stage] = _Stage(at, work, work.fixed_seconds, work.core_seconds)

    def stop(self, stages: Sequence[StageId]) -> None:
        """Cancel stages; their work is lost."""
        for stage in stages:
            self._running.pop(stage, None)

    def next_at(self) -> float | None:
        """When the next stage ends, or ends its fixed time, if nothing changes; None: never."""
        speeds = self._speeds()
        times = [one.fixed_left for one in self._running.values() if one.fixed_left > EPSILON]
        times += [self._running[stage].core_left / speed for stage, speed in speeds.items() if speed > EPSILON]
        return self._at + min(times) if times else None

    def work_until(self, at: float, true: Estimator) -> Iterator[StageFinished]:
        """Advance to a time. Yields the stages that have finished by then, with their measurements."""
        while self._at < at and self._running:
            due = self.next_at()
            until = at if due is None else min(max(due, self._at + EPSILON), at)
            self._advance(until - self._at)
            self._at = until
        self._at = max(self._at, at)
        for stage, one in list(self._running.items()):
            if one.fixed_left <= EPSILON and one.core_left <= EPSILON * max(one.work.core_seconds, 1.0):
                del self._running[stage]
                rows = true.stage_rows(stage)
                yield StageFinished(stage, rows, rows * 8.0, at - one.started_at, one.work.core_seconds)

    def _advance(self, seconds: float) -> None:
        speeds = self._speeds()
        for stage, one in self._running.items():
            if stage in speeds:
                one.core_left = max(one.core_left - seconds * speeds[stage], 0.0)
            else:
                one.fixed_left = max(one.fixed_left - seconds, 0.0)

    def _speeds(self) -> dict[StageId, float]:
        """The slots of each computing stage: equal parts, but what a stage has no tasks for goes to the others."""
        computing = {stage: one.work.tasks for stage, one in self._running.items() if one.fixed_left <= EPSILON}
        speeds, free = dict[StageId, float](), self.slots
        for rank, (stage, tasks) in enumerate(sorted(computing.items(), key=lambda pair: (pair[1], pair[0]))):
            speeds[stage] = min(tasks, free / (len(computing) - rank))
            free -= speeds[stage]
        return speeds
