"""SJF+: for each kind of machine a queue of all jobs, the shortest there first (section 2.2)."""

from collections.abc import Sequence

from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue, sides


def choose(queue: Queue) -> Choice:
    """For each free machine the job that is shortest there; where several are free, the shortest of all first."""
    free = FreeMachines.of(queue.free_in)
    start_shortest(free, queue.waiting)
    return free.choice()


def start_shortest(free: FreeMachines, jobs: Sequence[Job]) -> None:
    """Start the shortest side of any job for which a machine is free, again and again."""
    started: set[str] = set()
    for _, _, kind, job in sorted(sides(jobs), key=lambda side: side[:3]):
        if not free.any:
            return
        if job.id not in started and free.has(kind):
            free.start(job, kind)
            started.add(job.id)
