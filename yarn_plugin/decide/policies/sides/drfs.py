"""DRFS: online DRF, each user's shortest job first, on its faster side (section 5.1.1)."""

from collections.abc import Sequence

from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.policies.sides.poorest_first import dominant_share, start_poorest_first
from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue, sides


def choose(queue: Queue) -> Choice:
    """The shortest job of the user with the least share."""
    return start_poorest_first(queue, _shortest, dominant_share)


def _shortest(jobs: Sequence[Job], free: FreeMachines) -> tuple[Job, int] | None:
    _, _, kind, job = min(sides(jobs), key=lambda side: side[:3])
    return job, kind
