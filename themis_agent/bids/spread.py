"""How a set of GPUs is spread over slots, machines and racks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat

from yarn_plugin.model.gpus import Gpus, Machine

Bins = tuple[tuple[int, int], ...]
"""Cells of one level by their number of GPUs: (GPUs, cells with so many), ascending."""

SLOT, MACHINE, RACK, ANYWHERE = range(4)
"""The smallest cell that a job's GPUs lie in together."""

MachineShape = tuple[tuple[int, int], ...]
"""(GPUs of a slot, slots with so many), the largest first."""
RackShape = tuple[tuple[MachineShape, int], ...]
"""(machine, how many like it), the largest first."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slot is; `gpus`: how many of its GPUs are meant."""

    rack: str
    machine: str
    slot: str
    gpus: int


@dataclass(frozen=True)
class Spread:
    """A set of GPUs but for the names of its racks, machines and slots: (rack, how many like it), the largest first."""

    racks: tuple[tuple[RackShape, int], ...]

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Spread":
        """The spread of the GPUs in these places."""
        inside: dict[str, dict[str, Counter[str]]] = {}
        for place in places:
            if place.gpus:
                inside.setdefault(place.rack, {}).setdefault(place.machine, Counter())[place.slot] += place.gpus
        return spread_of(
            Counter(
                rack_shape(Counter(machine_shape(slots.values()) for slots in machines.values()))
                for machines in inside.values()
            )
        )

    @cached_property
    def bins(self) -> tuple[Bins, Bins, Bins, Bins]:
        """The cells of each level."""
        slots: Counter[int] = Counter()
        machines: Counter[int] = Counter()
        racks: Counter[int] = Counter()
        for rack, racks_like_it in self.racks:
            in_rack = 0
            for machine, machines_like_it in rack:
                in_machine = 0
                for gpus, slots_like_it in machine:
                    slots[gpus] += slots_like_it * machines_like_it * racks_like_it
                    in_machine += gpus * slots_like_it
                machines[in_machine] += machines_like_it * racks_like_it
                in_rack += in_machine * machines_like_it
            racks[in_rack] += racks_like_it
        whole = sum(gpus * count for gpus, count in racks.items())
        return _bins(slots), _bins(machines), _bins(racks), ((whole, 1),) if whole else ()

    @property
    def gpus(self) -> int:
        """How many GPUs they are."""
        return self.bins[ANYWHERE][0][0] if self.racks else 0


def machine_shape(slots: Iterable[int]) -> MachineShape:
    """The shape of a machine with so many GPUs in its slots."""
    return tuple(sorted(Counter(slots).items(), reverse=True))


def rack_shape(machines: Mapping[MachineShape, int]) -> RackShape:
    """The shape of a rack with these machines."""
    return tuple(sorted(machines.items(), key=lambda one: (_machine_gpus(one[0]), one), reverse=True))


def spread_of(racks: Mapping[RackShape, int]) -> Spread:
    """The spread of GPUs in these racks."""
    return Spread(tuple(sorted(racks.items(), key=lambda one: (_rack_gpus(one[0]), one), reverse=True)))


def _machine_gpus(machine: MachineShape) -> int:
    return sum([gpus * count for gpus, count in machine])


def _rack_gpus(rack: RackShape) -> int:
    return sum([_machine_gpus(machine) * count for machine, count in rack])


def _bins(cells: Mapping[int, int]) -> Bins:
    return tuple(sorted(cells.items()))


def parts_of(spread: Spread, sizes: Iterable[int]) -> list[Spread]:
    """Parts of these sizes, one after the other: whole racks, machines and slots as far as possible, the largest first.

    The sizes must not add up to more than there is.
    """
    slots = _slots(spread)
    parts = []
    rack = machine = left = 0
    for size in sizes:
        taken: dict[int, dict[int, list[int]]] = {}
        while size:
            if left == 0:
                rack, machine, left = next(slots)
            gpus = min(left, size)
            taken.setdefault(rack, {}).setdefault(machine, []).append(gpus)
            left -= gpus
            size -= gpus
        parts.append(
            spread_of(
                Counter(
                    rack_shape(Counter(machine_shape(inside) for inside in machines.values()))
                    for machines in taken.values()
                )
            )
        )
    return parts


def _slots(spread: Spread) -> Iterator[tuple[int, int, int]]:
    """The number of its rack, of its machine, and the GPUs of each slot."""
    racks = chain.from_iterable(repeat(machines, count) for machines, count in spread.racks)
    for rack, machines in enumerate(racks):
        for machine, inside in enumerate(chain.from_iterable(repeat(one, count) for one, count in machines)):
            for gpus, count in inside:
                yield from repeat((rack, machine, gpus), count)


def places_of(gpus: Gpus, machines: Iterable[Machine]) -> tuple[Place, ...]:
    """Where these GPUs are. A slot that no machine has is taken to be alone in its rack."""
    known = {slot.id: (machine.rack, machine.id) for machine in machines for slot in machine.slots}
    found = []
    for slot, count in gpus:
        rack, machine = known.get(slot, (f"rack of {slot}", f"machine of {slot}"))
        found.append(Place(rack, machine, slot, count))
    return tuple(found)
