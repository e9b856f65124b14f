"""The free GPUs of a round, indexed: slots, machines and racks by number, and which of them a piece may lie in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

from yarn_plugin.model.gpus import Machine, Piece


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece may lie: anywhere, in a rack, in a machine (by number) or in one of its slots (by index)."""

    rack: str = ""
    machine: int = -1
    slot: int = -1

    @property
    def depth(self) -> int:
        """0 for anywhere to 3 for a slot."""
        return (self.rack != "" or self.machine >= 0) + (self.machine >= 0) + (self.slot >= 0)

    @property
    def sort_key(self) -> tuple[str, int, int]:
        """Orders places of the same depth."""
        return self.rack, self.machine, self.slot

    def contains(self, rack: str, machine: int) -> bool:
        """Whether the machine of this number in this rack lies here, or contains this place."""
        return self.machine == machine if self.machine >= 0 else self.rack in ("", rack)


@dataclass(frozen=True)
class Offer:
    """The machines of a round, sorted by id, and the GPUs of their slots."""

    machines: tuple[Machine, ...]

    @classmethod
    def of(cls, machines: Sequence[Machine]) -> "Offer":
        """An offer of these machines in any order."""
        return cls(tuple(sorted(machines, key=_id)))

    @cached_property
    def remembered(self) -> dict[str, Any]:
        """What `alike` remembers of this offer."""
        return {}

    @cached_property
    def slots(self) -> list[str]:
        """Slot ids; a slot's number is its index."""
        return [slot.id for machine in self.machines for slot in machine.slots]

    @cached_property
    def slot_gpus(self) -> list[int]:
        """The free GPUs of each slot."""
        return [slot.gpus for machine in self.machines for slot in machine.slots]

    @cached_property
    def machine_of_slot(self) -> list[int]:
        """The number of each slot's machine."""
        return [number for number, machine in enumerate(self.machines) for _ in machine.slots]

    @cached_property
    def slots_of(self) -> list[range]:
        """The numbers of each machine's slots."""
        ends = list(accumulate([len(machine.slots) for machine in self.machines], initial=0))
        return [range(start, end) for start, end in pairwise(ends)]

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The id of each slot's machine, by the slot's id."""
        return {slot.id: machine.id for machine in self.machines for slot in machine.slots}

    @cached_property
    def number_of_slot(self) -> dict[str, int]:
        """The number of each slot, by id."""
        return {name: number for number, name in enumerate(self.slots)}

    @cached_property
    def number_of_machine(self) -> dict[str, int]:
        """The number of each machine, by id."""
        return {machine.id: number for number, machine in enumerate(self.machines)}

    @cached_property
    def machine_gpus(self) -> list[int]:
        """The free GPUs of each machine."""
        return [machine.gpus for machine in self.machines]

    def place(self, within: str) -> Place:
        """The slot, machine or rack with this id; "": anywhere. See `within` for equal ids."""
        machines, slots = self.within(within)
        if self.is_slot(within):
            return Place("", machines[0], self.slots_of[machines[0]].index(slots[0]))
        if within in self.number_of_machine:
            return Place("", machines[0])
        return Place(within)

    def has(self, place: str) -> bool:
        """Whether this is the id of a slot, machine or rack of the offer, or ""."""
        return place in self.number_of_machine or place in self.number_of_slot or place in self._racks

    def within(self, place: str) -> tuple[Sequence[int], Sequence[int]]:
        """The numbers of the machines and the slots in a slot, machine or rack, and under "" in the whole offer.

        If a slot has the id of its machine, the id stands for the machine; if a machine has the id of a rack, for the
        machine.
        """
        machine = self.number_of_machine.get(place)
        if machine is not None:
            return [machine], self.slots_of[machine]
        slot = self.number_of_slot.get(place)
        if slot is not None:
            return [self.machine_of_slot[slot]], [slot]
        return self._racks[place]

    @cached_property
    def _racks(self) -> dict[str, tuple[Sequence[int], Sequence[int]]]:
        """`within` of each rack, and of ""."""
        racks: dict[str, tuple[list[int], list[int]]] = {}
        for number, (machine, mine) in enumerate(zip(self.machines, self.slots_of, strict=True)):
            machines, slots = racks.setdefault(machine.rack, ([], []))
            machines.append(number)
            slots += mine
        return {**racks, "": (range(len(self.machines)), range(len(self.slots)))}

    def is_slot(self, place: str) -> bool:
        """Whether this is the id of a slot rather than of something that contains slots."""
        return place in self.number_of_slot and place not in self.number_of_machine

    def offered(self, place: str) -> int:
        """How many GPUs are offered in a slot, machine or rack, or under "" in all."""
        if place not in self._offered:
            self._offered[place] = sum([self.slot_gpus[slot] for slot in self.within(place)[1]])
        return self._offered[place]

    @cached_property
    def _offered(self) -> dict[str, int]:
        return {}

    def largest(self, piece: Piece) -> int:
        """The most GPUs that one of the slots or machines offers in which a piece may lie."""
        key = piece.within, piece.level
        if key not in self._largest:
            in_slot, bins = self.bins(piece)
            gpus = self.slot_gpus if in_slot else self.machine_gpus
            self._largest[key] = max([gpus[one] for one in bins], default=0)
        return self._largest[key]

    @cached_property
    def _largest(self) -> dict[tuple[str, str], int]:
        return {}

    def bins(self, piece: Piece) -> tuple[bool, Sequence[int]]:
        """Whether a piece must lie in one slot rather than in one machine, and the numbers of those it may lie in."""
        machines, slots = self.within(piece.within)
        in_slot = piece.level == "slot" or self.is_slot(piece.within)
        return in_slot, slots if in_slot else machines


_id = attrgetter("id")

MAX_KNOWN = 16


class Offers:
    """The offers of the same machines, of which there are many: most bids of a round answer the same offer."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[Machine, ...], Offer]] = {}

    def of(self, machines: tuple[Machine, ...]) -> Offer:
        """An offer of these machines in any order; the same object for the same object."""
        known = self._known.get(id(machines))
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            # The machines too, so that no others get their id.
            known = self._known[id(machines)] = machines, Offer.of(machines)
        return known[1]
