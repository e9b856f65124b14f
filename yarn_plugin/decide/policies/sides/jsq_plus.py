"""JSQ+: each job, in order of arrival, joins the machine on which it would complete first (section 2.2).

The queues of machines are made anew at each event, with what is known then of when machines are free: where estimates
are right, each job stays where it was.
"""

from yarn_plugin.decide.mechanisms.allox import Start
from yarn_plugin.decide.policies.sides.queue import Choice, Queue


def choose(queue: Queue) -> Choice:
    """The first jobs of the queues of free machines."""
    ends = [list(waits) for waits in queue.free_in]
    starts = []
    for job in queue.waiting:
        joined = min(
            (min(ends[kind]) + seconds, kind)
            for kind, seconds in enumerate(job.times)
            if seconds is not None and ends[kind]
        )[1]
        machine = ends[joined].index(min(ends[joined]))
        if ends[joined][machine] == 0:
            starts.append(Start(job.id, joined, machine))
        # A job that takes no time keeps its machine until it ends, too.
        ends[joined][machine] += job.times[joined] or 1e-9
    return Choice(tuple(starts))
