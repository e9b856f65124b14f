"""The free GPUs of an offer, by machine and rack."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import Literal

from themis_agent.bids.spread import Bins
from yarn_plugin.model.gpus import Machine

ANYWHERE = ""

Level = Literal["machine", "slot"]


class FreeGpus:
    """The free GPUs of these machines. `machines`: those with any, in order of their ids. `free`: by machine. `racks`:
    their machines."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        counted = [(machine.id, gpus, machine) for machine in machines if (gpus := machine.gpus) > 0]
        counted.sort(key=itemgetter(0))
        self.machines = {name: machine for name, _, machine in counted}
        self.free = {name: gpus for name, gpus, _ in counted}
        self.racks: dict[str, list[str]] = {}
        for name in self.free:
            self.racks.setdefault(self.machines[name].rack, []).append(name)
        self.slots = {slot.id: machine for machine in self.machines.values() for slot in machine.slots}
        self._bins: dict[tuple[str, Level], Bins] = {}

    def bins(self, within: str, level: Level) -> Bins:
        """See `OfferedGpus.bins`."""
        if (within, level) not in self._bins:
            members = self.free if within == ANYWHERE else self.racks[within]
            if level == "machine":
                counts = Counter([self.free[name] for name in members])
            else:
                counts = Counter([slot.gpus for name in members for slot in self.machines[name].slots if slot.gpus])
            self._bins[within, level] = tuple(sorted(counts.items()))
        return self._bins[within, level]

    @cached_property
    def cells(self) -> tuple[dict[str, int], ...]:
        """The free GPUs of each slot, of each machine, of each rack, and all."""
        slots = {slot.id: slot.gpus for machine in self.machines.values() for slot in machine.slots}
        racks = {rack: sum([self.free[name] for name in names]) for rack, names in self.racks.items()}
        return slots, self.free, racks, {ANYWHERE: sum(racks.values())}

    @cached_property
    def largest(self) -> list[int]:
        """The most free GPUs of one slot, of one machine, of one rack, and all."""
        return [max(cells.values(), default=0) for cells in self.cells]

    @cached_property
    def slots_by_gpus(self) -> dict[str, set[tuple[int, int]]]:
        """By rack: the free GPUs of its machines, and in how many slots they are."""
        machines, free = self.machines, self.free
        known = {name: (gpus, sum([slot.gpus > 0 for slot in machines[name].slots])) for name, gpus in free.items()}
        return {rack: {known[name] for name in names} for rack, names in self.racks.items()}


def _free_in(machine: Machine) -> tuple[object, ...]:
    slots = tuple([(slot.id, slot.gpus) for slot in machine.slots if slot.gpus])
    return machine.id, machine.rack, machine.model, slots


_last = FreeGpus(())
"""Cache of the last free GPUs of an offer: the offers of a simulated round differ in what bidders hold alone."""


def free_gpus(machines: Sequence[Machine]) -> tuple[FreeGpus, list[Machine]]:
    """The free GPUs of these machines, the same object for the same GPUs; and those machines that are not in it."""
    global _last
    known = _last.machines
    others = [machine for machine in machines if known.get(machine.id) is not machine]
    with_gpus = [machine for machine in others if machine.gpus > 0]
    same = len(machines) - len(others) + len(with_gpus) == len(known) and all(
        one.id in known and _free_in(one) == _free_in(known[one.id]) for one in with_gpus
    )
    if not same:
        _last = FreeGpus(machines)
        others = [machine for machine in machines if machine.id not in _last.free]
    return _last, others
