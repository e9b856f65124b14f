"""ES: every user has an equal, fixed part of the GPUs and of the slots, for the shortest jobs there (section 5.1.1).

Where the machines do not divide evenly, parts are rounded up, and users that hold the fewest come first.
"""

from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue, shortest


def choose(queue: Queue) -> Choice:
    """GPUs first: for each user the job that is shortest on a free machine, within the user's part."""
    free = FreeMachines.of(queue.free_in)
    waiting = list(queue.waiting)
    for kind, machines in enumerate(queue.free_in):
        part = -(-len(machines) // max(len(queue.users), 1))
        held = dict.fromkeys(queue.users, 0)
        for one in queue.running:
            if one.kind == kind:
                held[one.job.user] += 1
        while free.has(kind):
            usable = [job for job in waiting if job.times[kind] is not None and held[job.user] < part]
            if not usable:
                break
            fewest = min(held[job.user] for job in usable)
            job = shortest([job for job in usable if held[job.user] == fewest], kind)
            assert job is not None
            free.start(job, kind)
            waiting.remove(job)
            held[job.user] += 1
    return free.choice()
