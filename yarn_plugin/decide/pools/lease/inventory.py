"""The GPUs of a pool's topology, one by one, and their place: machine, slot, rack.

A GPU's id is its cell, where the topology describes single GPUs; else the id of the smallest described cell and a
number, such as `node-1/3`. Its slot is the smallest cell that contains it and other GPUs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.model.gpus import GpuPlace, Gpus, Machine, Slot
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Lease
from yarn_plugin.model.topology import NODE, RACK, Cell, Topology

BySlot = Mapping[str, tuple[str, ...]]
"""GPUs by slot, in their order; slots without any are missing."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The usable GPUs of a pool. `places`: by GPU, in the order of machines, slots and ordinals.

    `by_machine`: how many each usable machine has, for comparison. `layout`: the machines, none of their GPUs free.
    `machine_of`: of each slot, its machine's place in `layout`. `gpus_in`: of each slot. `order`: the place of each
    GPU in `places`.
    """

    places: Mapping[str, GpuPlace] = field(default_factory=dict)
    by_machine: tuple[tuple[str, int], ...] = ()
    layout: tuple[Machine, ...] = ()
    machine_of: Mapping[str, int] = field(default_factory=dict)
    gpus_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)

    def machines(self, free: BySlot, others: Iterable[str] = ()) -> tuple[Machine, ...]:
        """The machines of these free GPUs, and of other GPUs, whose slots may have none free."""
        counts = {slot: len(gpus) for slot, gpus in free.items()}
        return self._shown(counts.keys() | {self.places[gpu].slot for gpu in others if gpu in self.places}, counts)

    def by_slot(self, gpus: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """These GPUs by slot; those that are not here are left out."""
        found: dict[str, list[str]] = {}
        for gpu in sorted([gpu for gpu in gpus if gpu in self.order], key=self.order.__getitem__):
            found.setdefault(self.places[gpu].slot, []).append(gpu)
        return {slot: tuple(mine) for slot, mine in found.items()}

    def machines_of(self, slots: Iterable[str]) -> tuple[Machine, ...]:
        """The machines of these slots, none of their GPUs free; unknown slots are left out."""
        machine_of, layout = self.machine_of, self.layout
        shown: dict[int, list[str]] = {}
        for slot in set(slots):
            if slot in machine_of:
                shown.setdefault(machine_of[slot], []).append(slot)
        return tuple([self._part(layout[number], shown[number]) for number in sorted(shown)])

    def _part(self, machine: Machine, slots: Sequence[str]) -> Machine:
        """A machine of the layout with these of its slots."""
        if len(slots) == len(machine.slots):
            return machine
        some = tuple([slot for slot in machine.slots if slot.id in slots])
        return Machine(machine.id, machine.rack, some, machine.model, machine.host)

    def _shown(self, shown: Set[str], counts: Mapping[str, int]) -> tuple[Machine, ...]:
        names = {self.machine_of[slot] for slot in shown}
        return tuple(
            Machine(
                one.id,
                one.rack,
                tuple(Slot(slot.id, counts.get(slot.id, 0)) for slot in one.slots if slot.id in shown),
                one.model,
                one.host,
            )
            for one in (self.layout[number] for number in sorted(names))
        )

    def located(self, lease: Lease) -> Lease:
        """A lease as its holder is told of it: with the places of its GPUs."""
        return replace(lease, holdings=tuple([replace(one, place=self.places.get(one.cell)) for one in lease.holdings]))

    def count(self, gpus: Iterable[str]) -> Gpus:
        """How many of these GPUs each slot has."""
        counts: dict[str, int] = {}
        for gpu in gpus:
            place = self.places.get(gpu)
            if place is not None:
                counts[place.slot] = counts.get(place.slot, 0) + 1
        return tuple(sorted(counts.items()))


def inventory(topology: Topology, settings: LeaseSettings) -> Inventory:
    """The GPUs of the pool's machines that are not broken, as many as tasks can use there."""
    below: dict[str | None, list[Cell]] = {}
    for cell in topology.cells.values():
        below.setdefault(cell.parent, []).append(cell)
    places: dict[str, GpuPlace] = {}
    counts: list[tuple[str, int]] = []
    for node in sorted(topology.at(NODE), key=lambda cell: cell.id):
        if topology.is_broken(node.id) or not settings.has_node(node.host or node.id, node.partition):
            continue
        above = list(topology.ancestors(node.id))
        rack = next((cell.id for cell in above if cell.level == RACK), above[0].id if above else "")
        usable = settings.gpus_for_tasks(node.capacity)
        gpus = enumerate(_gpus_in(node, node.id, below))
        found = [
            (gpu, GpuPlace(node.host or node.id, rack, node.id, slot, ordinal, node.gpu_model))
            for ordinal, (gpu, slot, is_broken) in gpus
            if not is_broken
        ][:usable]
        if found:
            places.update(found)
            counts.append((node.id, len(found)))
    return _laid_out(places, tuple(counts))


def inventory_of(cells: Cells) -> Inventory:
    """The GPUs of a pool's cells that are not broken."""
    places = {gpu: place for gpu, place in cells.gpus.items() if gpu not in cells.broken}
    return _laid_out(places, tuple(Counter(place.machine for place in places.values()).items()))


def _laid_out(places: Mapping[str, GpuPlace], by_machine: tuple[tuple[str, int], ...]) -> Inventory:
    first: dict[str, GpuPlace] = {}
    slots: dict[str, dict[str, Slot]] = {}
    for place in places.values():
        first.setdefault(place.machine, place)
        slots.setdefault(place.machine, {}).setdefault(place.slot, Slot(place.slot, 0))
    layout = tuple(
        Machine(name, one.rack, tuple(slots[name].values()), one.model, one.host) for name, one in first.items()
    )
    machine_of = {slot.id: number for number, machine in enumerate(layout) for slot in machine.slots}
    gpus_in: dict[str, list[str]] = {}
    for gpu, place in places.items():
        gpus_in.setdefault(place.slot, []).append(gpu)
    order = {gpu: number for number, gpu in enumerate(places)}
    return Inventory(places, by_machine, layout, machine_of, gpus_in, order)


def with_free(machine: Machine, counts: Mapping[str, int]) -> Machine:
    """A machine of the layout with these free GPUs by slot."""
    slots = tuple(Slot(slot.id, counts.get(slot.id, 0)) for slot in machine.slots)
    return Machine(machine.id, machine.rack, slots, machine.model, machine.host)


def _gpus_in(
    cell: Cell, slot: str, below: Mapping[str | None, list[Cell]], is_broken: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """The GPUs in a cell, each with its slot, and whether it is broken; `slot`: that of a single GPU directly in it."""
    parts = [part for part in below.get(cell.id, ()) if part.capacity[GPU]]
    if parts:
        for part in parts:
            yield from _gpus_in(part, cell.id, below, is_broken or part.broken)
        return
    count = cell.capacity[GPU]
    if count == 1 and cell.level != NODE:
        yield cell.id, slot, is_broken
    else:
        yield from ((f"{cell.id}/{ordinal}", cell.id, is_broken) for ordinal in range(count))
