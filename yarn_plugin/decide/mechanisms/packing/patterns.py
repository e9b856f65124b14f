"""The fewest GPUs by patterns: a pattern is a set of workers that fits on one GPU; how many GPUs have each pattern?

An integer program for HiGHS, through scipy (extra `sharing`). All constraints of one GPU are monotone: what does not
fit does not with more, so patterns are enumerated depth first. Balance ties patterns together: binaries say which are
used.
"""

from collections.abc import Iterator

from yarn_plugin.decide.mechanisms.packing.placement import Placed
from yarn_plugin.decide.mechanisms.packing.problem import TOLERANCE, PackingProblem, collision
from yarn_plugin.decide.mechanisms.packing.validity import slowdowns_on

MAX_PATTERNS = 40_000
"""With more, the program is not built: the bound is that of the sums alone."""


def is_installed() -> bool:
    """Whether scipy can be imported."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return False
    return True


def least_gpus(problem: PackingProblem, time_limit_s: float) -> tuple[Placed | None, int]:
    """The best packing found, if any, and a number of GPUs below which none exists."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix

    jobs, limits = problem.jobs, problem.limits
    patterns: list[tuple[int, ...]] = []
    for pattern in _patterns(problem):
        patterns.append(pattern)
        if len(patterns) > MAX_PATTERNS:
            return None, least_by_sums(problem)
    # Slowdowns differ by at most the limit of interference: then balance forbids nothing.
    is_balanced = limits.balance >= limits.interference
    used = 0 if is_balanced else len(patterns)
    rows: list[tuple[dict[int, float], float, float]] = []
    for index, job in enumerate(jobs):
        counts = {column: float(pattern.count(index)) for column, pattern in enumerate(patterns) if index in pattern}
        rows.append((counts, float(job.workers), float(job.workers)))
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
    entries = [(row, column, value) for row, (values, _, _) in enumerate(rows) for column, value in values.items()]
    row_of, column_of, value_of = (np.array(one) for one in zip(*entries, strict=True))
    matrix = coo_matrix((value_of, (row_of, column_of)), shape=(len(rows), columns)).tocsr()
    costs, upper, integral = np.zeros(columns), np.full(columns, np.inf), np.zeros(columns)
    costs[: len(patterns)], integral[: len(patterns) + used] = 1.0, 1
    upper[len(patterns) : len(patterns) + used] = 1.0
    if not is_balanced:
        upper[low:] = limits.interference
    solved = milp(
        costs,
        constraints=LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows]),
        bounds=Bounds(np.zeros(columns), upper),
        integrality=integral,
        options={"time_limit": time_limit_s},
    )
    bound = least_by_sums(problem)
    if solved.mip_dual_bound is not None:
        bound = max(bound, int(np.ceil(solved.mip_dual_bound - 1e-6)))
    if solved.x is None:
        return None, bound
    numbers = np.rint(solved.x[: len(patterns)]).astype(int)
    return tuple(pattern for pattern, number in zip(patterns, numbers, strict=True) for _ in range(number)), bound


def least_by_sums(problem: PackingProblem) -> int:
    """A number of GPUs below which no packing exists: what all workers need of computing and of memory."""
    computing = sum(job.workers * job.computing for job in problem.jobs)
    memory = sum(job.workers * job.memory for job in problem.jobs)
    return max((-int(-(need - 1e-6) // 1) for need in (computing, memory)), default=0)


def _patterns(problem: PackingProblem) -> Iterator[tuple[int, ...]]:
    """All sets of workers that fit on one GPU, each with its jobs in ascending order."""
    jobs, limits = problem.jobs, problem.limits

    def grow(pattern: tuple[int, ...], computing: float, memory: float, increment: float) -> Iterator[tuple[int, ...]]:
        for index in range(pattern[-1] if pattern else 0, len(jobs)):
            job = jobs[index]
            more = (computing + job.computing, memory + job.memory, max(increment, job.increment))
            if more[0] > 1 + TOLERANCE or more[1] + more[2] > 1 + TOLERANCE or pattern.count(index) == job.workers:
                continue
            grown = (*pattern, index)
            if len(grown) > 1:
                slowdowns = slowdowns_on(problem, grown)
                if any(one is None or one > limits.interference + TOLERANCE for one in slowdowns):
                    continue
                if collision(tuple(jobs[one].probability for one in grown)) > limits.collision + TOLERANCE:
                    continue
            yield grown
            yield from grow(grown, *more)

    return grow((), 0.0, 0.0, 0.0)
