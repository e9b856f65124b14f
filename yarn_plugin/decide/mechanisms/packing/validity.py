"""Whether a packing keeps all constraints (OJPP, equations 1 to 8 and 10 to 16), checked on the packing alone."""

from dataclasses import dataclass
from typing import Literal

from yarn_plugin.decide.mechanisms.packing.problem import TOLERANCE, PackingProblem, collision

Constraint = Literal["workers", "computing", "memory", "collision", "pair", "interference", "balance"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that is broken: on this GPU (its index), or of this job (its id)."""

    constraint: Constraint
    where: int | str
    value: float


def slowdowns_on(problem: PackingProblem, gpu: tuple[int, ...]) -> list[float | None]:
    """The slowdown of each worker of a GPU; None beside a worker that it may not share with."""
    kinds = [problem.jobs[job].kind for job in gpu]
    slowdowns: list[float | None] = []
    for index, kind in enumerate(kinds):
        beside = [problem.slowdowns.get((kind, other)) for other in kinds[:index] + kinds[index + 1 :]]
        slowdowns.append(None if None in beside else sum(one for one in beside if one is not None))
    return slowdowns


def violations(problem: PackingProblem, gpus: tuple[tuple[int, ...], ...]) -> list[Violation]:
    """All constraints that are broken."""
    jobs, limits = problem.jobs, problem.limits
    broken: list[Violation] = []
    by_job: dict[int, list[float]] = {index: [] for index in range(len(jobs))}
    for index, gpu in enumerate(gpus):
        workers = [jobs[job] for job in gpu]
        sums: list[tuple[Constraint, float, float]] = [
            ("computing", sum(one.computing for one in workers), 1.0),
            # One increment always fits; two at once are a collision.
            ("memory", sum(one.memory for one in workers) + max((one.increment for one in workers), default=0.0), 1.0),
            ("collision", collision(tuple(one.probability for one in workers)), limits.collision),
        ]
        broken += [Violation(name, index, value) for name, value, limit in sums if value > limit + TOLERANCE]
        for job, slowdown in zip(gpu, slowdowns_on(problem, gpu), strict=True):
            if slowdown is None:
                broken.append(Violation("pair", index, job))
                continue
            by_job[job].append(slowdown)
            if slowdown > limits.interference + TOLERANCE:
                broken.append(Violation("interference", index, slowdown))
    for index, job_slowdowns in by_job.items():
        placed = sum(gpu.count(index) for gpu in gpus)
        if placed != jobs[index].workers:
            broken.append(Violation("workers", jobs[index].id, placed))
        if job_slowdowns and max(job_slowdowns) - min(job_slowdowns) > limits.balance + TOLERANCE:
            broken.append(Violation("balance", jobs[index].id, max(job_slowdowns) - min(job_slowdowns)))
    return broken
