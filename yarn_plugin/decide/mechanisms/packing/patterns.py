"""The fewest GPUs by patterns: a pattern is a set of workers that fits on one GPU; how many GPUs have each pattern?

An integer program for HiGHS, through scipy (extra `sharing`). All constraints of one GPU are monotone: what does not
fit does not with more, so patterns are enumerated depth first. Balance ties patterns together: binaries say which are
used. They make the program hard; the linear one without balance is easy, gives a bound that is nearly as good, and says
which patterns are worth a binary.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yarn_plugin.decide.mechanisms.packing.placement import Placed
from yarn_plugin.decide.mechanisms.packing.problem import TOLERANCE, PackingProblem
from yarn_plugin.decide.mechanisms.packing.validity import slowdowns_on

MAX_PATTERNS = 15_000
"""With more, nothing is built: the bound is that of the sums alone."""

FEW_PATTERNS = 500
"""Up to so many, the integer program may have all of them even where balance ties them together."""

PATTERNS_PER_JOB = 4
"""So many are tried before: with fewer it finds more in its time, unless their balance does not allow it."""

BALANCED_JOBS = 50
"""Of more jobs it is then not built: it would find nothing."""


def is_installed() -> bool:
    """Whether scipy can be imported."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return False
    return True


def least_gpus(
    problem: PackingProblem, time_limit_s: float, max_patterns: int = MAX_PATTERNS, few_patterns: int = FEW_PATTERNS
) -> tuple[Placed | None, int]:
    """The best packing found, if any, and a number of GPUs below which none exists. `time_limit_s`: of the integer
    program; its building and the bound are limited by the number of patterns.
    """
    bound = least_by_sums(problem)
    patterns = list(itertools.islice(_patterns(problem), max_patterns + 1))
    if len(patterns) > max_patterns:
        return None, bound
    relaxed, reduced_costs = _without_balance(problem, patterns)
    bound = max(bound, relaxed)
    if not _is_balanced(problem) and len(problem.jobs) > BALANCED_JOBS:
        return None, bound
    found = []
    if not _is_balanced(problem) and len(patterns) > PATTERNS_PER_JOB * len(problem.jobs):
        by_cost = sorted(range(len(patterns)), key=reduced_costs.__getitem__)
        promising = set(by_cost[: PATTERNS_PER_JOB * len(problem.jobs)])
        # Each worker alone too, so that there is a packing.
        chosen = [one for column, one in enumerate(patterns) if column in promising or len(one) == 1]
        has_few = len(patterns) <= few_patterns
        best, _ = _integer_program(problem, chosen, time_limit_s / 2 if has_few else time_limit_s)
        if not has_few or (best is not None and len(best) <= bound):
            return best, bound
        time_limit_s /= 2
        found = [] if best is None else [best]
    best, proven = _integer_program(problem, patterns, time_limit_s)
    found += [] if best is None else [best]
    return min(found, key=len, default=None), max(bound, proven)


def _is_balanced(problem: PackingProblem) -> bool:
    """Slowdowns differ by at most the limit of interference: then balance forbids nothing."""
    return problem.limits.balance >= problem.limits.interference


def _counts(problem: PackingProblem, patterns: Sequence[tuple[int, ...]]) -> list[dict[int, float]]:
    """For each job, the patterns (their columns) that have workers of it, and how many."""
    counts: list[dict[int, float]] = [{} for _ in problem.jobs]
    for column, pattern in enumerate(patterns):
        for index in pattern:
            counts[index][column] = counts[index].get(column, 0.0) + 1.0
    return counts


def _without_balance(problem: PackingProblem, patterns: Sequence[tuple[int, ...]]) -> tuple[int, Sequence[float]]:
    """Parts of GPUs, and no balance: a number of GPUs below which no packing exists, and each pattern's reduced cost,
    the lower, the likelier it is used.
    """
    import numpy as np
    from scipy.optimize import linprog

    matrix = _sparse(_counts(problem, patterns), len(patterns))
    workers = [float(job.workers) for job in problem.jobs]
    solved = linprog(np.ones(len(patterns)), A_eq=matrix, b_eq=workers, method="highs")
    assert solved.success, solved.message
    return int(np.ceil(solved.fun - 1e-6)), 1.0 - matrix.T @ solved.eqlin.marginals


def _sparse(rows: Sequence[Mapping[int, float]], columns: int) -> Any:
    import numpy as np
    from scipy.sparse import coo_matrix

    entries = [(row, column, value) for row, values in enumerate(rows) for column, value in values.items()]
    row_of, column_of, value_of = (np.array(one) for one in zip(*entries, strict=True))
    return coo_matrix((value_of, (row_of, column_of)), shape=(len(rows), columns)).tocsr()


def _integer_program(
    problem: PackingProblem, patterns: Sequence[tuple[int, ...]], time_limit_s: float
) -> tuple[Placed | None, int]:
    """The best packing of these patterns, if any is found, and a number of GPUs below which there is none of them."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    jobs, limits = problem.jobs, problem.limits
    is_balanced = _is_balanced(problem)
    used = 0 if is_balanced else len(patterns)
    rows = [
        (count, float(job.workers), float(job.workers))
        for count, job in zip(_counts(problem, patterns), jobs, strict=True)
    ]
    low, high = len(patterns) + used, len(patterns) + used + len(jobs)
    if not is_balanced:
        for column, pattern in enumerate(patterns):
            at_most = min(jobs[index].workers // pattern.count(index) for index in set(pattern))
            rows.append(({column: 1.0, len(patterns) + column: -float(at_most)}, -np.inf, 0.0))
            for index, slowdown in dict(zip(pattern, slowdowns_on(problem, pattern), strict=True)).items():
                assert slowdown is not None
                binary, most = len(patterns) + column, limits.interference
                # low <= slowdown and high >= slowdown, if the pattern is used.
                rows.append(({low + index: 1.0, binary: most}, -np.inf, slowdown + most))
                rows.append(({high + index: 1.0, binary: -most}, slowdown - most, np.inf))
        for index in range(len(jobs)):
            rows.append(({high + index: 1.0, low + index: -1.0}, -np.inf, limits.balance))
    columns = high + len(jobs) if not is_balanced else len(patterns)
    costs, upper, integral = np.zeros(columns), np.full(columns, np.inf), np.zeros(columns)
    costs[: len(patterns)], integral[: len(patterns) + used] = 1.0, 1
    upper[len(patterns) : len(patterns) + used] = 1.0
    if not is_balanced:
        upper[low:] = limits.interference
    matrix = _sparse([values for values, _, _ in rows], columns)
    solved = milp(
        costs,
        constraints=LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows]),
        bounds=Bounds(np.zeros(columns), upper),
        integrality=integral,
        options={"time_limit": time_limit_s},
    )
    proven = 0 if solved.mip_dual_bound is None else int(np.ceil(solved.mip_dual_bound - 1e-6))
    if solved.x is None:
        return None, proven
    numbers = np.rint(solved.x[: len(patterns)]).astype(int)
    return tuple(pattern for pattern, number in zip(patterns, numbers, strict=True) for _ in range(number)), proven


def least_by_sums(problem: PackingProblem) -> int:
    """A number of GPUs below which no packing exists: what all workers need of computing and of memory."""
    computing = sum(job.workers * job.computing for job in problem.jobs)
    memory = sum(job.workers * job.memory for job in problem.jobs)
    return max((-int(-(need - 1e-6) // 1) for need in (computing, memory)), default=0)


@dataclass(frozen=True, slots=True)
class _Gpu:
    """Workers on a GPU, by their jobs, and what they come to: see `Gpus`."""

    jobs: tuple[int, ...] = ()
    slowdowns: tuple[float, ...] = ()
    computing: float = 0.0
    memory: float = 0.0
    increment: float = 0.0
    none: float = 1.0
    one: float = 0.0


def _patterns(problem: PackingProblem) -> Iterator[tuple[int, ...]]:
    """All sets of workers that fit on one GPU, each with its jobs in ascending order."""

    def grow(gpu: _Gpu, candidates: Sequence[int]) -> Iterator[tuple[int, ...]]:
        # What does not fit here does not with more.
        fitting = [(index, grown) for index in candidates if (grown := _with(problem, gpu, index)) is not None]
        for place, (_, grown) in enumerate(fitting):
            yield grown.jobs
            yield from grow(grown, [index for index, _ in fitting[place:]])

    return grow(_Gpu(), range(len(problem.jobs)))


def _with(problem: PackingProblem, gpu: _Gpu, index: int) -> _Gpu | None:
    """A GPU with a worker more; None: it does not fit."""
    job, limits = problem.jobs[index], problem.limits
    computing, memory = gpu.computing + job.computing, gpu.memory + job.memory
    increment = max(gpu.increment, job.increment)
    if computing > 1 + TOLERANCE or memory + increment > 1 + TOLERANCE or gpu.jobs.count(index) == job.workers:
        return None
    none = gpu.none * (1 - job.probability)
    one = gpu.one * (1 - job.probability) + gpu.none * job.probability
    if 1 - none - one > limits.collision + TOLERANCE:
        return None
    own, slowdowns = 0.0, []
    for other, slowdown in zip(gpu.jobs, gpu.slowdowns, strict=True):
        kind = problem.jobs[other].kind
        theirs, mine = problem.slowdowns.get((kind, job.kind)), problem.slowdowns.get((job.kind, kind))
        if theirs is None or mine is None:
            return None
        own += mine
        slowdowns.append(slowdown + theirs)
    if max((own, *slowdowns)) > limits.interference + TOLERANCE:
        return None
    return _Gpu((*gpu.jobs, index), (*slowdowns, own), computing, memory, increment, none, one)
