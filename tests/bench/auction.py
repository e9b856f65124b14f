"""The time of one round of the auction: optimum and payments, for 8 to 64 bidders and 256 and 2,048 GPUs.

Processor time, as the solver has a process of its own. "exact": the optimum is proven; "decided": the number of GPUs
that a winner keeps is what the exact share gives.
"""

import statistics
import time
from typing import Any, get_args

from tests.bench.auction_rounds import Demand, Names, round_of
from yarn_plugin.decide.mechanisms.partial_allocation import PartialAllocationProblem, allocate

SIZES = ((256, (8, 16, 32, 64)), (2048, (8, 16, 32, 64)))
ROUNDS = {256: 10, 2048: 2}


def measure() -> dict[str, Any]:
    """p50 and p95 of each kind of round, how many are exact, and the largest gap in nats."""
    rows = [
        _measured(bidders, gpus, demand, names)
        for gpus, numbers in SIZES
        for names in get_args(Names)
        for demand in get_args(Demand)
        for bidders in numbers
    ]
    results: dict[str, Any] = {}
    for row in rows:
        name = f"{row['gpus']}_gpus_{row['names']}_{row['demand']}_{row['bidders']}"
        results[f"{name}_ms_p50"] = row["ms_p50"]
        results[f"{name}_ms_p95"] = row["ms_p95"]
        results[f"{name}_exact_decided_gap"] = f"{row['exact']:.2f} {row['decided']:.3f} {row['gap']:.4f}"
    return {**results, "rounds": rows}


def _measured(bidders: int, gpus: int, demand: Demand, names: Names) -> dict[str, Any]:
    times: list[float] = []
    exact = winners = decided = 0
    gap = 0.0
    for seed in range(ROUNDS[gpus]):
        problem = round_of(bidders, gpus, demand, names, seed)
        spent, result = _timed(problem)
        times.append(spent)
        exact += result.proven
        won = [award for award in result.awards if award.row is not None]
        winners, decided = winners + len(won), decided + sum(award.decided for award in won)
        gap = max(gap, result.gap)
    return {
        "bidders": bidders,
        "gpus": gpus,
        "demand": demand,
        "names": names,
        "ms_p50": statistics.median(times),
        "ms_p95": statistics.quantiles(times, n=20, method="inclusive")[-1],
        "exact": exact / ROUNDS[gpus],
        "decided": decided / max(1, winners),
        "gap": gap,
    }


def _timed(problem: PartialAllocationProblem) -> tuple[float, Any]:
    started = time.process_time()
    result = allocate(problem)
    return 1e3 * (time.process_time() - started), result
