"""DRFF: online DRF, each user's jobs in order of arrival, on GPUs wherever they can run there (section 5.1.1)."""

from collections.abc import Sequence

from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.policies.sides.poorest_first import dominant_share, start_poorest_first
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, SLOT_KIND, Choice, FreeMachines, Queue


def choose(queue: Queue) -> Choice:
    """The first job of the user with the least share."""
    return start_poorest_first(queue, _first, dominant_share)


def _first(jobs: Sequence[Job], free: FreeMachines) -> tuple[Job, int] | None:
    return jobs[0], GPU_KIND if jobs[0].times[GPU_KIND] is not None else SLOT_KIND
