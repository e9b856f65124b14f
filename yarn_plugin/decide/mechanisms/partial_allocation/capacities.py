"""Necessary conditions for pieces to fit: linear measures of what lies in a place, and how much of it there can be."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.model.gpus import Piece

Numbers = NDArray[np.float64]


def measures(offer: Offer, rows: Sequence[Sequence[Piece]]) -> Iterator[tuple[Numbers, Numbers]]:
    """Measures of each row in each place (row, place), and the capacities of the places (place).

    In places made of machines, and, for pieces that must lie in one slot, in places made of slots:

    - the GPUs;
    - blocks of half the largest machine (or slot): pieces that are smaller contain none;
    - where pieces do not divide the largest machine, dual feasible functions, which count a large piece by how little
      it leaves free.

    More measures would bound better and search worse: the search prices each of them.
    """
    in_slots = any(piece.level == "slot" or offer.is_slot(piece.within) for row in rows for piece in row)
    for slots in (False, True) if in_slots else (False,):
        yield from _Measures(offer, rows, slots).all()


class _Measures:
    """Entries: of each row, the pieces by size, once for each place that contains them."""

    def __init__(self, offer: Offer, rows: Sequence[Sequence[Piece]], slots: bool) -> None:
        self._offer, self._slots = offer, slots
        self._rows = len(rows)
        self._places: dict[str, int] = {}
        entries: list[tuple[int, int, int, int]] = []
        above: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            for (within, level, gpus), count in Counter((one.within, one.level, one.gpus) for one in row).items():
                if slots and level != "slot" and not offer.is_slot(within):
                    continue
                if within not in above:
                    above[within] = [self._places.setdefault(place, len(self._places)) for place in self._above(within)]
                entries += [(number, place, gpus, count) for place in above[within]]
        table = np.array(entries, dtype=np.intp).reshape(len(entries), 4)
        self._cell = table[:, 0] * len(self._places) + table[:, 1]
        self._place, self._size, self._count = table[:, 1], table[:, 2], table[:, 3].astype(np.float64)
        self._largest_piece = int(self._size.max(initial=0))

    def all(self) -> Iterator[tuple[Numbers, Numbers]]:
        if not self._places:
            return
        bins = [self._bins(place) for place in self._places]
        yield self._sums(self._count * self._size), np.array([float(sum(one)) for one in bins])
        block = max(2, max((max(one, default=0) for one in bins), default=0) // 2)
        if self._largest_piece >= block:
            room = [sum(gpus // block for gpus in one) for one in bins]
            yield self._sums(self._count * (self._size // block)), np.array(room, dtype=np.float64)
        yield from self._dual_feasible(bins)

    def _dual_feasible(self, bins: Sequence[Sequence[int]]) -> Iterator[tuple[Numbers, Numbers]]:
        """Carlier, Clautiaux and Moukrim's functions, where pieces are of sizes that do not divide the largest bin.

        Good for bins of one size, and valid for all, as the capacity is that of the fullest bins of each size.
        """
        largest = [max(one, default=0) for one in bins]
        sizes: list[set[int]] = [set() for _ in bins]
        for place, size in {*zip(self._place.tolist(), self._size.tolist(), strict=True)}:
            sizes[place].add(size)
        odd = [any(most % size for size in some if size <= most) for most, some in zip(largest, sizes, strict=True)]
        for k in range(2, max((most for most, is_odd in zip(largest, odd, strict=True) if is_odd), default=0) // 2 + 2):
            weights = np.zeros((len(bins), self._largest_piece + 1))
            capacity = np.full(len(bins), np.inf)
            for place, some in enumerate(sizes):
                if odd[place] and k <= largest[place] // 2 + 1:
                    weigh = {size: dual_feasible(size, largest[place], k) for size in some}
                    fullest = fullest_bins(weigh, largest[place])
                    capacity[place] = sum(fullest[gpus] for gpus in bins[place])
                    for size, weight in weigh.items():
                        weights[place, size] = weight
            yield self._sums(self._count * weights[self._place, self._size]), capacity

    def _sums(self, amounts: Numbers) -> Numbers:
        flat = np.bincount(self._cell, weights=amounts, minlength=self._rows * len(self._places)).astype(np.float64)
        return flat.reshape(self._rows, len(self._places))

    def _above(self, within: str) -> list[str]:
        """The places that contain a piece with this place: itself, its machine, its rack, everything."""
        offer, place = self._offer, self._offer.place(within)
        if place.machine < 0:
            return [within, ""] if within else [""]
        machine = offer.machines[place.machine]
        places = [within, machine.id] if place.slot >= 0 else [machine.id]
        places = [one for one in places if self._slots or not offer.is_slot(one)]
        rack = [machine.rack] if offer.place(machine.rack).machine < 0 and machine.rack else []
        return [*places, *rack, ""]

    def _bins(self, place: str) -> list[int]:
        machines, slots = self._offer.within(place)
        if self._slots:
            return [self._offer.slot_gpus[slot] for slot in slots]
        return [self._offer.machine_gpus[machine] for machine in machines]


def dual_feasible(size: int, largest: int, k: int) -> int:
    """The weight of a piece, twice f_k of Carlier, Clautiaux and Moukrim (2007) for bins of `largest` GPUs.

    A piece larger than half a bin counts by what it leaves free, in units of k GPUs.
    """
    if 2 * size > largest:
        return 2 * (largest // k - max(0, largest - size) // k)
    if 2 * size == largest:
        return largest // k
    return 2 * (size // k)


def fullest_bins(weigh: dict[int, int], largest: int) -> list[int]:
    """The greatest weight of pieces in a bin, by the number of its GPUs (an unbounded knapsack)."""
    fullest = [0] * (largest + 1)
    for gpus in range(1, largest + 1):
        fullest[gpus] = max(
            [fullest[gpus - 1]] + [fullest[gpus - size] + weight for size, weight in weigh.items() if size <= gpus]
        )
    return fullest
