"""BF: each job on its fastest side, in order of arrival, however long the queue there is (section 2.2)."""

from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue, fastest_kind


def choose(queue: Queue) -> Choice:
    """The first jobs of the queue of each kind."""
    free = FreeMachines.of(queue.free_in)
    for job in queue.waiting:
        kind = fastest_kind(job)
        if free.has(kind):
            free.start(job, kind)
    return free.choice()
