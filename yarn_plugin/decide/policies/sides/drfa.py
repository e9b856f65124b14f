"""DRFA: online DRF of slots alone: a GPU counts as so many slots as it is faster on average (section 5.1.1)."""

from collections.abc import Sequence

from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.policies.sides.poorest_first import start_poorest_first
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, SLOT_KIND, Choice, FreeMachines, Queue, shortest


def choose(queue: Queue) -> Choice:
    """Of the user with the least share of all slots: the job that is shortest on a GPU, else on a slot."""
    gpus, slots = len(queue.free_in[GPU_KIND]), len(queue.free_in[SLOT_KIND])
    total = gpus * queue.slots_per_gpu + slots

    def share_of(held: Sequence[tuple[Job, int]]) -> float:
        return sum(queue.slots_per_gpu if kind == GPU_KIND else 1.0 for _, kind in held) / total

    return start_poorest_first(queue, _shortest_on_what_is_free, share_of)


def _shortest_on_what_is_free(jobs: Sequence[Job], free: FreeMachines) -> tuple[Job, int] | None:
    for kind in (GPU_KIND, SLOT_KIND):
        job = shortest(jobs, kind) if free.has(kind) else None
        if job is not None:
            return job, kind
    return None
