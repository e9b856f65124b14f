"""GPUs while workers are placed one by one: what each still takes, computed for all of them at once."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.packing.problem import TOLERANCE, PackingProblem

Floats = NDArray[np.float64]


class Gpus:
    """Workers on GPUs. `workers`: for each GPU, the jobs (indices) of its workers. GPUs are numbered from 0."""

    def __init__(self, problem: PackingProblem) -> None:
        jobs = problem.jobs
        self.problem, self.limits = problem, problem.limits
        names = sorted({job.kind for job in jobs})
        self._kind = [names.index(job.kind) for job in jobs]
        self._slowdown = np.array([[problem.slowdowns.get((a, b), np.inf) for b in names] for a in names])
        room = sum(job.workers for job in jobs)
        self.workers: list[list[int]] = []
        # Of each job that is placed: its GPUs, with the slowdown of its workers there.
        self._slowdowns_of: dict[int, dict[int, float]] = defaultdict(dict)
        self._count = np.zeros((room, len(names)))
        self._computing, self._memory, self._increment = np.zeros(room), np.zeros(room), np.zeros(room)
        # The probabilities that no worker, and exactly one, needs its increment.
        self._none, self._one = np.ones(room), np.zeros(room)
        # [gpu, kind]: the slowdown that a worker of a kind would have there beside all who are there.
        self._beside = np.zeros((room, len(names)))
        # [kind, gpu]: the greatest slowdown there if a worker of a kind joined.
        self._joined = np.zeros((len(names), room))

    def place(self, job: int, gpu: int) -> None:
        """Place a worker of a job; `gpu` may be the number of GPUs so far: then one more is used."""
        if gpu == len(self.workers):
            self.workers.append([])
        self._add(job, gpu)
        self._renew(gpu)

    def _add(self, job: int, gpu: int) -> None:
        one, kind = self.problem.jobs[job], self._kind[job]
        self.workers[gpu].append(job)
        self._count[gpu, kind] += 1
        self._computing[gpu] += one.computing
        self._memory[gpu] += one.memory
        self._increment[gpu] = max(self._increment[gpu], one.increment)
        self._one[gpu] = self._one[gpu] * (1 - one.probability) + self._none[gpu] * one.probability
        self._none[gpu] *= 1 - one.probability
        self._beside[gpu] += self._slowdown[:, kind]

    def take_back(self, job: int) -> None:
        """Take back all workers of a job, the last that was placed. GPUs that were opened for it are unused again."""
        for gpu in sorted(self._slowdowns_of.pop(job, {})):
            left = [other for other in self.workers[gpu] if other != job]
            self.workers[gpu] = []
            for values in (self._count, self._beside):
                values[gpu] = 0.0
            for value in (self._computing, self._memory, self._increment, self._one):
                value[gpu] = 0.0
            self._none[gpu] = 1.0
            for other in left:
                self._add(other, gpu)
            self._renew(gpu)
        while self.workers and not self.workers[-1]:
            self.workers.pop()

    def best(self, job: int) -> int | None:
        """The GPU in use where a worker of a job fits with the least slowdown of anybody there; None if it fits nowhere
        (Algorithm 2, with the resource test the right way round)."""
        used = len(self.workers)
        one, kind = self.problem.jobs[job], self._kind[job]
        computing = self._computing[:used] + one.computing
        memory = self._memory[:used] + one.memory + np.maximum(self._increment[:used], one.increment)
        none = self._none[:used] * (1 - one.probability)
        single = self._one[:used] * (1 - one.probability) + self._none[:used] * one.probability
        slowdown = self._joined[kind, :used]
        fits = (
            (computing <= 1 + TOLERANCE)
            & (memory <= 1 + TOLERANCE)
            & (1 - none - single <= self.limits.collision + TOLERANCE)
            & (slowdown <= self.limits.interference + TOLERANCE)
        )
        candidates = np.flatnonzero(fits)
        for gpu in candidates[np.argsort(slowdown[candidates], kind="stable")]:
            if self._keeps_balance(job, int(gpu)):
                return int(gpu)
        return None

    def may_open(self, job: int) -> bool:
        """Whether a worker of a job alone on a GPU is in balance with the job's others (left out by the paper)."""
        return max(self._slowdowns_of.get(job, {}).values(), default=0.0) <= self.limits.balance + TOLERANCE

    def _renew(self, gpu: int) -> None:
        """What follows from who is on a GPU: computed when that changes, and not whenever a worker is placed."""
        there = np.flatnonzero(self._count[gpu])
        own = self._slowdown[there, there]
        others = self._beside[gpu].copy()
        with np.errstate(invalid="ignore"):
            others[there] -= own
        # A kind that may not share with itself is there once: nothing minus itself is nothing.
        unknown = there[np.isnan(others[there])]
        if unknown.size:
            finite = np.where(np.isfinite(self._slowdown), self._slowdown, 0.0)
            others[unknown] = finite[unknown] @ self._count[gpu] - np.diag(finite)[unknown]
        for job in self.workers[gpu]:
            self._slowdowns_of[job][gpu] = float(others[self._kind[job]])
        joined = (others[there, np.newaxis] + self._slowdown[there]).max(axis=0, initial=0.0)
        self._joined[:, gpu] = np.maximum(joined, self._beside[gpu])

    def _keeps_balance(self, job: int, gpu: int) -> bool:
        """Whether all jobs with a worker on the GPU stay in balance if this one joins them."""
        kind, beside = self._kind[job], float(self._beside[gpu, self._kind[job]])
        for other in {*self.workers[gpu], job}:
            here = self._slowdowns_of.get(other, {})
            slowdowns = [slowdown for number, slowdown in here.items() if number != gpu]
            if gpu in here:
                slowdowns.append(here[gpu] + float(self._slowdown[self._kind[other], kind]))
            if other == job:
                slowdowns.append(beside)
            if max(slowdowns) - min(slowdowns) > self.limits.balance + TOLERANCE:
                return False
        return True
