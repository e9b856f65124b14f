"""Machines that are alike: they do not differ for the pieces to place, so one of them stands for all."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.model.gpus import Machine


@dataclass(frozen=True, slots=True)
class Alike:
    """Machines that do not differ for the pieces to place. `number`: of a machine that a piece names, else -1.

    `free`: the GPUs of each slot, sorted unless the machine is named; once no more pieces in slots are to be placed,
    their sum alone.
    """

    rack: str
    number: int
    free: tuple[int, ...]


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
        same: dict[Alike, Alike] = {}
        self.alike = [same.setdefault(one, one) for one in map(_offered, offer.machines)]
        kinds = {id(one): one for one in same}
        self.counted = Counter({kinds[kind]: count for kind, count in Counter(map(id, self.alike)).items()})
        self.groups: dict[tuple[tuple[int, ...], frozenset[int]], Counter[Alike]] = {}


def _remembered(offer: Offer) -> _Remembered:
    if "alike" not in offer.remembered:
        offer.remembered["alike"] = _Remembered(offer)
    found: _Remembered = offer.remembered["alike"]
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


def _offered(machine: Machine) -> Alike:
    """What a machine is like with all its offered GPUs."""
    slots = machine.slots
    free = (slots[0].gpus,) if len(slots) == 1 else tuple(sorted([slot.gpus for slot in slots]))
    return Alike(machine.rack, -1, free)


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
