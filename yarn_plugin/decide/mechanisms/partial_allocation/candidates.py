"""Which rows of the bids are worth considering: better than nothing, and not dominated by another row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yarn_plugin.decide.mechanisms.partial_allocation.problem import AppBid
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import SERVED, gains
from yarn_plugin.model.gpus import Piece


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of a bid. `gain`: see `valuation.NAT`. `row`: its index in the table."""

    gain: int
    row: int
    pieces: tuple[Piece, ...]


def candidates(bid: AppBid) -> list[Candidate]:
    """The rows that some optimum may need, the best first; the result does not depend on the order of the table.

    A row is dominated by one that is worth no less and needs in each place no more: the k-th largest piece of each kind
    is no larger. Dropping it loses no optimum.
    """
    rows = [
        Candidate(gain + SERVED, index, row.pieces)
        for index, (row, gain) in enumerate(zip(bid.rows, gains(bid), strict=True))
        if gain > 0
    ]
    rows.sort(key=lambda one: (-one.gain, sum(piece.gpus for piece in one.pieces), _canonical(one.pieces), one.row))
    if not rows:
        return []
    needs = _needs([one.pieces for one in rows])
    kept: list[Candidate] = []
    for start in range(0, len(rows), _BLOCK):
        block = needs[start : start + _BLOCK]
        # Sorted by gain: only an earlier row can be worth as much.
        dominates = (needs[None, : start + _BLOCK] <= block[:, None]).all(axis=2)
        dominated: list[bool] = np.logical_or.reduce(np.tril(dominates, start - 1), axis=1).tolist()
        kept += [row for row, drop in zip(rows[start:], dominated, strict=False) if not drop]
    return kept


_BLOCK = 64
"""Rows compared with all earlier ones at once."""


def _canonical(pieces: Sequence[Piece]) -> list[tuple[str, str, int]]:
    return sorted((piece.within, piece.level, piece.gpus) for piece in pieces)


def _needs(rows: Sequence[Sequence[Piece]]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Of each row, the sizes of its pieces: a column for each place and kind and for each rank by size."""
    columns: dict[tuple[str, str, int], int] = {}
    entries: list[tuple[int, int, int]] = []
    for index, pieces in enumerate(rows):
        ranks: dict[tuple[str, str], int] = {}
        for piece in sorted(pieces, key=lambda one: -one.gpus):
            kind = piece.within, piece.level
            rank = ranks[kind] = ranks.get(kind, -1) + 1
            entries.append((index, columns.setdefault((*kind, rank), len(columns)), piece.gpus))
    needs = np.zeros((len(rows), len(columns)), dtype=np.int64)
    for index, column, gpus in entries:
        needs[index, column] = gpus
    return needs
