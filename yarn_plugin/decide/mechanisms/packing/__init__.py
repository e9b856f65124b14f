"""Packing workers onto shared GPUs by how much they disturb each other (OJPP, sections 3 and 4): `pack(problem)`.

Pure but for the time limit of the integer program, so it belongs in the solver's worker process.
"""

from yarn_plugin.decide.mechanisms.packing import groups, patterns
from yarn_plugin.decide.mechanisms.packing.adjustment import Move, adjust
from yarn_plugin.decide.mechanisms.packing.placement import place_beside, place_easygoing_first, place_greedily
from yarn_plugin.decide.mechanisms.packing.problem import Job, Limits, Packing, PackingProblem, Slowdowns, collision
from yarn_plugin.decide.mechanisms.packing.validity import Violation, slowdowns_on, violations

TIME_LIMIT_S = 2.0

PROGRAM_SHARE, GROUPS_SHARE = 0.8, 0.6
"""The part of the time limit that the integer program has, or those of groups. The rest is for what is limited by its
size: the two algorithms, patterns and the bound, which take longest where there are groups.
"""


def pack(problem: PackingProblem, time_limit_s: float = TIME_LIMIT_S) -> Packing:
    """The packing with the fewest GPUs that is found within a time limit, and how few it could be at best.

    Without the extra `sharing` (scipy) it is the better one of the paper's two algorithms.

    Raises:
        BadInputError: see `PackingProblem.check`.
    """
    problem.check()
    if not problem.jobs:
        return Packing((), 0)
    found = [place_greedily(problem), place_easygoing_first(problem)]
    bound = patterns.least_by_sums(problem)
    if patterns.is_installed():
        best, bound = patterns.least_gpus(problem, PROGRAM_SHARE * time_limit_s)
        if best is None:
            best = groups.pack_in_groups(problem, GROUPS_SHARE * time_limit_s)
        if best is not None and not violations(problem, best):
            found.append(best)
    return Packing(min(found, key=len), bound)


__all__ = [
    "Job",
    "Limits",
    "Move",
    "Packing",
    "PackingProblem",
    "Slowdowns",
    "Violation",
    "adjust",
    "collision",
    "pack",
    "place_beside",
    "place_easygoing_first",
    "place_greedily",
    "slowdowns_on",
    "violations",
]
