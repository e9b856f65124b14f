"""Moving workers off GPUs where they disturb each other more than allowed (OJPP, Algorithm 4), within a budget.

Unlike the printed algorithm, only GPUs above the limit give up workers, the budget is that of all moves together
(equation 19, which the algorithm tests for each worker), and only moves that help are made: the greater slowdown of
the two GPUs must fall, and no job may be further out of balance than before or than allowed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.packing.problem import TOLERANCE, PackingProblem, collision
from yarn_plugin.decide.mechanisms.packing.validity import slowdowns_on

Gpu = tuple[int, ...]
"""The jobs (indices) of a GPU's workers."""


@dataclass(frozen=True, slots=True)
class Move:
    """A worker of a job goes from one GPU to another, by their numbers."""

    job: int
    source: int
    target: int


def adjust(
    problem: PackingProblem, gpus: Sequence[Gpu], costs: Sequence[float], budget: float, fixed: Iterable[int] = ()
) -> list[Move]:
    """The moves, in order. `gpus`: those in use, and free ones, which are empty. `costs`: of moving a worker of each
    job; all moves together cost no more than `budget`. `fixed`: jobs whose workers stay where they are."""
    now, stays = list(gpus), set(fixed)
    moves: list[Move] = []
    for source in sorted(range(len(now)), key=lambda gpu: (-_worst(problem, now[gpu]), gpu)):
        while _worst(problem, now[source]) > problem.limits.interference + TOLERANCE:
            allowed = [job for job in now[source] if job not in stays and costs[job] <= budget + TOLERANCE]
            move = _cheapest(problem, now, source, sorted(set(allowed), key=lambda job: (costs[job], job)), costs)
            if move is None:
                break
            budget -= costs[move.job]
            now[source], now[move.target] = _without(now[source], move.job), _with(now[move.target], move.job)
            moves.append(move)
    return moves


def _cheapest(
    problem: PackingProblem, gpus: Sequence[Gpu], source: int, jobs: Sequence[int], costs: Sequence[float]
) -> Move | None:
    """Of the moves that help, the cheapest; of equal ones, that with the least slowdown on both GPUs."""
    best: tuple[tuple[float, float, bool, int], Move] | None = None
    before = _worst(problem, gpus[source])
    for job in jobs:
        left = _worst(problem, _without(gpus[source], job))
        for target, there in enumerate(gpus):
            if target == source:
                continue
            after = max(left, _worst(problem, _with(there, job)))
            rank = (costs[job], after, not there, target)
            if after >= before - TOLERANCE or (best is not None and rank >= best[0]):
                continue
            if _fits(problem, _with(there, job)) and _keeps_balance(problem, gpus, Move(job, source, target)):
                best = rank, Move(job, source, target)
    return None if best is None else best[1]


def _worst(problem: PackingProblem, gpu: Gpu) -> float:
    """The greatest slowdown on a GPU."""
    return max((float("inf") if one is None else one for one in slowdowns_on(problem, gpu)), default=0.0)


def _fits(problem: PackingProblem, gpu: Gpu) -> bool:
    workers = [problem.jobs[job] for job in gpu]
    return (
        sum(one.computing for one in workers) <= 1 + TOLERANCE
        and sum(one.memory for one in workers) + max(one.increment for one in workers) <= 1 + TOLERANCE
        and collision(tuple(one.probability for one in workers)) <= problem.limits.collision + TOLERANCE
        and _worst(problem, gpu) <= problem.limits.interference + TOLERANCE
    )


def _keeps_balance(problem: PackingProblem, gpus: Sequence[Gpu], move: Move) -> bool:
    after = list(gpus)
    after[move.source], after[move.target] = _without(gpus[move.source], move.job), _with(gpus[move.target], move.job)
    for job in {*gpus[move.source], *gpus[move.target]}:
        allowed = max(problem.limits.balance, _imbalance(problem, gpus, job))
        if _imbalance(problem, after, job) > allowed + TOLERANCE:
            return False
    return True


def _imbalance(problem: PackingProblem, gpus: Iterable[Gpu], job: int) -> float:
    found = [
        float("inf") if slowdown is None else slowdown
        for gpu in gpus
        if job in gpu
        for worker, slowdown in zip(gpu, slowdowns_on(problem, gpu), strict=True)
        if worker == job
    ]
    return 0.0 if len(found) < 2 or max(found) == min(found) else max(found) - min(found)


def _without(gpu: Gpu, job: int) -> Gpu:
    place = gpu.index(job)
    return gpu[:place] + gpu[place + 1 :]


def _with(gpu: Gpu, job: int) -> Gpu:
    return (*gpu, job)
