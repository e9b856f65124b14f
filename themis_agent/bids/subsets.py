"""Every subset of an offer, where there are few."""

import math
from collections import Counter
from itertools import combinations_with_replacement, pairwise, product

from themis_agent.bids.offered import Kind, OfferedGpus
from yarn_plugin.model.gpus import Machine, Piece

MAX_ENUMERATED = 200
"""Offers with so many different subsets are enumerated."""


def enumerated(offered: OfferedGpus) -> list[tuple[Kind, ...]]:
    """Every subset of the free GPUs but for equal machines; nothing if there are too many."""
    if len(offered.free) >= MAX_ENUMERATED:
        # n equal machines have at least n + 1 subsets.
        return []
    alike: dict[tuple[object, ...], list[Machine]] = {}
    homes = {place.machine for place in offered.held}
    for name in offered.free:
        machine = offered.machines[name]
        own = name if name in homes else ""
        key = (machine.rack, offered.rank_of[name], tuple(sorted(slot.gpus for slot in machine.slots)), own)
        alike.setdefault(key, []).append(machine)
        if 1 << len(alike) > MAX_ENUMERATED:
            # At least two choices in each of them.
            return []
    number = 1
    for machines in alike.values():
        number *= _multisets(_number_of_choices(machines[0], machines[0].id in homes), len(machines))
        if number > MAX_ENUMERATED:
            return []
    per_class = [
        list(combinations_with_replacement(_choices(machines[0], machines[0].id in homes), len(machines)))
        for machines in alike.values()
    ]
    found = []
    for chosen in product(*per_class):
        kinds: list[Kind] = []
        for machines, amounts in zip(alike.values(), chosen, strict=True):
            for machine, amount in zip(machines, amounts, strict=True):
                kinds += _named(machine, amount)
        if kinds:
            found.append(tuple(kinds))
    return found


def _multisets(choices: int, members: int) -> int:
    number = 1
    for index in range(members):
        number = number * (choices + index) // (index + 1)
    return number


def _number_of_choices(machine: Machine, slots_differ: bool) -> int:
    """How many `_choices` there are."""
    if slots_differ:
        return math.prod([slot.gpus + 1 for slot in machine.slots])
    alike = Counter([slot.gpus for slot in machine.slots])
    return math.prod([_multisets(gpus + 1, slots) for gpus, slots in alike.items()])


def _choices(machine: Machine, slots_differ: bool) -> list[tuple[int, ...]]:
    """How many GPUs of each slot one may take; equal slots in descending order, unless they differ by what is held."""
    slots = sorted(machine.slots, key=lambda slot: (-slot.gpus, slot.id))
    equal = [one.gpus == other.gpus and not slots_differ for one, other in pairwise(slots)]
    return [
        amounts
        for amounts in product(*(range(slot.gpus, -1, -1) for slot in slots))
        if all(one >= other for (one, other), same in zip(pairwise(amounts), equal, strict=True) if same)
    ]


def _named(machine: Machine, amounts: tuple[int, ...]) -> list[Kind]:
    """These GPUs of a machine: as one piece if that says it all, otherwise a piece for each slot."""
    slots = sorted(machine.slots, key=lambda slot: (-slot.gpus, slot.id))
    total = sum(amounts)
    if total == 0:
        return []
    if total == machine.gpus or sum(slot.gpus > 0 for slot in slots) == 1:
        return [(Piece(total, machine.id), 1)]
    return [(Piece(gpus, slot.id, "slot"), 1) for slot, gpus in zip(slots, amounts, strict=True) if gpus]
