"""Placing jobs one after another (OJPP, Algorithms 1 to 3), repaired where a new GPU would break the balance."""

from collections.abc import Iterable

from yarn_plugin.decide.mechanisms.packing.gpus import Gpus
from yarn_plugin.decide.mechanisms.packing.problem import PackingProblem

Placed = tuple[tuple[int, ...], ...]


def place_greedily(problem: PackingProblem) -> Placed:
    """The jobs by their need of computing, the largest first (Algorithm 1)."""
    jobs = problem.jobs
    return _placed(problem, sorted(range(len(jobs)), key=lambda job: (-jobs[job].computing, job)))


def place_easygoing_first(problem: PackingProblem) -> Placed:
    """The jobs by how likely they collide with the others, the least likely first (Algorithm 3).

    A pair collides with the product of its probabilities, so the order by the worst pair, renewed after each job, is
    one order by probability.
    """
    jobs = problem.jobs
    return _placed(problem, sorted(range(len(jobs)), key=lambda job: (jobs[job].probability, job)))


def place_beside(problem: PackingProblem, there: Placed, order: Iterable[int], free: int) -> Placed:
    """Place jobs, in this order, beside the workers that are `there`, and on at most so many free GPUs.

    A job whose workers do not all find a place is left out.
    """
    gpus = Gpus(problem)
    for number, workers in enumerate(there):
        for job in workers:
            gpus.place(job, number)
    _place_all(gpus, order, len(there) + free)
    return tuple(map(tuple, gpus.workers))


def _placed(problem: PackingProblem, order: Iterable[int]) -> Placed:
    gpus = Gpus(problem)
    _place_all(gpus, order, sum(job.workers for job in problem.jobs))
    return tuple(tuple(sorted(one)) for one in gpus.workers)


def _place_all(gpus: Gpus, order: Iterable[int], room: int) -> None:
    for job in order:
        workers = gpus.problem.jobs[job].workers
        if _fill(gpus, job, workers, len(gpus.workers)) or _fill(gpus, job, workers, room):
            continue
        # Alone on GPUs of its own, a job is in balance, and disturbs nobody.
        for _ in range(workers if len(gpus.workers) + workers <= room else 0):
            gpus.place(job, len(gpus.workers))


def _fill(gpus: Gpus, job: int, workers: int, room: int) -> bool:
    """Place all workers of a job (Algorithm 2), or none. `room`: how many GPUs may be used."""
    for _ in range(workers):
        gpu = gpus.best(job)
        if gpu is None and len(gpus.workers) < room and gpus.may_open(job):
            gpu = len(gpus.workers)
        if gpu is None:
            gpus.take_back(job)
            return False
        gpus.place(job, gpu)
    return True
