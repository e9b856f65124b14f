"""SJF: one queue by the jobs' least times; each starts on the free machine that is fastest for it (section 2.2)."""

from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue


def choose(queue: Queue) -> Choice:
    """The shortest jobs, while machines are free."""
    free = FreeMachines.of(queue.free_in)
    for job in sorted(queue.waiting, key=lambda job: min(seconds for seconds in job.times if seconds is not None)):
        if not free.any:
            break
        usable = [(seconds, kind) for kind, seconds in enumerate(job.times) if seconds is not None and free.has(kind)]
        if usable:
            free.start(job, min(usable)[1])
    return free.choice()
