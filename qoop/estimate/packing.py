"""When a plan finishes: its stages packed onto the slots of a share (QOOP, section 2.3.4, completion time)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from qoop.estimate.cost import Work

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Task(Generic[Key]):
    """A stage to pack: what it must wait for, and its work (what is left of it, where it runs already)."""

    key: Key
    depends_on: frozenset[Key]
    work: Work


def completion_time(stages: Sequence[Task[Key]], slots: float) -> float:
    """Seconds until all stages are done, if this many slots stay.

    Ready stages run side by side and divide the slots equally, none more than it has tasks for (Spark's FAIR pools;
    Tetris, which the paper packs with, does the same where all tasks have the size of a slot). Then each needs its
    fixed time, which no slot shortens.
    """
    return max(finish_times(stages, slots).values(), default=0.0)


def finish_times(stages: Sequence[Task[Key]], slots: float) -> Mapping[Key, float]:
    """When each stage is done."""
    done: dict[Key, float] = {}
    fixed = {stage.key: stage.work.fixed_seconds for stage in stages}
    left = {stage.key: stage.work.core_seconds for stage in stages}
    waiting = {stage.key: stage for stage in stages}
    known = frozenset(waiting)
    now = 0.0
    while waiting:
        ready = [stage for stage in waiting.values() if not (stage.depends_on & known) - done.keys()]
        computing = [stage for stage in ready if fixed[stage.key] <= _NOTHING]
        speeds = _divide(computing, slots)
        steps = [fixed[stage.key] for stage in ready if fixed[stage.key] > _NOTHING]
        steps += [left[key] / speed for key, speed in speeds.items()]
        step = max(min(steps), 0.0)
        now += step
        for stage in ready:
            key = stage.key
            if fixed[key] > _NOTHING:
                fixed[key] -= step
            else:
                left[key] -= step * speeds[key]
            if fixed[key] <= _NOTHING and left[key] <= _NOTHING:
                done[key] = now
                del waiting[key]
    return done


_NOTHING = 1e-9


def _divide(stages: Sequence[Task[Key]], slots: float) -> dict[Key, float]:
    """Slots for each stage: equal parts, but what one has no tasks for goes to the others."""
    speeds: dict[Key, float] = {}
    free = slots
    for rank, stage in enumerate(sorted(stages, key=lambda stage: stage.work.tasks)):
        part = min(stage.work.tasks, free / (len(stages) - rank))
        speeds[stage.key] = max(part, _NOTHING)
        free -= part
    return speeds
