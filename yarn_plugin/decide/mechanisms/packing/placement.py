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


def _placed(problem: PackingProblem, order: Iterable[int]) -> Placed:
    gpus = Gpus(problem)
    for job in order:
        workers = problem.jobs[job].workers
        if not (_fill(gpus, job, workers, may_open=False) or _fill(gpus, job, workers, may_open=True)):
            # Alone on GPUs of its own, a job is in balance, and disturbs nobody.
            for _ in range(workers):
                gpus.place(job, len(gpus.workers))
    return tuple(tuple(sorted(one)) for one in gpus.workers)


def _fill(gpus: Gpus, job: int, workers: int, may_open: bool) -> bool:
    """Place all workers of a job (Algorithm 2), or none."""
    for _ in range(workers):
        gpu = gpus.best(job)
        if gpu is None and may_open and gpus.may_open(job):
            gpu = len(gpus.workers)
        if gpu is None:
            gpus.take_back(job)
            return False
        gpus.place(job, gpu)
    return True
