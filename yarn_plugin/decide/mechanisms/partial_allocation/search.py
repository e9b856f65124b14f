"""The proportionally fair allocation: at most one row for each bidder, the greatest sum of gains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.partial_allocation.candidates import Candidate
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.packing import Packing

Choice = tuple[int | None, ...]
"""The candidate of each bidder, by index; None: nothing."""

Pack = Callable[[Choice], Packing]


@dataclass(frozen=True, slots=True)
class Best:
    """The best choice found, its gains, and a bound that no choice exceeds, in units of `valuation.NAT`."""

    choice: Choice
    gain: int
    bound: int
    work: int


def maximise(offer: Offer, tables: Sequence[Sequence[Candidate]], pack: Pack, work_limit: int, skip: int = -1) -> Best:
    """The choice with the greatest gain that can be packed; `skip`: this bidder gets nothing."""
    search = _Search(offer, [[] if index == skip else list(table) for index, table in enumerate(tables)], pack)
    return search.run(work_limit)


class _Search:
    """Depth first, the bidder with the greatest gain first; bounded by the best row of each of the rest."""

    def __init__(self, offer: Offer, tables: list[list[Candidate]], pack: Pack) -> None:
        self._tables, self._pack = tables, pack
        self._order = sorted(range(len(tables)), key=lambda i: (-(tables[i][0].gain if tables[i] else 0), i))
        best = [tables[i][0].gain if tables[i] else 0 for i in self._order]
        self._rest = [sum(best[depth:]) for depth in range(len(best) + 1)]
        self._free = {place: sum(offer.slot_gpus[slot] for slot in within[1]) for place, within in offer.within.items()}
        self._above = {
            place: [other for other, (_, slots) in offer.within.items() if set(within[1]) <= set(slots)]
            for place, within in offer.within.items()
        }
        self._chosen: list[int | None] = [None] * len(tables)
        self._best, self._gain, self._work, self._open = tuple(self._chosen), 0, 0, 0

    def run(self, work_limit: int) -> Best:
        self._limit = work_limit
        self._descend(0, 0)
        return Best(self._best, self._gain, max(self._open, self._gain), self._work)

    def _descend(self, depth: int, gain: int) -> None:
        if gain + self._rest[depth] <= self._gain:
            return
        if self._work >= self._limit:
            self._open = max(self._open, gain + self._rest[depth])
            return
        self._work += 1
        if depth == len(self._order):
            packing = self._pack(tuple(self._chosen))
            self._work += packing.work
            if packing.gpus is not None:
                self._best, self._gain = tuple(self._chosen), gain
            elif not packing.impossible:
                self._open = max(self._open, gain)
            return
        bidder = self._order[depth]
        for index, one in enumerate(self._tables[bidder]):
            if self._take(one, 1):
                self._chosen[bidder] = index
                self._descend(depth + 1, gain + one.gain)
                self._chosen[bidder] = None
            self._take(one, -1)
        self._descend(depth + 1, gain)

    def _take(self, one: Candidate, sign: int) -> bool:
        fits = True
        for piece in one.pieces:
            for place in self._above[piece.within]:
                self._free[place] -= sign * piece.gpus
                fits &= self._free[place] >= 0
        return fits
