"""The completion time of a plan: its stages packed onto the slots of a share (QOOP section 2.3.4)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, Generic, Protocol, TypeVar

from qoop.estimate.cost import Work


class Ordered(Hashable, Protocol):
    """What names a stage: of two that are equally long the lesser starts first."""

    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Ordered)


@dataclass(frozen=True, slots=True)
class Task(Generic[Key]):
    """A stage to pack: the stages that it waits for, and its work (if it is `running`, the remaining work)."""

    key: Key
    depends_on: frozenset[Key]
    work: Work
    running: bool = False


MAX_CONCURRENT_STAGES = 4
"""Maximum number of concurrent stages, also limited by the slots."""


def max_concurrent(slots: float) -> int:
    """How many stages of a query run at the same time on a share."""
    return int(max(1, min(MAX_CONCURRENT_STAGES, slots)))


def completion_time(stages: Sequence[Task[Key]], slots: float) -> float:
    """Seconds until all stages have finished on a constant number of slots.

    The shortest ready stages start first, at most `max_concurrent` at the same time. A stage first spends its fixed
    time; then these stages divide the slots equally, each up to its number of tasks (Spark's FAIR pools; Tetris, with
    which QOOP packs, does the same if all tasks have the size of a slot).
    """
    return max(finish_times(stages, slots).values(), default=0.0)


def finish_times(stages: Sequence[Task[Key]], slots: float) -> Mapping[Key, float]:
    """Seconds until each stage has finished; infinite for one whose work is infinite or NaN, and those behind it."""
    done: dict[Key, float] = {}
    fixed = {stage.key: _or_never(stage.work.fixed_seconds) for stage in stages}
    left = {stage.key: _or_never(stage.work.core_seconds) for stage in stages}
    running = [stage for stage in stages if stage.running]
    ranked = [stage for stage in stages if not stage.running]
    ranked.sort(key=lambda stage: (_or_never(stage.work.seconds(slots)), stage.key))
    waiting = {stage.key: stage.depends_on & fixed.keys() for stage in ranked}
    places, now = max_concurrent(slots), 0.0
    while running or waiting:
        for stage in ranked if waiting and len(running) < places else ():
            if stage.key in waiting and done.keys() >= waiting[stage.key]:
                del waiting[stage.key]
                running.append(stage)
                if len(running) == places:
                    break
        computing = [stage for stage in running if fixed[stage.key] <= _NOTHING]
        speeds = _divide(computing, slots)
        steps = [fixed[stage.key] for stage in running if fixed[stage.key] > _NOTHING]
        steps += [_or_never(left[key] / speed) for key, speed in speeds.items()]
        step = max(min(steps), 0.0)
        if step == inf:
            return done | dict.fromkeys([*(stage.key for stage in running), *waiting], inf)
        now += step
        for stage in running:
            key = stage.key
            if fixed[key] > _NOTHING:
                fixed[key] -= step
            else:
                left[key] -= step * speeds[key]
            if fixed[key] <= _NOTHING and left[key] <= _NOTHING:
                done[key] = now
        running = [stage for stage in running if stage.key not in done]
    return done


_NOTHING = 1e-9


def _or_never(seconds: float) -> float:
    """The seconds; infinite if they are undefined."""
    return inf if isnan(seconds) else seconds


def _divide(stages: Sequence[Task[Key]], slots: float) -> dict[Key, float]:
    """Divide the slots equally; what a stage has no tasks for goes to the others."""
    if len(stages) == 1:
        return {stages[0].key: max(min(stages[0].work.tasks, slots), _NOTHING)}
    speeds: dict[Key, float] = {}
    free = slots
    for rank, stage in enumerate(sorted(stages, key=lambda stage: stage.work.tasks)):
        part = min(stage.work.tasks, free / (len(stages) - rank))
        speeds[stage.key] = max(part, _NOTHING)
        free -= part
    return speeds
