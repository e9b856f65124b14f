"""The Lagrangian relaxation of the program: prices on columns instead of capacities, bounds for many nodes at once."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.partial_allocation.program import Program

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]

DENSE = 48
"""Up to this number of columns a dense product is faster than one that skips zeros."""


@dataclass(frozen=True)
class Tables:
    """The program with a table for each bidder: arrays (bidder, row, ...), rows padded to the longest table.

    `gain`: (bidder, row). `use`: (bidder, row, column). `columns`, `amounts`: the nonzero entries of `use`, padded with
    the column after the last. `capacity`: (column). `scale`: what a step of a column's price is multiplied by.
    """

    gain: Numbers
    use: Numbers
    columns: Indices
    amounts: Numbers
    capacity: Numbers
    scale: Numbers

    @classmethod
    def of(cls, gain: Numbers, use: Numbers, capacity: Numbers) -> "Tables":
        """The tables of a padded program."""
        bidders, rows, width = use.shape
        entries = int((use > 0).sum(2).max(initial=0)) if width else 0
        columns = np.full((bidders, rows, entries), width, dtype=np.intp)
        amounts = np.zeros((bidders, rows, entries))
        if entries:
            order = np.argsort(use <= 0, axis=2, kind="stable")[:, :, :entries]
            amounts = np.take_along_axis(use, order, axis=2)
            columns = np.where(amounts > 0, order, width)
        largest = np.maximum(1.0, use.max(axis=(0, 1), initial=0.0))
        return cls(gain, use, columns, amounts, capacity, 1.0 / largest**2)

    @property
    def entries(self) -> int:
        """A measure of the time that a step takes."""
        bidders, rows, width = self.use.shape
        return int(bidders * rows * (width if width <= DENSE else 4 * self.columns.shape[2]))

    def costs(self, prices: Numbers) -> Numbers:
        """(node, bidder, row): what each row's use costs at the prices (node, column) of each node."""
        nodes, (bidders, rows, width) = len(prices), self.use.shape
        if width <= DENSE:
            costs: Numbers = (prices @ self.use.reshape(bidders * rows, width).T).reshape(nodes, bidders, rows)
            return costs
        padded = np.concatenate([prices, np.zeros((nodes, 1))], axis=1)
        total = np.zeros((nodes, bidders, rows))
        for entry in range(self.columns.shape[2]):
            total += padded[:, self.columns[:, :, entry]] * self.amounts[:, :, entry]
        return total

    def used(self, picks: Indices) -> Numbers:
        """(node, column): the use of the rows (node, bidder) picked."""
        nodes, width = len(picks), len(self.capacity)
        bidders = np.arange(self.gain.shape[0])
        at = self.columns[bidders, picks] + (np.arange(nodes) * (width + 1))[:, None, None]
        amounts = self.amounts[bidders, picks]
        flat = np.bincount(at.ravel(), weights=amounts.ravel(), minlength=nodes * (width + 1)).astype(np.float64)
        return flat.reshape(nodes, width + 1)[:, :width]

    def fitting(self, room: Numbers) -> Flags:
        """(node, bidder, row): whether a row's use is within the room (node, bidder, column)."""
        nodes, bidders = room.shape[:2]
        padded = np.concatenate([room, np.zeros((nodes, bidders, 1))], axis=2)
        fits = np.ones((nodes, *self.gain.shape), dtype=np.bool_)
        numbers = np.arange(bidders)[:, None]
        for entry in range(self.columns.shape[2]):
            fits &= padded[:, numbers, self.columns[:, :, entry]] >= self.amounts[:, :, entry]
        return fits

    def narrowed(self, allowed: Flags) -> tuple["Tables", Indices, Flags]:
        """The tables with the rows only that some node (node, bidder, row) allows, and the columns that can then bind.

        Also returns the rows' former indices (bidder, row), and which columns are left.
        """
        some = allowed.any(axis=0)
        most = int(some.sum(axis=1).max(initial=1))
        rows = np.argsort(~some, axis=1, kind="stable")[:, :most]
        real = np.take_along_axis(some, rows, axis=1)
        use = np.take_along_axis(self.use, rows[:, :, None], axis=1)
        binding = np.where(real[:, :, None], use, 0.0).max(axis=1).sum(axis=0) > self.capacity
        narrow = Tables.of(np.take_along_axis(self.gain, rows, axis=1), use[:, :, binding], self.capacity[binding])
        return narrow, rows, binding


def tables_of(program: Program) -> tuple[Tables, Flags]:
    """A program as padded tables, and which rows are no padding and within the capacities.

    The last real row of each table is nothing.
    """
    sizes = np.diff([*program.first, len(program.gain)])
    bidders, most = len(sizes), int(sizes.max(initial=1))
    gain = np.zeros((bidders, most))
    use = np.zeros((bidders, most, program.use.shape[1]))
    place = np.arange(len(program.gain)) - program.first[program.bidder] if bidders else np.arange(0)
    gain[program.bidder, place] = program.gain
    use[program.bidder, place] = program.use
    within = (use <= program.capacity).all(axis=2)
    return Tables.of(gain, use, program.capacity), within & (np.arange(most) < sizes[:, None])


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Of each node: a bound that no choice of its rows exceeds, the prices that prove it, for each row the bound if it
    is chosen (-inf: not allowed), and how often it was picked late in the descent."""

    bound: Numbers
    prices: Numbers
    with_row: Numbers
    frequency: Numbers
    steps: int


def descend(
    tables: Tables,
    allowed: Flags,
    prices: Numbers,
    target: Callable[[], Numbers],
    steps: int,
    found: Callable[[int, Indices], object],
    speed: float = 1.0,
) -> Relaxed:
    """Lowers the bounds of nodes by subgradient steps (Held, Wolfe and Crowder), from the given prices.

    Each bidder picks its row with the highest gain less cost. A step changes each column's price by its excess use;
    Polyak's step length is halved after three steps without a lower bound. All prices are whole numbers: see
    `valuation.NAT`.

    Args:
        allowed: (node, bidder, row); each bidder has at least one row.
        target: (node): gains known to be reachable; bounds need not be lower.
        found: called with a node and its picks if they respect all capacities.
        speed: of the first steps.
    """
    nodes = len(prices)
    each, bidders = np.arange(nodes)[:, None], np.arange(tables.gain.shape[0])
    best, best_prices = np.full(nodes, np.inf), prices.copy()
    best_with = np.full(allowed.shape, -np.inf)
    speeds, failures = np.full(nodes, speed), np.zeros(nodes, dtype=np.intp)
    frequency = np.zeros(allowed.shape)
    penalty = np.where(allowed, 0.0, -np.inf)
    for step in range(steps):
        net = tables.gain - tables.costs(prices) + penalty
        picks = net.argmax(axis=2)
        highest = net[each, bidders, picks]
        bound = prices @ tables.capacity + highest.sum(axis=1)
        slack = tables.capacity - tables.used(picks)
        for node in np.flatnonzero((slack >= 0).all(axis=1)):
            found(int(node), picks[node])
        lower = bound < best
        best = np.where(lower, bound, best)
        best_prices[lower] = prices[lower]
        best_with[lower] = (bound[:, None] - highest)[lower][:, :, None] + net[lower]
        if 2 * step >= steps:
            frequency[each, bidders, picks] += 1.0
        failures = np.where(lower, 0, failures + 1)
        speeds = np.where(failures >= _PATIENCE, speeds * _SLOWER, speeds)
        failures[failures >= _PATIENCE] = 0
        slope = np.where((prices <= 0) & (slack > 0), 0.0, slack)
        squared = (slope * slope * tables.scale).sum(axis=1)
        above = np.maximum(best - target(), 0.0)
        if not (squared * above).any():
            break
        length = np.where(squared > 0, speeds * above / np.where(squared > 0, squared, 1.0), 0.0)
        prices = np.maximum(0.0, np.rint(prices - length[:, None] * slope * tables.scale))
    return Relaxed(best, best_prices, best_with, frequency, nodes * (step + 1))


_PATIENCE = 3
_SLOWER = 0.7
