"""The choice of rows as an integer program: one row for each bidder, and capacities that no choice may exceed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.partial_allocation.candidates import Candidate
from yarn_plugin.decide.mechanisms.partial_allocation.capacities import measures
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Program:
    """Maximise the sum of gains; the chosen rows' use of each column is at most its capacity.

    Rows of one bidder are adjacent, and the last of them is nothing at all: no gain, no use. All numbers are whole.

    `first`: the index of each bidder's first row. `bidder`: of each row. `gain`: of each row, in 1/NAT nats. `use`: of
    each row in each column. `capacity`: of each column.
    """

    first: NDArray[np.intp]
    bidder: NDArray[np.intp]
    gain: Numbers
    use: Numbers
    capacity: Numbers


def program(offer: Offer, tables: Sequence[Sequence[Candidate]]) -> Program:
    """The program of these tables.

    Its columns are necessary conditions: what lies in a rack, a machine or a slot is no more than that could contain,
    by several measures (`capacities.measures`). Whether a choice can really be placed is for `fitting` to decide.
    """
    bidder = np.repeat(np.arange(len(tables)), [len(table) + 1 for table in tables])
    first = np.cumsum([0, *(len(table) + 1 for table in tables[:-1])])[: len(tables)]
    gain = np.array([gain for table in tables for gain in [*(one.gain for one in table), 0]], dtype=np.float64)
    pieces = [pieces for table in tables for pieces in [*(one.pieces for one in table), ()]]
    use, capacity = [np.zeros((len(pieces), 0))], [np.zeros(0)]
    for column, most in measures(offer, pieces):
        if len(tables):
            binding = np.maximum.reduceat(column, first, axis=0).sum(axis=0) > most
            use.append(column[:, binding])
            capacity.append(most[binding])
    columns, most = _needed(np.concatenate(use, axis=1), np.concatenate(capacity))
    return Program(first, bidder, gain, columns, most)


def _needed(use: Numbers, capacity: Numbers) -> tuple[Numbers, Numbers]:
    """Without columns that another one implies: no row uses a larger part of their capacity than of the other's."""
    parts = np.where(use > 0, use / np.maximum(capacity, _NOTHING), 0.0).T.copy()
    apart = (use > 0).T.astype(np.float64) @ (use <= 0)
    kept: list[int] = []
    # Of columns that imply each other the first is kept.
    for column in range(len(capacity)):
        others = np.flatnonzero(apart[column] == 0)
        implied = (parts[column] <= parts[others]).all(axis=1)
        equal = (parts[column] == parts[others]).all(axis=1)
        if not (implied & ~(equal & (others >= column))).any():
            kept.append(column)
    return np.ascontiguousarray(use[:, kept]), capacity[kept]


_NOTHING = 1e-9
"""Stands for a capacity of 0: no row may use it."""
