"""All ways to place pieces, for cases that a greedy way does not decide: an exact search with a limit on its work."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import add, gt

from yarn_plugin.decide.mechanisms.partial_allocation.alike import Alike, after, joined
from yarn_plugin.decide.mechanisms.partial_allocation.capacities import dual_feasible, fullest_bins
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.pieces import Fit, Kind, Step, Way, ways

MAX_STEPS = 3_000
"""After so many pieces placed, whether they fit is not known."""

MAX_DUAL = 64
"""GPUs of the largest bin up to which dual feasible functions are used."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of pieces by their size, in which larger pieces count no less than their parts.

    `weigh`: by size. `fullest`: the most that fits in a bin, by its GPUs.
    """

    weigh: Mapping[int, int]
    fullest: Sequence[int]


@dataclass(frozen=True, slots=True)
class Need:
    """What pieces need at least. `measures`: of their sizes. By measure: `on_machine`, of those that are bound to a
    machine, by its number; `in_rack`, of those that are bound to a rack or a machine in it; `anywhere`, of the others.
    `blocks`: (size, how many blocks of this size in one bin the others contain)."""

    measures: tuple[Measure, ...]
    on_machine: Mapping[int, Sequence[int]]
    in_rack: Mapping[str, Sequence[int]]
    anywhere: Sequence[int]
    blocks: Sequence[tuple[int, int]]


class EveryWay:
    """Depth first; what is left of the machines after some pieces is tried once.

    Args:
        order: the kinds in the order in which they are placed: those that need a slot, then the others; those with
            fewer possible places first.
        kinds: how many pieces of each.
    """

    def __init__(self, offer: Offer, order: Sequence[Kind], kinds: Mapping[Kind, int]) -> None:
        self._offer, self._order = offer, order
        self._pieces = [kind for kind in order for _ in range(kinds[kind])]
        self._ends = list(accumulate(kinds[kind] for kind in order))
        sizes = sorted({kind.gpus for kind in order})
        self._larger = {size: sizes[index + 1 :] for index, size in enumerate(sizes)}
        self._slots = sum(kinds[kind] for kind in order if kind.in_slot)
        self._needs: dict[tuple[int, bool], Need] = {}
        self._failed: set[tuple[int, frozenset[tuple[Alike, int]]]] = set()

    def search(self, machines: Counter[Alike]) -> Fit:
        """A way to place the pieces, or the proof that there is none, unless that takes too long."""
        machines = machines if self._slots else joined(machines)
        self._largest = max((sum(one.free) for one in machines), default=0)
        steps: list[Step] = []
        stack = [(machines, self._ways(0, machines))]
        work = 0
        while stack:
            current, left = stack[-1]
            depth = len(stack) - 1
            if depth == len(self._pieces):
                return Fit(tuple(steps), False, work)
            if not left:
                self._failed.add((depth, frozenset(current.items())))
                stack.pop()
                continue
            if work >= MAX_STEPS:
                return Fit(None, False, work)
            work += 1
            way = left.pop()
            rest = Counter(current)
            rest[way.machine] -= 1
            rest[after(way.machine, way.slot, self._pieces[depth].gpus)] += 1
            rest = joined(+rest) if depth + 1 == self._slots else +rest
            if (depth + 1, frozenset(rest.items())) not in self._failed:
                steps[depth:] = [Step(self._pieces[depth], way.machine, way.slot, 1, 1)]
                stack.append((rest, self._ways(depth + 1, rest)))
        return Fit(None, True, work)

    def _ways(self, depth: int, machines: Counter[Alike]) -> list[Way]:
        """The ways to place a piece that may lead to a place for all, the best last."""
        if depth == len(self._pieces) or self._is_hopeless(depth, machines):
            return []
        piece = self._pieces[depth]
        found = sorted(ways(piece, machines, self._larger[piece.gpus]), reverse=True)
        if depth >= self._slots or self._slots == len(self._pieces):
            # Whatever else would lie in a bin that the piece fills fits where the piece would lie otherwise.
            exact = [way for way in found if way.gpus == piece.gpus]
            return exact[:1] or found
        return found

    def _is_hopeless(self, depth: int, machines: Mapping[Alike, int]) -> bool:
        """Whether the pieces from this on need more than is left, in slots or in machines."""
        return any(
            not _may_suffice(self._need(depth, in_slots), machines, in_slots)
            for in_slots in ((True, False) if depth < self._slots else (False,))
        )

    def _need(self, depth: int, in_slots: bool) -> Need:
        if (depth, in_slots) not in self._needs:
            left = [
                (kind, end - max(depth, start))
                for kind, start, end in zip(self._order, [0, *self._ends], self._ends, strict=False)
                if end > depth and kind.in_slot >= in_slots
            ]
            measures = _measures(tuple(sorted({kind.gpus for kind, _ in left})), self._largest)
            on_machine: dict[int, list[int]] = {}
            in_rack: dict[str, list[int]] = {}
            anywhere = [0] * len(measures)
            for kind, count in left:
                machine, rack = kind.place.machine, kind.place.rack
                needed = [] if kind.place.depth else [anywhere]
                if machine >= 0:
                    rack = self._offer.machines[machine].rack
                    needed.append(on_machine.setdefault(machine, [0] * len(measures)))
                if kind.place.depth:
                    needed.append(in_rack.setdefault(rack, [0] * len(measures)))
                for total in needed:
                    for index, one in enumerate(measures):
                        total[index] += count * one.weigh[kind.gpus]
            free = [(kind.gpus, count) for kind, count in left if not kind.place.depth]
            blocks = [(size, sum(count * (gpus // size) for gpus, count in free)) for size in sorted(dict(free))]
            self._needs[depth, in_slots] = Need(measures, on_machine, in_rack, anywhere, blocks)
        return self._needs[depth, in_slots]


def _may_suffice(need: Need, machines: Mapping[Alike, int], in_slots: bool) -> bool:
    """A necessary condition for pieces to fit: of each machine that they name, of each rack and of all.

    A rack has room for no more blocks of a size than each measure leaves, less what is bound to the rack.
    """
    left: dict[str, list[int]] = {rack: [-part for part in parts] for rack, parts in need.in_rack.items()}
    for one, count in machines.items():
        bins = one.free if in_slots else (sum(one.free),)
        room = [count * sum([measure.fullest[gpus] for gpus in bins]) for measure in need.measures]
        bound = need.on_machine.get(one.number)
        if bound is not None and any(map(gt, bound, room)):
            return False
        known = left.get(one.rack)
        left[one.rack] = room if known is None else list(map(add, known, room))
    if any(part < 0 for parts in left.values() for part in parts):
        return False
    if any(sum(parts) < most for *parts, most in zip(*left.values(), need.anywhere, strict=True)):
        return False
    for size, wanted in need.blocks:
        each = [(index, one.weigh[size]) for index, one in enumerate(need.measures) if one.weigh[size]]
        if sum(min(parts[index] // weight for index, weight in each) for parts in left.values()) < wanted:
            return False
    return True


@lru_cache(maxsize=1 << 10)
def _measures(sizes: tuple[int, ...], largest: int) -> tuple[Measure, ...]:
    """GPUs, blocks of each size and, where sizes do not divide each other, dual feasible functions."""
    weights = [{size: size for size in sizes}, *({size: size // k for size in sizes} for k in sizes)]
    if largest <= MAX_DUAL and any(size % sizes[0] for size in sizes):
        for k in range(2, largest // 2 + 1):
            weights.append({size: dual_feasible(size, largest, k) for size in sizes})
    different = [one for index, one in enumerate(weights) if one not in weights[:index]]
    return tuple(Measure(weigh, fullest_bins(weigh, largest)) for weigh in different)
