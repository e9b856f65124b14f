"""What the variants of DRF share: the user with the least dominant share starts a job, again and again (section 5.1.1).

Online DRF (A. Ghodsi et al., NSDI '11, Algorithm 1): if the next job of that user does not fit, nobody's starts.
"""

from collections.abc import Callable, Sequence

from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.policies.sides.queue import Choice, FreeMachines, Queue

Next = Callable[[Sequence[Job], FreeMachines], tuple[Job, int] | None]
"""The next of a user's jobs and its kind of machine; None: it does not fit now."""

ShareOf = Callable[[Sequence[tuple[Job, int]]], float]
"""The dominant share of a user, given what runs where."""


def start_poorest_first(queue: Queue, next_job: Next, share_of: ShareOf) -> Choice:
    """Start jobs while those of the user with the least share fit."""
    free = FreeMachines.of(queue.free_in)
    waiting: dict[str, list[Job]] = {}
    for job in queue.waiting:
        waiting.setdefault(job.user, []).append(job)
    held: dict[str, list[tuple[Job, int]]] = {user: [] for user in waiting}
    for one in queue.running:
        held.setdefault(one.job.user, []).append((one.job, one.kind))
    shares = {user: share_of(held[user]) for user in waiting}
    while free.any and waiting:
        poorest = min(waiting, key=lambda user: (shares[user], user))
        found = next_job(waiting[poorest], free)
        if found is None or not free.has(found[1]):
            break
        job, kind = found
        free.start(job, kind)
        held[poorest].append(found)
        shares[poorest] = share_of(held[poorest])
        waiting[poorest].remove(job)
        if not waiting[poorest]:
            del waiting[poorest]
    return free.choice()


def dominant_share(held: Sequence[tuple[Job, int]]) -> float:
    """The larger of the shares of all GPUs and of all slots."""
    by_kind: dict[int, float] = {}
    for job, kind in held:
        by_kind[kind] = by_kind.get(kind, 0.0) + job.shares[kind]
    return max(by_kind.values(), default=0.0)
