"""The free GPUs of a round, indexed: slots, machines and racks by number, and which of them a piece may lie in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
        return cls(tuple(sorted(machines, key=lambda machine: machine.id)))

    @cached_property
    def grouped(self) -> dict[tuple[tuple[int, ...], frozenset[int]], Any]:
        """Remembers the results of `fitting.group` for this offer."""
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
    def slots_of(self) -> list[list[int]]:
        """The numbers of each machine's slots."""
        slots: list[list[int]] = [[] for _ in self.machines]
        for slot, machine in enumerate(self.machine_of_slot):
            slots[machine].append(slot)
        return slots

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The id of each slot's machine, by the slot's id."""
        return {slot.id: machine.id for machine in self.machines for slot in machine.slots}

    @cached_property
    def number_of_slot(self) -> dict[str, int]:
        """The number of each slot, by id."""
        return {name: number for number, name in enumerate(self.slots)}

    def place(self, within: str) -> Place:
        """The slot, machine or rack with this id; "": anywhere. See `within` for equal ids."""
        machines, slots = self.within[within]
        if self.is_slot(within):
            return Place("", machines[0], self.slots_of[machines[0]].index(slots[0]))
        if within in self._machine_ids:
            return Place("", machines[0])
        return Place(within)

    @cached_property
    def _machine_ids(self) -> set[str]:
        return {machine.id for machine in self.machines}

    @cached_property
    def within(self) -> dict[str, tuple[list[int], list[int]]]:
        """The numbers of the machines and the slots in each slot, machine and rack, and under "" in the whole offer.

        If a slot has the id of its machine, the id stands for the machine; if a machine has the id of a rack, for the
        machine.
        """
        places: dict[str, tuple[list[int], list[int]]] = {"": ([], [])}
        for number, machine in enumerate(self.machines):
            for place in ("", machine.rack):
                machines, slots = places.setdefault(place, ([], []))
                if number not in machines[-1:]:
                    machines.append(number)
                    slots.extend(self.slots_of[number])
        for slot, name in enumerate(self.slots):
            places[name] = [self.machine_of_slot[slot]], [slot]
        for number, machine in enumerate(self.machines):
            places[machine.id] = [number], self.slots_of[number]
        return places

    def is_slot(self, place: str) -> bool:
        """Whether this is the id of a slot rather than of something that contains slots."""
        return place in self.machine_of and place != self.machine_of[place]

    def offered(self, place: str) -> int:
        """How many GPUs are offered in a slot, machine or rack, or under "" in all."""
        if place not in self._offered:
            self._offered[place] = sum([self.slot_gpus[slot] for slot in self.within[place][1]])
        return self._offered[place]

    @cached_property
    def _offered(self) -> dict[str, int]:
        return {}

    def largest(self, piece: Piece) -> int:
        """The most GPUs that one of the slots or machines offers in which a piece may lie."""
        key = piece.within, piece.level
        if key not in self._largest:
            in_slot, bins = self.bins(piece)
            self._largest[key] = max([self.slot_gpus[one] if in_slot else self.machines[one].gpus for one in bins])
        return self._largest[key]

    @cached_property
    def _largest(self) -> dict[tuple[str, str], int]:
        return {}

    def bins(self, piece: Piece) -> tuple[bool, list[int]]:
        """Whether a piece must lie in one slot rather than in one machine, and the numbers of those it may lie in."""
        machines, slots = self.within[piece.within]
        in_slot = piece.level == "slot" or self.is_slot(piece.within)
        return in_slot, slots if in_slot else machines
