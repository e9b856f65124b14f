"""AlloX+: jobs that have waited too long come first, then the shortest over both sides (section 4.4)."""

from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue
from yarn_plugin.decide.policies.sides.sjf_plus import start_shortest


def choose(queue: Queue) -> Choice:
    """The shortest jobs of those that have waited for `timeout_s`, then of the others."""
    free = FreeMachines.of(queue.free_in)
    late = [job for job in queue.waiting if queue.at - job.arrived_at > queue.timeout_s]
    start_shortest(free, late)
    started = {start.job for start in free.starts}
    start_shortest(free, [job for job in queue.waiting if job.id not in started])
    return free.choice()
