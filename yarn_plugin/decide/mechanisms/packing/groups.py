"""Queues that have too many patterns as a whole, packed in groups of jobs: no GPU has workers of two groups.

So what is valid within the groups is valid together, and each group is packed by patterns. The jobs are dealt
to the groups by their need of computing, the largest first, so that each group has small workers beside large ones.
"""

from dataclasses import replace

from yarn_plugin.decide.mechanisms.packing import patterns
from yarn_plugin.decide.mechanisms.packing.placement import Placed, place_easygoing_first, place_greedily
from yarn_plugin.decide.mechanisms.packing.problem import PackingProblem

GROUP_JOBS = 25
"""A group has at most so many jobs: few enough for its integer program to find much in its part of the time."""

MAX_GROUPS = 4
"""Of more groups, none is packed: it would take too long."""


def pack_in_groups(problem: PackingProblem, time_limit_s: float) -> Placed | None:
    """The packing; None: there is one group, or too many. `time_limit_s`: of the integer programs of all together."""
    jobs = problem.jobs
    order = sorted(range(len(jobs)), key=lambda job: (-jobs[job].computing, job))
    count = -(-len(jobs) // GROUP_JOBS)
    if not 2 <= count <= MAX_GROUPS:
        return None
    gpus: list[tuple[int, ...]] = []
    for number in range(count):
        group = order[number::count]
        alone = replace(problem, jobs=tuple(jobs[job] for job in group))
        best, _ = patterns.least_gpus(alone, time_limit_s / count, patterns.MAX_PATTERNS // count, 0)
        found = [place_greedily(alone), place_easygoing_first(alone), *([] if best is None else [best])]
        gpus += [tuple(sorted(group[job] for job in gpu)) for gpu in min(found, key=len)]
    return tuple(gpus)
