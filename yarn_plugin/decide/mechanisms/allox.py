"""Which jobs start now on which machines (AlloX, section 3.3): fair among users, then by the matching.

Only jobs of the users with the least progress are matched; a machine whose matched jobs are all someone else's waits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.matching import MatchingProblem, match


@dataclass(frozen=True, slots=True)
class Job:
    """A waiting job. `times`: its seconds on a machine of each kind; None where it cannot run. `shares`: for each kind,
    the dominant share of the cluster that it takes there, from 0 to 1. `arrived_at`: seconds."""

    id: str
    user: str
    times: tuple[float | None, ...]
    shares: tuple[float, ...]
    arrived_at: float = 0.0

    def value_on(self, kind: int) -> float:
        """What it adds to its user's progress while it runs there: its dominant share on the kind that is fastest for
        it, less in proportion where it is slower (section 3.3.2)."""
        fastest = min((seconds, index) for index, seconds in enumerate(self.times) if seconds is not None)
        seconds = self.times[kind]
        assert seconds is not None, "it cannot run there"
        return self.shares[fastest[1]] * (fastest[0] / seconds if seconds else 1.0)


@dataclass(frozen=True, slots=True)
class Start:
    """Start this job on this machine (its index within its kind)."""

    job: str
    kind: int
    machine: int


@dataclass(frozen=True, slots=True)
class Starts:
    """The jobs to start now. `alpha`: the share of the users that were considered last; larger than asked for if
    machines would have stayed idle (section 4.4)."""

    jobs: tuple[Start, ...]
    alpha: float


def choose_starts(
    waiting: Sequence[Job],
    free_in: tuple[tuple[float, ...], ...],
    progress: Mapping[str, float],
    alpha: float,
    overdue: Sequence[str] = (),
) -> Starts:
    """Choose jobs for all machines that are free now (Algorithm 2).

    `waiting`: in order of arrival. `free_in`: for each kind, in how many seconds each of its machines is free.
    `progress`: of all users, those without waiting jobs too: the sum of the values of their running jobs. `alpha`: the
    share of the users that is considered, from 0 (one user) to 1; doubled while no machine can start a job. `overdue`:
    users that start their shortest job first, whether or not another machine were worth waiting for, in this order
    (see `long_run_progress`).
    """
    waits, progress_now = [list(waits_of_kind) for waits_of_kind in free_in], dict(progress)
    left = {job.id: job for job in waiting if _can_run(job, free_in)}
    # Users first seen in the queue have made no progress yet.
    progress_now = {**{job.user: 0.0 for job in waiting}, **progress_now}
    starts = [start for user in overdue if (start := _start_shortest(user, left, waits, progress_now)) is not None]
    while left and any(wait == 0 for waits_of_kind in waits for wait in waits_of_kind):
        considered = _least_progress(progress_now, alpha)
        started = _start_matched(left, waits, progress_now, considered, alpha)
        if started:
            starts += started
        elif alpha >= 1:
            break
        else:
            alpha = min(1.0, max(2 * alpha, 1 / len(progress_now)))
    return Starts(tuple(starts), alpha)


def _can_run(job: Job, free_in: tuple[tuple[float, ...], ...]) -> bool:
    return any(seconds is not None and free_in[kind] for kind, seconds in enumerate(job.times))


def _least_progress(progress: Mapping[str, float], alpha: float) -> frozenset[str]:
    """The share `alpha` of all users, at least one, with the least progress; of equal ones, the first by name."""
    # A little less than the exact product: 0.1 of 30 users are 3, not 4.
    count = max(1, math.ceil(alpha * len(progress) - 1e-9))
    return frozenset(sorted(progress, key=lambda user: (progress[user], user))[:count])


def _start_shortest(
    user: str, left: dict[str, Job], waits: list[list[float]], progress: dict[str, float]
) -> Start | None:
    """Start the job of a user that is the shortest on a free machine, if there is one; updates as `_start_matched`."""
    sides = [
        (seconds, place, kind, waits[kind].index(0.0), job)
        for place, job in enumerate(left.values())
        for kind, seconds in enumerate(job.times)
        if job.user == user and seconds is not None and 0.0 in waits[kind]
    ]
    if not sides:
        return None
    seconds, _, kind, machine, job = min(sides, key=lambda side: side[:3])
    del left[job.id]
    waits[kind][machine] = max(seconds, math.ulp(1.0))
    progress[user] += job.value_on(kind)
    return Start(job.id, kind, machine)


def _start_matched(
    left: dict[str, Job], waits: list[list[float]], progress: dict[str, float], considered: frozenset[str], alpha: float
) -> list[Start]:
    """Start the first matched job of each machine that is free, while the same users are considered.

    Updates what is left, when machines are free and users' progress. Without another user, the matching of the jobs
    that are left stays optimal after a start (Bellman's principle), so it is not solved again.
    """
    jobs = [job for job in left.values() if job.user in considered]
    problem = MatchingProblem(tuple(job.times for job in jobs), tuple(tuple(of_kind) for of_kind in waits))
    starts = []
    for (kind, machine), index in sorted(match(problem).first_jobs().items()):
        if waits[kind][machine] > 0:
            continue
        job = jobs[index]
        seconds = job.times[kind]
        assert seconds is not None
        starts.append(Start(job.id, kind, machine))
        del left[job.id]
        # A job that takes no time keeps its machine until it ends, too.
        waits[kind][machine] = max(seconds, math.ulp(1.0))
        progress[job.user] += job.value_on(kind)
        if _least_progress(progress, alpha) != considered:
            break
    return starts
