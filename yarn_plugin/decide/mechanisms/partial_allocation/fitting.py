"""Whether pieces fit the machines, by counting machines that are alike: exact, and fast for hundreds of pieces."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer, Place
from yarn_plugin.model.gpus import Machine, Piece

MAX_STEPS = 3_000
"""Of the search for cases that greedy packing does not decide; piece sizes that divide each other never need it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Pieces that can lie in the same places. `in_slot`: each in one slot, not only in one machine."""

    place: Place
    in_slot: bool
    gpus: int


@dataclass(frozen=True, slots=True)
class Alike:
    """Machines that do not differ for the pieces to place. `number`: of a machine that a piece names, else -1.

    `free`: the GPUs of each slot, sorted unless the machine is named; once no more pieces in slots are to be placed,
    their sum alone.
    """

    rack: str
    number: int
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """`pieces` pieces of a kind go to each of `machines` machines like this; `slot`: the index in `free`."""

    kind: Kind
    alike: Alike
    slot: int
    pieces: int
    machines: int


@dataclass(frozen=True, slots=True)
class Fit:
    """How pieces fit. `steps`: None if no way was found; `impossible`: there is none. `work`: steps tried."""

    steps: tuple[Step, ...] | None
    impossible: bool
    work: int


def kinds_of(offer: Offer, pieces: Sequence[Piece]) -> Counter[Kind]:
    """How many pieces of each kind."""
    counted = Counter((piece.within, piece.level, piece.gpus) for piece in pieces)
    kinds: Counter[Kind] = Counter()
    for (within, level, gpus), count in counted.items():
        place = offer.place(within)
        kinds[Kind(place, level == "slot" or place.slot >= 0, gpus)] += count
    return kinds


def fit(offer: Offer, slot_gpus: Sequence[int], kinds: Mapping[Kind, int]) -> Fit:
    """Places the pieces in slots with so many free GPUs.

    Pieces with fewer possible places first, the larger first, each in the fullest machine with room. If all sizes
    divide each other, failure of this proves that there is no way: it leaves the least fragmented machines (Coffman,
    Garey and Johnson, 1987, for bin packing with divisible sizes). Otherwise all ways are searched.
    """
    order = sorted(kinds, key=lambda kind: (not kind.in_slot, -kind.place.depth, -kind.gpus, kind.place.sort_key))
    named = {kind.place.machine for kind in kinds if kind.place.machine >= 0}
    machines = group(offer, tuple(slot_gpus), frozenset(named))
    steps = _greedily(order, kinds, machines)
    if steps is not None:
        return Fit(tuple(steps), False, len(steps))
    sizes = sorted({kind.gpus for kind in kinds})
    divisible = all(larger % smaller == 0 for smaller, larger in pairwise(sizes))
    if divisible and not order[0].in_slot:
        return Fit(None, True, len(order))
    return _Search([kind for kind in order for _ in range(kinds[kind])]).run(machines)


def group(offer: Offer, slot_gpus: tuple[int, ...], named: frozenset[int]) -> Counter[Alike]:
    """How many machines are alike; `named`: the numbers of those that pieces name."""
    remembered = _remembered(offer)
    if (slot_gpus, named) not in remembered.groups:
        if len(remembered.groups) >= MAX_GROUPED:
            remembered.groups.clear()
        remembered.groups[slot_gpus, named] = _group(offer, remembered, slot_gpus, named)
    return remembered.groups[slot_gpus, named]


MAX_GROUPED = 64
"""Groupings of the machines that are remembered: most are for the whole offer and no named machines."""


class _Remembered:
    """What is known of an offer. `alike`: each machine with all its offered GPUs; equal ones are the same object.
    `counted`: how many there are of each. `groups`: results of `group`."""

    def __init__(self, offer: Offer) -> None:
        self.alike = [_offered(machine) for machine in offer.machines]
        kinds = {id(one): one for one in self.alike}
        self.counted = Counter({kinds[kind]: count for kind, count in Counter(map(id, self.alike)).items()})
        self.groups: dict[tuple[tuple[int, ...], frozenset[int]], Counter[Alike]] = {}


def _remembered(offer: Offer) -> _Remembered:
    if "fitting" not in offer.remembered:
        offer.remembered["fitting"] = _Remembered(offer)
    found: _Remembered = offer.remembered["fitting"]
    return found


def changed(offer: Offer, slot_gpus: Sequence[int]) -> set[int]:
    """The numbers of the machines that have other free GPUs now than in the offer."""
    slots = [slot for slot, (now, then) in enumerate(zip(slot_gpus, offer.slot_gpus, strict=True)) if now != then]
    return {offer.machine_of_slot[slot] for slot in slots}


def _group(offer: Offer, remembered: _Remembered, slot_gpus: tuple[int, ...], named: frozenset[int]) -> Counter[Alike]:
    machines = Counter(remembered.counted)
    for number in named | changed(offer, slot_gpus):
        machines[remembered.alike[number]] -= 1
        machines[alike(offer, slot_gpus, named, number)] += 1
    return +machines


def alike(offer: Offer, slot_gpus: Sequence[int], named: Set[int], number: int) -> Alike:
    """What a machine is like."""
    slots = offer.slots_of[number]
    free = tuple(slot_gpus[slots.start : slots.stop])
    if number in named:
        return Alike(offer.machines[number].rack, number, free)
    return Alike(offer.machines[number].rack, -1, free if len(free) == 1 else tuple(sorted(free)))


_known: dict[int, tuple[Machine, Alike]] = {}
"""Cache of `_offered`, by the identity of the machine: most of a large pool are the same objects in many rounds."""

_kinds: dict[Alike, Alike] = {}
"""The machines in `_known`, each kind once."""

_MAX_KNOWN = 1 << 14


def _offered(machine: Machine) -> Alike:
    """What a machine is like with all its offered GPUs."""
    known = _known.get(id(machine))
    if known is None:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
            _kinds.clear()
        one = Alike(machine.rack, -1, tuple(sorted([slot.gpus for slot in machine.slots])))
        # The machine too, so that no other gets its id.
        known = _known[id(machine)] = machine, _kinds.setdefault(one, one)
    return known[1]


def like(offer: Offer, wanted: Alike, in_slots: bool, other: Set[int]) -> list[int]:
    """The numbers of the machines that are like this with all their offered GPUs, but those of `other`.

    `in_slots`: each slot counts, not only their sum.
    """
    known = _remembered(offer)
    kinds = {
        id(one)
        for one in known.counted
        if (one.rack, one.number) == (wanted.rack, wanted.number) and free_of(one, in_slots) == wanted.free
    }
    return [number for number, one in enumerate(known.alike) if id(one) in kinds and number not in other]


def free_of(one: Alike, in_slots: bool) -> tuple[int, ...]:
    """The free GPUs of a machine: of each slot, or all."""
    return one.free if in_slots else (sum(one.free),)


def places(kind: Kind, machines: Mapping[Alike, int]) -> Iterator[tuple[int, Alike, int]]:
    """Where a piece has room: the free GPUs there, the machine, and the index in its `free`."""
    for one, count in machines.items():
        if count and kind.place.contains(one.rack, one.number):
            seen: set[int] = set()
            for slot, gpus in enumerate(one.free):
                if gpus >= kind.gpus and gpus not in seen and kind.place.slot in (-1, slot):
                    seen.add(gpus)
                    yield gpus, one, slot


def after(one: Alike, slot: int, gpus: int) -> Alike:
    """The machine without these GPUs."""
    free = [*one.free]
    free[slot] -= gpus
    return Alike(one.rack, one.number, tuple(free if one.number >= 0 else sorted(free)))


def joined(machines: Mapping[Alike, int]) -> Counter[Alike]:
    """The machines when no piece has to lie in one slot any more: only the sum of free GPUs counts."""
    sums: Counter[Alike] = Counter()
    for one, count in machines.items():
        sums[Alike(one.rack, one.number, (sum(one.free),))] += count
    return sums


def _greedily(order: Sequence[Kind], kinds: Mapping[Kind, int], machines: Counter[Alike]) -> list[Step] | None:
    machines, in_slots = Counter(machines), True
    steps: list[Step] = []
    for kind in order:
        if in_slots and not kind.in_slot:
            machines, in_slots = joined(machines), False
        left = kinds[kind]
        while left:
            _, one, slot = min(places(kind, machines), key=_preference, default=(0, None, 0))
            if one is None:
                return None
            each = min(left, one.free[slot] // kind.gpus)
            count = min(machines[one], left // each)
            steps.append(Step(kind, one, slot, each, count))
            machines[one] -= count
            machines[after(one, slot, each * kind.gpus)] += count
            left -= each * count
    return steps


def _preference(found: tuple[int, Alike, int]) -> tuple[int, int, str, int, tuple[int, ...], int]:
    gpus, one, slot = found
    return gpus, sum(one.free), one.rack, one.number, one.free, slot


class _Search:
    """Tries all ways; what is left of the machines after some pieces is tried once."""

    def __init__(self, pieces: Sequence[Kind]) -> None:
        self._pieces = pieces
        self._failed: set[tuple[int, frozenset[tuple[Alike, int]]]] = set()
        self._steps: list[Step] = []
        self._work = 0

    def run(self, machines: Counter[Alike]) -> Fit:
        """A way to place the pieces, or the proof that there is none, unless it takes too long."""
        stack = [(machines, self._ways(0, machines))]
        while stack:
            depth = len(stack) - 1
            current, ways = stack[-1]
            if depth == len(self._pieces):
                return Fit(tuple(self._steps), False, self._work)
            if self._work >= MAX_STEPS:
                return Fit(None, False, self._work)
            if not ways:
                self._failed.add((depth, frozenset(current.items())))
                stack.pop()
                if self._steps:
                    self._steps.pop()
                continue
            self._work += 1
            _, one, slot = ways.pop()
            rest = Counter(current)
            rest[one] -= 1
            rest[after(one, slot, self._pieces[depth].gpus)] += 1
            rest = +rest
            if depth + 1 < len(self._pieces) and self._pieces[depth].in_slot and not self._pieces[depth + 1].in_slot:
                rest = joined(rest)
            if (depth + 1, frozenset(rest.items())) not in self._failed:
                self._steps.append(Step(self._pieces[depth], one, slot, 1, 1))
                stack.append((rest, self._ways(depth + 1, rest)))
        return Fit(None, True, self._work)

    def _ways(self, depth: int, machines: Counter[Alike]) -> list[tuple[int, Alike, int]]:
        """The places of a piece, the best last."""
        if depth == len(self._pieces):
            return []
        return sorted(places(self._pieces[depth], machines), key=_preference, reverse=True)
