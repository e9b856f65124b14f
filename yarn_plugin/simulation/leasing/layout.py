"""Where the GPUs of a pool lie: GPUs in slots, slots in machines, machines in racks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from yarn_plugin.model.gpus import Gpus, Machine, Slot, Slowdown, Speeds, speed_on
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.topology import Cell, Topology

GpuIds = frozenset[str]
"""The ids of single GPUs."""


@dataclass(frozen=True)
class Layout:
    """All machines of a pool with all their GPUs. A GPU's id is that of its slot, `/gpu-`, and a number from 0."""

    machines: tuple[Machine, ...]

    @cached_property
    def gpus(self) -> Mapping[str, str]:
        """The slot of every GPU, by the GPU's id."""
        return {
            f"{slot.id}/gpu-{number}": slot.id
            for machine in self.machines
            for slot in machine.slots
            for number in range(slot.gpus)
        }

    @cached_property
    def topology(self) -> Topology:
        """The cells: racks, machines, slots, GPUs."""
        cells: dict[str, Cell] = {}
        for rack in dict.fromkeys(machine.rack for machine in self.machines):
            total_gpus = sum(machine.gpus for machine in self.machines if machine.rack == rack)
            cells[rack] = _cell(rack, "rack", None, total_gpus)
        for machine in self.machines:
            node = _cell(machine.id, "node", machine.rack, machine.gpus)
            cells[machine.id] = replace(node, gpu_model=machine.model)
            for slot in machine.slots:
                cells[slot.id] = _cell(slot.id, "slot", machine.id, slot.gpus)
        for gpu, slot_id in self.gpus.items():
            cells[gpu] = _cell(gpu, "gpu", slot_id, 1)
        return Topology(("rack", "node", "slot", "gpu"), cells)

    @cached_property
    def machine_of(self) -> Mapping[str, Machine]:
        """The machine of every slot, by the slot's id."""
        return {slot.id: machine for machine in self.machines for slot in machine.slots}

    def count(self, ids: Iterable[str]) -> Gpus:
        """How many of these GPUs lie in each slot."""
        counts: dict[str, int] = {}
        for gpu in ids:
            slot = self.gpus[gpu]
            counts[slot] = counts.get(slot, 0) + 1
        return tuple(sorted(counts.items()))

    def within(self, gpus: Gpus) -> tuple[Machine, ...]:
        """The machines with these GPUs alone, in the pool's order."""
        counts = dict(gpus)
        found: dict[str, Machine] = {}
        for slot in counts:
            machine = self.machine_of[slot]
            found[machine.id] = machine
        return tuple(
            Machine(
                one.id,
                one.rack,
                tuple(Slot(slot.id, counts[slot.id]) for slot in one.slots if slot.id in counts),
                one.model,
            )
            for one in sorted(found.values(), key=lambda one: self._place[one.id])
        )

    def slowdown(self, gpus: Gpus, profile: Slowdown) -> float:
        """The factor by which an iteration takes longer on these GPUs: that of the widest level that they span."""
        if len(gpus) < 2:
            return 1.0
        machines = {self.machine_of[slot].id for slot, _ in gpus}
        if len(machines) == 1:
            return profile.slot
        racks = {self.machine_of[slot].rack for slot, _ in gpus}
        return profile.machine if len(racks) == 1 else profile.rack

    def speed(self, gpus: Gpus, speeds: Speeds) -> float:
        """How fast a job is on these GPUs: as on the slowest of them."""
        if not speeds:
            return 1.0
        return min([speed_on(speeds, self.machine_of[slot].model) for slot, _ in gpus], default=1.0)

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {machine.id: place for place, machine in enumerate(self.machines)}


def _cell(id: str, level: str, parent: str | None, gpus: int) -> Cell:
    return Cell(id, level, parent, Resources.of({GPU: gpus}))
