"""A necessary condition that no linear measure expresses: the remainders of racks do not add up to whole machines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.partial_allocation.candidates import Candidate
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.model.gpus import Piece

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_KINDS = 1 << 20
"""More than there are different pieces."""

MAX_NUMBERS = 1 << 24
"""The largest table that is made, in numbers: without the condition, the search only takes more work."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of k GPUs in one machine, for each size k of a piece that may lie anywhere.

    A rack has no more of them than its machines contain, less those of the pieces that must lie in it; and no more than
    1/k of its GPUs, less those of such pieces. The pieces that may lie anywhere need no more than all racks have. If
    the sizes divide each other and the machines', pieces that satisfy this and the capacities fit.

    `sizes`: k. `use`: (bidder, row, [GPUs by rack, then blocks by size and rack, then blocks anywhere by size]).
    `gpus`: by rack. `blocks`: (size, rack).
    """

    sizes: NDArray[np.float64]
    use: Numbers
    gpus: Numbers
    blocks: Numbers

    @classmethod
    def of(cls, offer: Offer, tables: Sequence[Sequence[Candidate]], rows: int) -> "Blocks":
        """The blocks of these tables, each padded to so many rows."""
        pieces: dict[Piece, int] = {}
        at = [
            (bidder * rows + row) * MAX_KINDS + pieces.setdefault(piece, len(pieces))
            for bidder, table in enumerate(tables)
            for row, one in enumerate(table)
            for piece in one.pieces
        ]
        sizes = sorted({piece.gpus for piece in pieces if piece.within == "" and piece.gpus > 1})
        racks = {rack: number for number, rack in enumerate(sorted({one.rack for one in offer.machines}))}
        width = len(racks) * (1 + len(sizes)) + len(sizes)
        if not sizes or max(len(tables) * rows, width) * len(pieces) > MAX_NUMBERS:
            return cls(np.zeros(0), np.zeros((len(tables), rows, 0)), np.zeros(0), np.zeros((0, 0)))
        gpus, blocks = np.zeros(len(racks)), np.zeros((len(sizes), len(racks)))
        alike = Counter(zip([one.rack for one in offer.machines], offer.machine_gpus, strict=True))
        for (name, free), count in alike.items():
            gpus[racks[name]] += free * count
            blocks[:, racks[name]] += [free // size * count for size in sizes]
        need = np.zeros((len(pieces), width))
        for piece, number in pieces.items():
            parts = [piece.gpus // size for size in sizes]
            if piece.within:
                rack = racks[offer.machines[offer.within(piece.within)[0][0]].rack]
                need[number, [rack + len(racks) * k for k in range(1 + len(sizes))]] = [piece.gpus, *parts]
            else:
                need[number, -len(sizes) :] = parts
        row_of, kind = np.divmod(np.array(at, dtype=np.intp), MAX_KINDS)
        flat = np.bincount(row_of * len(pieces) + kind, minlength=len(tables) * rows * len(pieces)).astype(np.float64)
        use = (flat.reshape(len(tables) * rows, len(pieces)) @ need).reshape(len(tables), rows, width)
        return cls(np.array(sizes, dtype=np.float64), use, gpus, blocks)

    def nothing(self, count: int) -> Numbers:
        """The use of so many empty choices."""
        return np.zeros((count, self.use.shape[2]))

    def fitting(self, used: Numbers) -> Flags:
        """Whether choices that use so much satisfy the condition."""
        racks, sizes = len(self.gpus), len(self.sizes)
        by_column = np.ascontiguousarray(used.T)
        left = np.floor((self.gpus[:, None] - by_column[:racks]) / self.sizes[:, None, None])
        tied = by_column[racks : racks * (1 + sizes)].reshape(sizes, racks, len(used))
        free = np.minimum(left, self.blocks[:, :, None] - tied).sum(axis=1)
        fits: Flags = (free >= by_column[len(by_column) - sizes :]).all(axis=0)
        return fits


def all_of(flags: Flags) -> Flags:
    """Whether all columns of each row are true. Faster than `all` for short rows."""
    found: Flags = np.logical_and.reduce(np.ascontiguousarray(flags.T), axis=0)
    return found
