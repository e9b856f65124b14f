"""How a set of GPUs is spread over slots, machines and racks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from yarn_plugin.model.gpus import Gpus, Machine

Bins = tuple[tuple[int, int], ...]
"""Cells of one level by their number of GPUs: (GPUs, cells with so many), ascending."""

SLOT, MACHINE, RACK, ANYWHERE = range(4)
"""The smallest cell that a job's GPUs lie in together."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slot is; `gpus`: how many of its GPUs are meant."""

    rack: str
    machine: str
    slot: str
    gpus: int


@dataclass(frozen=True)
class Spread:
    """The sizes of a set's parts in slots, in machines and in racks, and its own size: all that finish times need."""

    bins: tuple[Bins, Bins, Bins, Bins]

    @cached_property
    def gpus(self) -> int:
        """How many GPUs they are."""
        return sum(size * count for size, count in self.bins[SLOT])

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Spread":
        """The spread of the GPUs in these places."""
        slots: Counter[str] = Counter()
        machines: Counter[str] = Counter()
        racks: Counter[str] = Counter()
        for place in places:
            if place.gpus:
                slots[place.slot] += place.gpus
                machines[place.machine] += place.gpus
                racks[place.rack] += place.gpus
        whole = Counter({"": slots.total()} if slots else {})
        return cls((_bins(slots), _bins(machines), _bins(racks), _bins(whole)))


NOTHING = Spread(((), (), (), ()))


def _bins(cells: Mapping[str, int]) -> Bins:
    return tuple(sorted(Counter(cells.values()).items()))


def places_of(gpus: Gpus, machines: Iterable[Machine]) -> tuple[Place, ...]:
    """Where these GPUs are. A slot that no machine has is taken to be alone in its rack."""
    known = {slot.id: (machine.rack, machine.id) for machine in machines for slot in machine.slots}
    found = []
    for slot, count in gpus:
        rack, machine = known.get(slot, (f"rack of {slot}", f"machine of {slot}"))
        found.append(Place(rack, machine, slot, count))
    return tuple(found)
