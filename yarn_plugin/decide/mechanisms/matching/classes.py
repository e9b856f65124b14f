"""Jobs in classes: one for each kind of machine and each position on it, instead of one slot for each machine.

A job that is the k-th last of its machine makes k jobs wait for it, so it costs k times its seconds, and the seconds
until the machine is free (AlloX, section 3.1 and 3.2). All slots of one kind and position cost a job the same but for
the latter: they are a class, whose jobs take the machines that are free first. The n x m x n matrix of the paper has
a column for each slot; here there are as many columns as kinds times the positions in use.

A class of a position is open once the one before it has a job. It would be useless before: the same job costs no more
there.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIRST_ROOM = 16
"""For how many classes there is room at first; doubled when there are more."""


class Classes:
    """Which jobs are in which class, while jobs are inserted. Classes are numbered in the order they were opened.

    `seconds`: jobs x kinds, infinite where a job cannot run. `waits`: for each kind, until its machines are free, in
    ascending order. `work`: numbers computed so far, a measure of the time spent that does not depend on the machine.
    """

    def __init__(self, seconds: Floats, waits: Sequence[Floats]) -> None:
        self.seconds, self.work = seconds, 0
        self._waits = [np.append(waits_of_kind, np.inf) for waits_of_kind in waits]
        self.kinds: list[int] = []
        self.positions: list[int] = []
        self.jobs: list[list[int]] = []
        self._kind, self._position = np.zeros(FIRST_ROOM, np.intp), np.zeros(FIRST_ROOM)
        self._next_wait = np.zeros(FIRST_ROOM)
        # [a, b]: what it costs that a job of class a moves to class b, and which job costs least.
        self._move, self._mover = np.full((FIRST_ROOM, FIRST_ROOM), np.inf), np.zeros((FIRST_ROOM,) * 2, np.intp)
        for kind, waits_of_kind in enumerate(waits):
            if len(waits_of_kind):
                self._open(kind, 1)

    @property
    def total(self) -> float:
        """The sum of completion times of the jobs so far."""
        return sum(
            self.positions[a] * float(self.seconds[jobs, self.kinds[a]].sum())
            + float(self._waits[self.kinds[a]][: len(jobs)].sum())
            for a, jobs in enumerate(self.jobs)
            if jobs
        )

    def insert_greedily(self, job: int) -> None:
        """Put a job into the class where it costs least; no other job moves."""
        cost = self._costs_of(job) + self._next_wait[: len(self.jobs)]
        self.work += len(cost)
        target = int(cost.argmin())
        self.jobs[target].append(job)
        self._took(target)

    def insert(self, job: int) -> None:
        """Insert a job at the least cost: others move to other classes where that costs less in all.

        The shortest path from the job to a machine that a class does not use yet. If the jobs before were matched at
        the least cost, all are after (the invariant of successive shortest paths), and no cycle of moves gains.
        """
        count = len(self.jobs)
        distance, moves = self._costs_of(job), self._move[:count, :count]
        came_from = np.full(count, -1)
        least_gain = 1e-12 * max(1.0, float(distance[np.isfinite(distance)].max(initial=0.0)))
        changed = np.arange(count)
        for _ in range(count):
            through = distance[changed, None] + moves[changed]
            self.work += through.size
            closest = through.argmin(axis=0)
            shorter = through[closest, np.arange(count)]
            better = np.flatnonzero(shorter < distance - least_gain)
            if not len(better):
                break
            came_from[better] = changed[closest[better]]
            distance[better] = shorter[better]
            changed = better
        target = int((distance + self._next_wait[:count]).argmin())
        path = [target]
        while came_from[path[-1]] >= 0:
            path.append(int(came_from[path[-1]]))
            assert len(path) <= count, "a cycle of moves gains: the jobs before were not matched at the least cost"
        movers = [int(self._mover[a, b]) for b, a in pairwise(path)]
        for (b, a), mover in zip(pairwise(path), movers, strict=True):
            self.jobs[a].remove(mover)
            self.jobs[b].append(mover)
        self.jobs[path[-1]].append(job)
        self._took(target)
        self._update_moves_from(path)
        if len(self.jobs) > count:
            self._update_moves_to(count)

    def _update_moves_from(self, classes: Sequence[int]) -> None:
        count = len(self.jobs)
        for a in classes:
            jobs = self.jobs[a]
            if not jobs:
                self._move[a, :count] = np.inf
                continue
            seconds = self.seconds[jobs]
            now = seconds[:, self.kinds[a]] * self.positions[a]
            costs = seconds[:, self._kind[:count]] * self._position[:count] - now[:, None]
            self.work += costs.size
            best = costs.argmin(axis=0)
            self._move[a, :count] = costs[best, np.arange(count)]
            self._mover[a, :count] = np.asarray(jobs)[best]

    def _update_moves_to(self, b: int) -> None:
        used = [a for a in range(b) if self.jobs[a]]
        jobs = np.array([job for a in used for job in self.jobs[a]])
        classes = np.repeat(used, [len(self.jobs[a]) for a in used])
        now = self.seconds[jobs, self._kind[classes]] * self._position[classes]
        costs = self.seconds[jobs, self.kinds[b]] * self.positions[b] - now
        self.work += len(jobs)
        # The cheapest last: of several values for one index, numpy keeps the last.
        order = np.argsort(-costs, kind="stable")
        self._move[classes[order], b], self._mover[classes[order], b] = costs[order], jobs[order]

    def sort_within_kinds(self) -> None:
        """Give the last positions to the longest jobs of each kind: the least cost for these numbers of jobs in each
        class. The costs of moves are no longer up to date."""
        for kind in range(self.seconds.shape[1]):
            classes = [a for a, kind_of_class in enumerate(self.kinds) if kind_of_class == kind]
            jobs = sorted(
                (job for a in classes for job in self.jobs[a]), key=lambda job: (-self.seconds[job, kind], job)
            )
            for a in classes:
                count = len(self.jobs[a])
                self.jobs[a], jobs = jobs[:count], jobs[count:]

    def prices(self) -> Floats:
        """By class, what a machine of it is worth, if jobs only move within their kind: what its shortest job loses in
        the class of the next position, and what a machine of that is worth. Jobs must be sorted within kinds."""
        price = self._next_wait[: len(self.jobs)].copy()
        later: dict[int, float] = {}
        for a in reversed(range(len(self.jobs))):
            kind = self.kinds[a]
            if self.jobs[a]:
                shortest = float(self.seconds[self.jobs[a], kind].min())
                price[a] = min(price[a], shortest + later[kind])
            later[kind] = price[a]
        return price

    def bound(self, price: Floats) -> tuple[float, Floats]:
        """A lower bound of the sum of completion times, for any prices of classes, and how the bound grows with each.

        Lagrangian relaxation of the number of machines in each class: every job takes the class with the least cost
        and price, and what machines that are free before the price earn is taken off.
        """
        count = len(self.jobs)
        first_wait = np.array([self._waits[kind][0] for kind in self.kinds])
        # A class whose machines are not free before its price costs the wait of the first all the same.
        paid = np.maximum(price, first_wait)
        costs = self.seconds[:, self._kind[:count]] * self._position[:count] + paid
        self.work += costs.size
        choice = costs.argmin(axis=1)
        total = float(costs[np.arange(len(costs)), choice].sum())
        growth: Floats = np.bincount(choice, minlength=count).astype(np.float64)
        for a, kind in enumerate(self.kinds):
            earned = paid[a] - self._waits[kind][:-1]
            earning = earned > 0
            total -= float(earned[earning].sum())
            growth[a] -= earning.sum()
        return total, growth

    def _costs_of(self, job: int) -> Floats:
        count = len(self.jobs)
        costs: Floats = self.seconds[job, self._kind[:count]] * self._position[:count]
        return costs

    def _took(self, a: int) -> None:
        """A class has one job more: it uses its next machine, and the class of the next position opens."""
        kind, position = self.kinds[a], self.positions[a]
        self._next_wait[a] = self._waits[kind][len(self.jobs[a])]
        if len(self.jobs[a]) == 1:
            self._open(kind, position + 1)

    def _open(self, kind: int, position: int) -> None:
        a = len(self.jobs)
        if a == len(self._kind):
            self._double()
        self.kinds.append(kind)
        self.positions.append(position)
        self.jobs.append([])
        self._kind[a], self._position[a], self._next_wait[a] = kind, position, self._waits[kind][0]

    def _double(self) -> None:
        room, count = 2 * len(self._kind), len(self.jobs)
        self._kind, self._position = np.resize(self._kind, room), np.resize(self._position, room)
        self._next_wait = np.resize(self._next_wait, room)
        move, mover = np.full((room, room), np.inf), np.zeros((room, room), np.intp)
        move[:count, :count], mover[:count, :count] = self._move, self._mover
        self._move, self._mover = move, mover
