"""AlloX: min-cost matching of the jobs of the users with the least progress (section 3, Algorithm 2)."""

from yarn_plugin.decide.mechanisms.allox import choose_starts
from yarn_plugin.decide.policies.sides.queue import Choice, Queue


def choose(queue: Queue) -> Choice:
    """The jobs that are matched to free machines."""
    starts = choose_starts(queue.waiting, queue.free_in, queue.progress(), queue.alpha, queue.overdue)
    return Choice(starts.jobs)
