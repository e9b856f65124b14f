"""The time of one matching (AlloX): 1,000 jobs, from deep queues on ten machines to 10,000 machines.

Processor time, as the solver has a process of its own. With OR-tools (extra `allox`) if it is installed, and as in a
plain install. `gap`: how far above its bound a sum is, at most.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

from yarn_plugin.decide.mechanisms.matching import Matching, MatchingProblem, flow, match

INSTANCES = 20
SIZES = {"10000_machines": (2000, 8000), "40_machines": (20, 20), "10_machines": (5, 5)}


def measure() -> dict[str, Any]:
    """p50 and p95 in milliseconds and the largest gap, by size and install."""
    results: dict[str, Any] = {}
    solvers: dict[str, Callable[[MatchingProblem], Matching]] = {"plain": _match_plain}
    if flow.is_installed():
        solvers["extra"] = match
    for install, solver in solvers.items():
        for size, machines in SIZES.items():
            times, gaps = [], []
            for seed in range(INSTANCES):
                problem = _problem(random.Random(seed), 1000, machines)
                started = time.process_time()
                matching = solver(problem)
                times.append(1e3 * (time.process_time() - started))
                gaps.append(matching.total_s / matching.bound_s - 1)
            results[f"{install}_{size}_ms_p50"] = statistics.median(times)
            results[f"{install}_{size}_ms_p95"] = statistics.quantiles(times, n=20, method="inclusive")[-1]
            results[f"{install}_{size}_gap"] = max(gaps)
    return results


def _match_plain(problem: MatchingProblem) -> Matching:
    with mock.patch.object(flow, "is_installed", return_value=False):
        return match(problem)


def _problem(rng: random.Random, jobs: int, machines: tuple[int, int]) -> MatchingProblem:
    """Times as in the authors' Google file: 41 to 398 s on CPU, a median speedup of 4.4; 99% of the machines busy."""
    free_in = tuple(
        tuple(0.0 if rng.random() < 0.01 else rng.uniform(1, 400) for _ in range(count)) for count in machines
    )
    times = []
    for _ in range(jobs):
        on_cpu = rng.uniform(41, 398)
        times.append((max(6.0, on_cpu / rng.lognormvariate(1.48, 0.6)), on_cpu))
    return MatchingProblem(tuple(times), free_in)
