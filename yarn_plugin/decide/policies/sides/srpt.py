"""SRPT: the shortest jobs run, running ones too, with free migration: a lower bound, not a scheduler (section 5.1.1).

As the authors' simulator has it, by the estimated time of the whole job, not of what remains.
"""

from yarn_plugin.decide.mechanisms.allox import Start
from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue, sides


def choose(queue: Queue) -> Choice:
    """The shortest sides of all jobs; what runs on the same kind as before is left where it is."""
    running = {one.job.id: one for one in queue.running}
    jobs = sorted((*queue.waiting, *(one.job for one in queue.running)), key=lambda job: (job.arrived_at, job.id))
    free = FreeMachines.of(queue.free_in).machines
    for one in queue.running:
        free[one.kind].append(one.machine)
    room = [len(machines) for machines in free]
    chosen: dict[str, int] = {}
    for _, _, kind, job in sorted(sides(jobs), key=lambda side: side[:3]):
        if job.id not in chosen and room[kind]:
            chosen[job.id] = kind
            room[kind] -= 1
    kept = {id for id, one in running.items() if chosen.get(id) == one.kind}
    for id in kept:
        free[running[id].kind].remove(running[id].machine)
    starts = [Start(id, kind, free[kind].pop(0)) for id, kind in chosen.items() if id not in kept]
    return Choice(tuple(starts), tuple(id for id in running if id not in kept))
