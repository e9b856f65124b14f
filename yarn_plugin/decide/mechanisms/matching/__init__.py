"""Exact min-cost matching of jobs to machines of several kinds, such as GPUs and slots of cores (AlloX, section 3).

Pure and deterministic. `match(problem)` minimises the sum of completion times over all schedules of the jobs, without
preemption and without knowledge of later arrivals.
"""

import math

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.matching import flow
from yarn_plugin.decide.mechanisms.matching.classes import Classes, Floats
from yarn_plugin.decide.mechanisms.matching.problem import LONGEST_S, Match, Matching, MatchingProblem

MIN_FLOW_JOBS = 100
"""From this many jobs on, OR-tools is faster, if it is installed (extra `allox`)."""

DEEPER = 1.15
"""How much deeper than a greedy matching the flow may stack jobs at first: up to 1.12 times was seen in deep queues.
A guess that is too small costs a second flow, one that is too large some more arcs."""

MAX_WORK = 150_000_000
"""Limit of the numbers computed for one problem, one to two seconds; jobs that are left then are inserted greedily."""

BOUND_STEPS = 60
"""Steps of the search for prices that prove a better bound, if the matching is not exact."""

STEP_FACTOR = 0.93
"""The factor by which each of these steps is shorter than the one before."""


def match(problem: MatchingProblem, max_work: int = MAX_WORK) -> Matching:
    """Match each job to a machine and a position on it.

    The result is exact unless the queue is deep on few machines, OR-tools is not installed and `max_work` is exceeded:
    then `bound_s` tells how far from exact it may be.

    Raises:
        BadInputError: see `MatchingProblem.check`.
    """
    problem.check()
    if not problem.times:
        return Matching((), 0.0, 0.0)
    seconds = np.array(
        [[np.inf if one is None or not problem.free_in[kind] else one for kind, one in enumerate(times)]
         for times in problem.times]
    )  # fmt: skip
    free_in = [np.array(free) for free in problem.free_in]
    orders = [free.argsort(kind="stable") for free in free_in]
    waits = [free[order] for free, order in zip(free_in, orders, strict=True)]
    # The longest first: they take the last positions, where fewer jobs wait for them.
    shortest = seconds.min(axis=1)
    longest_first = sorted(range(len(seconds)), key=lambda job: (-shortest[job], job))
    greedy = Classes(seconds, waits)
    for job in longest_first:
        greedy.insert_greedily(job)
    if len(seconds) >= MIN_FLOW_JOBS and flow.is_installed():
        depths = [math.ceil(DEEPER * greedy.kinds.count(kind)) + 2 for kind in range(len(waits))]
        by_class = flow.classes_by_flow(seconds, waits, depths)
        matching = _matching(seconds, waits, orders, by_class)
        return Matching(matching.matches, matching.total_s, matching.total_s)
    classes, inserted = Classes(seconds, waits), 0
    for job in longest_first:
        if classes.work >= max_work:
            break
        classes.insert(job)
        inserted += 1
    for job in longest_first[inserted:]:
        classes.insert_greedily(job)
    is_exact = inserted == len(longest_first)
    if not is_exact:
        classes.sort_within_kinds()
        greedy.sort_within_kinds()
    best = classes if is_exact or classes.total <= greedy.total else greedy
    matching = _matching(seconds, waits, orders, _by_class(best))
    bound = matching.total_s if is_exact else _bound(best)
    return Matching(matching.matches, matching.total_s, min(bound, matching.total_s))


def _by_class(classes: Classes) -> flow.ByClass:
    return {(classes.kinds[a], classes.positions[a]): jobs for a, jobs in enumerate(classes.jobs) if jobs}


def _matching(seconds: Floats, waits: list[Floats], orders: list[NDArray[np.intp]], by_class: flow.ByClass) -> Matching:
    """The jobs of a class take its machines that are free first; which job takes which of them costs the same."""
    matches: list[Match] = []
    total = 0.0
    for (kind, position), jobs in sorted(by_class.items()):
        total += position * float(seconds[jobs, kind].sum()) + float(waits[kind][: len(jobs)].sum())
        matches += [
            Match(job, kind, int(machine), position) for job, machine in zip(sorted(jobs), orders[kind], strict=False)
        ]
    return Matching(tuple(sorted(matches, key=lambda one: one.job)), total, 0.0)


def _bound(classes: Classes) -> float:
    """The best lower bound of a few subgradient steps from the classes' own prices."""
    price = classes.prices()
    best, growth = classes.bound(price)
    step = classes.total - best
    for _ in range(BOUND_STEPS):
        if not growth.any():
            break
        price = np.maximum(0.0, price + step * growth / float(growth @ growth))
        found, growth = classes.bound(price)
        best, step = max(best, found), STEP_FACTOR * step
    return best


__all__ = ["LONGEST_S", "MAX_WORK", "Match", "Matching", "MatchingProblem", "match"]
