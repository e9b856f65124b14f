"""Programs with one capacity kept exact and the others priced: multiple-choice knapsacks, by dynamic programming."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from yarn_plugin.decide.mechanisms.partial_allocation.relaxation import Flags, Indices, Numbers, Tables


class Knapsacks:
    """The best values of several problems on the same tables, for each part of a column's capacity.

    Their bounds are tighter than the Lagrangian ones at the same prices, which relax this column too (Dudzinski and
    Walukiewicz, 1987). All numbers are whole, so their sums are exact.

    `value`: (problem, bidder, row), gain less the price of the use of the other columns. `constant`: (problem), what
    the other capacities cost.

    Args:
        allowed: (problem, bidder, row).
        prices: (problem, column); that of the exact column is ignored.
        column: the exact one.
    """

    def __init__(self, tables: Tables, allowed: Flags, prices: Numbers, column: int) -> None:
        self.column, self.room = column, int(tables.capacity[column])
        priced = prices.copy()
        priced[:, column] = 0.0
        self.constant: Numbers = priced @ tables.capacity
        self.value = np.where(allowed, tables.gain - tables.costs(priced), -np.inf)
        self.use = tables.use[:, :, column].astype(np.intp)
        self.rows = [np.flatnonzero(some) for some in allowed.any(axis=0) & (self.use <= self.room)]

    @property
    def entries(self) -> int:
        """A measure of the time of one pass: rows, weighted by the sizes of the arrays."""
        return sum(map(len, self.rows)) * (1 + len(self.value) * self.room // 1000)

    def after(self, order: Sequence[int]) -> list[Numbers]:
        """The best values (problem, room) of the bidders from each of these on, and of none; without the constant."""
        found = [np.zeros((len(self.value), self.room + 1))]
        for bidder in reversed(order):
            known, best = found[-1], np.full(found[0].shape, -np.inf)
            for use, value in self._best_by_use[bidder]:
                np.maximum(best[:, use:], known[:, : self.room + 1 - use] + value, out=best[:, use:])
            found.append(best)
        return found[::-1]

    @cached_property
    def _by_use(self) -> list[tuple[Indices, Indices]]:
        """Of each bidder its rows, those that use least first, and where those begin that use the same."""
        found = []
        for use, rows in zip(self.use, self.rows, strict=True):
            ordered = rows[use[rows].argsort(kind="stable")]
            uses = use[ordered]
            first = np.flatnonzero(np.concatenate([np.ones(min(1, len(uses)), np.bool_), uses[1:] != uses[:-1]]))
            found.append((ordered, first))
        return found

    @cached_property
    def _best_by_use(self) -> list[list[tuple[int, Numbers]]]:
        """Of each bidder, each use and the best values (problem, 1) of the rows that use so much."""
        found: list[list[tuple[int, Numbers]]] = []
        for bidder, (rows, first) in enumerate(self._by_use):
            values = np.maximum.reduceat(self.value[:, bidder, rows], first, axis=1) if len(rows) else self.value[:0]
            uses = self.use[bidder, rows[first]].tolist()
            found.append([(use, values[:, at, None]) for at, use in enumerate(uses)])
        return found

    @cached_property
    def _after(self) -> list[Numbers]:
        return self.after(range(len(self.rows)))

    @cached_property
    def _before(self) -> list[Numbers]:
        return self.after(range(len(self.rows))[::-1])[::-1]

    @property
    def bound(self) -> Numbers:
        """(problem): no choice gains more."""
        return self._after[0][:, self.room] + self.constant

    def with_row(self) -> Numbers:
        """(problem, bidder, row): no choice with this row gains more; -inf: not allowed, or more than the capacity."""
        found = np.full(self.value.shape, -np.inf)
        for bidder, (rows, first) in enumerate(self._by_use):
            before, after = self._before[bidder], self._after[bidder + 1][:, ::-1]
            for start, end in pairwise([*first.tolist(), len(rows)]):
                use = self.use[bidder, rows[start]]
                best = (before[:, : self.room + 1 - use] + after[:, use:]).max(axis=1)
                found[:, bidder, rows[start:end]] = best[:, None]
        return found + self.value + self.constant[:, None, None]

    def picks(self) -> Indices:
        """(problem, bidder): choices that reach the bounds if they respect the other capacities and leave nothing that
        has a price."""
        problems = np.arange(len(self.value))
        picks = np.zeros(self.value.shape[:2], dtype=np.intp)
        room = np.full(len(problems), self.room)
        for bidder, rows in enumerate(self.rows):
            left = room[:, None] - self.use[bidder, rows]
            values = self.value[:, bidder, rows] + at(self._after[bidder + 1], problems[:, None], left)
            picks[:, bidder] = rows[values.argmax(axis=1)]
            room = room - self.use[bidder, picks[:, bidder]]
        return picks

    def without(self, bidder: int) -> float:
        """The bound of the first problem if this bidder chooses nothing."""
        both = self._before[bidder][0] + self._after[bidder + 1][0, ::-1]
        return float(both.max() + self.constant[0])


def at(values: Numbers, problem: Indices, room: Indices) -> Numbers:
    """Values (problem, room) at these places; -inf where the room is negative."""
    place = problem * values.shape[1] + np.maximum(room, 0)
    found: Numbers = np.where(room >= 0, values.take(place), -np.inf)
    return found
