"""Which rows of a bid table are worth sending."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from themis_agent.bids.free_gpus import ANYWHERE
from themis_agent.bids.offered import ANY_RACK, Candidate, Kind, OfferedGpus
from yarn_plugin.model.gpus import Piece

Valued = tuple[Candidate, float]
"""A row and its rho."""


def undominated(rows: Sequence[Valued], offered: OfferedGpus) -> list[Valued]:
    """Without rows for which another one is no worse and can be had wherever they can be had, with part of their GPUs.

    The result is in order of the number of GPUs, then the more flexible rows first.
    """
    regions = _Regions(offered)
    kept: list[_Row] = []
    for row in sorted([regions.row(valued) for valued in rows], key=attrgetter("order")):
        if not any(regions.is_part(other, row) for other in kept if other.rho <= row.rho):
            # A row with as many GPUs may dominate an earlier one that is as good but less flexible.
            kept = [
                other
                for other in kept
                if not (other.rho == row.rho and other.gpus == row.gpus and regions.is_part(row, other))
            ]
            kept.append(row)
    return [row.valued for row in kept]


def selected(patterns: Sequence[Valued], offered: OfferedGpus, limit: int) -> list[Valued]:
    """Rows of these, with racks named; at most so many.

    First, for each number of GPUs, the best one if it is better than all with fewer GPUs; then the most flexible ones;
    then others by rho.
    """
    rows = [(row, rho) for pattern, rho in patterns for row in offered.expanded(pattern)]
    if len(rows) <= limit:
        return rows
    ranked: list[tuple[int, float, int]] = []
    best = float("inf")
    by_gpus: dict[int, list[int]] = {}
    for index, (candidate, _) in enumerate(rows):
        by_gpus.setdefault(candidate.gpus, []).append(index)
    for indices in by_gpus.values():
        order = sorted(indices, key=lambda index: (rows[index][1], index))
        widest = min(indices, key=lambda index: (_narrowness(rows[index][0]), rows[index][1], index))
        for place, index in enumerate(order):
            is_best = place == 0 and rows[index][1] < best
            tier = 0 if is_best else 1 if index == widest else 2 + place
            ranked.append((tier, rows[index][1], index))
        best = min(best, rows[order[0]][1])
    return [rows[index] for index in sorted(index for _, _, index in sorted(ranked)[:limit])]


def _narrowness(candidate: Candidate) -> tuple[int, int]:
    """How hard it is to have: pieces that are bound to a place, then the size of its largest piece."""
    bound = sum(count for piece, count in candidate.kinds if piece.within != ANYWHERE)
    return bound, max(piece.gpus for piece, _ in candidate.kinds)


@dataclass(slots=True)
class _Row:
    """A row to compare. `order`: see `undominated`. `kinds`: those bound to the smallest place first, then the largest.
    `largest`: the size of its largest piece."""

    valued: Valued
    order: tuple[object, ...]
    gpus: int
    rho: float
    kinds: list[Kind]
    largest: int


class _Above(dict[str, tuple[str, ...]]):
    """The places that contain each place, itself included; found when first asked for, as most are never named."""

    def __init__(self, offered: OfferedGpus) -> None:
        super().__init__({ANY_RACK: (ANY_RACK, ANYWHERE)})
        self._offered, self._alike = offered, frozenset(offered.alike)

    def __missing__(self, place: str) -> tuple[str, ...]:
        found = self[place] = self._found(place)
        return found

    def _found(self, place: str) -> tuple[str, ...]:
        offered = self._offered
        if place in offered.machines:
            return (place, *self._above_rack(offered.machines[place].rack))
        if place in offered.slots:
            machine = offered.slots[place]
            return (place, machine.id, *self._above_rack(machine.rack))
        return self._above_rack(place) if place != ANYWHERE or offered.has_rack(ANYWHERE) else (ANYWHERE,)

    def _above_rack(self, rack: str) -> tuple[str, ...]:
        return (rack, *((ANY_RACK,) if rack in self._alike else ()), ANYWHERE)


class _Regions:
    """Which place contains which."""

    def __init__(self, offered: OfferedGpus) -> None:
        self._above = _Above(offered)

    def row(self, valued: Valued) -> _Row:
        """A row to compare."""
        candidate, rho = valued
        gpus, kinds = candidate.gpus, candidate.kinds
        depths = [len(self._above[piece.within]) for piece, _ in kinds]
        specificity = sum([depth * count for depth, (_, count) in zip(depths, kinds, strict=True)])
        text = [(piece.gpus, piece.within, piece.level, count) for piece, count in kinds]
        tightest = [kinds[at] for at in sorted(range(len(kinds)), key=lambda at: (-depths[at], -kinds[at][0].gpus))]
        largest = max([piece.gpus for piece, _ in kinds], default=0)
        return _Row(valued, (gpus, rho, specificity, text), gpus, rho, tightest, largest)

    def is_part(self, part: _Row, whole: _Row) -> bool:
        """Whether whoever has the GPUs of `whole` has those of `part`, wherever they are. May miss some."""
        if part.gpus > whole.gpus or part.largest > whole.largest:
            return False
        room: list[tuple[Piece, int, int]] = [(piece, piece.gpus, count) for piece, count in whole.valued[0].kinds]
        for piece, count in part.kinds:
            left = count
            following: list[tuple[Piece, int, int]] = []
            for other, gpus, often in sorted(room, key=lambda one: one[1]):
                if left == 0 or gpus < piece.gpus or not self._lies_in(other, piece):
                    following.append((other, gpus, often))
                    continue
                each = gpus // piece.gpus
                full = min(often, left // each)
                left -= full * each
                following.append((other, gpus - each * piece.gpus, full))
                if left and full < often:
                    following.append((other, gpus - left * piece.gpus, 1))
                    full, left = full + 1, 0
                following.append((other, gpus, often - full))
            if left:
                return False
            room = [one for one in following if one[1] and one[2]]
        return True

    def _lies_in(self, inner: Piece, outer: Piece) -> bool:
        """Whether GPUs of one piece are a possible place for the other."""
        if outer.level == "slot" and inner.level != "slot" and outer.gpus > 1:
            return False
        return outer.within in self._above[inner.within]
