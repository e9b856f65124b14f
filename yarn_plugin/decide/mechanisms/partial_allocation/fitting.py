"""Whether pieces fit the machines, by counting machines that are alike: exact, and fast for hundreds of pieces."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from yarn_plugin.decide.mechanisms.partial_allocation.alike import Alike, after, group, joined
from yarn_plugin.decide.mechanisms.partial_allocation.every_way import EveryWay
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.pieces import Fit, Kind, Step, unsplit, ways
from yarn_plugin.model.gpus import Piece


def kinds_of(offer: Offer, pieces: Sequence[Piece]) -> Counter[Kind]:
    """How many pieces of each kind. Where all machines have one slot, a piece in a slot is one in a machine."""
    is_flat = len(offer.slots) == len(offer.machines)
    counted = Counter((piece.within, piece.level, piece.gpus) for piece in pieces)
    kinds: Counter[Kind] = Counter()
    for (within, level, gpus), count in counted.items():
        place = offer.place(within)
        kinds[Kind(place, not is_flat and (level == "slot" or place.slot >= 0), gpus)] += count
    return kinds


def fit(offer: Offer, slot_gpus: Sequence[int], kinds: Mapping[Kind, int]) -> Fit:
    """Places the pieces in slots with so many free GPUs: greedily if that succeeds, otherwise by trying every way.

    Pieces with fewer possible places come first, the larger first. If all sizes divide each other, and all pieces need
    a slot or none does, failure of the greedy way proves that there is none. Blocks of these sizes are then as in a
    buddy allocator: a piece takes the smallest block that is large enough, so as many blocks of each larger size are
    left for the pieces that follow as any way leaves.
    """
    order = sorted(kinds, key=lambda kind: (not kind.in_slot, -kind.place.depth, -kind.gpus, kind.place.sort_key))
    named = {kind.place.machine for kind in kinds if kind.place.machine >= 0}
    machines = group(offer, tuple(slot_gpus), frozenset(named))
    sizes = sorted({kind.gpus for kind in kinds})
    steps = _greedily(order, kinds, sizes, machines)
    if steps is not None:
        return Fit(tuple(steps), False, len(steps))
    if order[0].in_slot == order[-1].in_slot and all(larger % smaller == 0 for smaller, larger in pairwise(sizes)):
        return Fit(None, True, len(order))
    return EveryWay(offer, order, kinds).search(machines)


def _greedily(
    order: Sequence[Kind], kinds: Mapping[Kind, int], sizes: Sequence[int], machines: Counter[Alike]
) -> list[Step] | None:
    """Each piece where it splits the smallest block of a larger size; of such places in the fullest."""
    machines, in_slots = Counter(machines), True
    steps: list[Step] = []
    for kind in order:
        if in_slots and not kind.in_slot:
            machines, in_slots = joined(machines), False
        larger = [size for size in sizes if size > kind.gpus]
        left = kinds[kind]
        while left:
            way = min(ways(kind, machines, larger), default=None)
            if way is None:
                return None
            _, room = unsplit(kind.gpus, way.gpus, larger)
            each = min(left, room // kind.gpus)
            count = min(machines[way.machine], left // each)
            steps.append(Step(kind, way.machine, way.slot, each, count))
            machines[way.machine] -= count
            machines[after(way.machine, way.slot, each * kind.gpus)] += count
            left -= each * count
    return steps
