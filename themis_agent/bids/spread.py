"""How a set of GPUs is spread over slots, machines and racks."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from yarn_plugin.model.gpus import Gpus, Machine

Bins = tuple[tuple[int, int], ...]
"""Cells of one level by their number of GPUs: (GPUs, cells with so many), ascending."""

SLOT, MACHINE, RACK, ANYWHERE = range(4)
"""The smallest cell that a job's GPUs lie in together."""

MachineShape = tuple[tuple[int, int], ...]
"""(GPUs of a slot, slots with so many)."""
RackShape = tuple[tuple[MachineShape, int], ...]
"""(machine, how many like it)."""

Thing = TypeVar("Thing", int, MachineShape, RackShape)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slot is; `gpus`: how many of its GPUs are meant; `model`: of its GPUs, empty if it is not known."""

    rack: str
    machine: str
    slot: str
    gpus: int
    model: str = ""


class Spread:
    """A set of GPUs but for the names of its racks, machines and slots: an immutable value.

    `racks`: (rack, how many like it). `bins`: the cells of each level, from slots to all GPUs. `gpus`: how many.
    """

    __slots__ = ("_hash", "bins", "gpus", "racks")

    def __init__(self, racks: tuple[tuple[RackShape, int], ...]) -> None:
        self.racks = racks
        self.bins = _bins_of(racks)
        self.gpus = self.bins[ANYWHERE][0][0] if racks else 0
        self._hash = hash(racks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spread) and self.racks == other.racks

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Spread":
        """The spread of the GPUs in these places."""
        inside: dict[str, dict[str, dict[str, int]]] = {}
        for place in places:
            if place.gpus:
                slots = inside.setdefault(place.rack, {}).setdefault(place.machine, {})
                slots[place.slot] = slots.get(place.slot, 0) + place.gpus
        return spread_of(
            rack_shape([machine_shape(slots.values()) for slots in machines.values()]) for machines in inside.values()
        )


@lru_cache(maxsize=4096)
def in_one_slot(gpus: int) -> Spread:
    """The spread of so many GPUs in one slot."""
    return Spread.of([Place("", "", "", gpus)])


def machine_shape(slots: Iterable[int]) -> MachineShape:
    """The shape of a machine with so many GPUs in its slots."""
    return _counted(slots)


def rack_shape(machines: Iterable[MachineShape]) -> RackShape:
    """The shape of a rack with these machines."""
    return _counted(machines)


def spread_of(racks: Iterable[RackShape]) -> Spread:
    """The spread of GPUs in these racks."""
    return Spread(_counted(racks))


def _counted(things: Iterable[Thing]) -> tuple[tuple[Thing, int], ...]:
    """Each different one and how often it occurs, in one order whatever theirs."""
    counts: dict[Thing, int] = {}
    for thing in things:
        counts[thing] = counts.get(thing, 0) + 1
    return tuple(sorted(counts.items()))


def _bins_of(racks: tuple[tuple[RackShape, int], ...]) -> tuple[Bins, Bins, Bins, Bins]:
    slots: dict[int, int] = {}
    machines: dict[int, int] = {}
    sizes: dict[int, int] = {}
    whole = 0
    for rack, racks_like_it in racks:
        in_rack = 0
        for machine, machines_like_it in rack:
            in_machine, machine_count = 0, machines_like_it * racks_like_it
            for gpus, slots_like_it in machine:
                slots[gpus] = slots.get(gpus, 0) + slots_like_it * machine_count
                in_machine += gpus * slots_like_it
            machines[in_machine] = machines.get(in_machine, 0) + machine_count
            in_rack += in_machine * machines_like_it
        sizes[in_rack] = sizes.get(in_rack, 0) + racks_like_it
        whole += in_rack * racks_like_it
    everything: Bins = ((whole, 1),) if whole else ()
    return tuple(sorted(slots.items())), tuple(sorted(machines.items())), tuple(sorted(sizes.items())), everything


def parts_of(spread: Spread, sizes: Iterable[int]) -> list[Spread]:
    """Parts of these sizes, one after the other: whole racks, machines and slots as far as possible, the largest first.

    The sizes must not add up to more than there is.
    """
    if spread == in_one_slot(spread.gpus):
        return [in_one_slot(size) for size in sizes]
    left = _largest_first(spread.racks)
    parts = []
    for size in sizes:
        taken, left = _cut(left, size)
        parts.append(Spread(_merged(taken)))
    return parts


def _cut(runs: list[tuple[Any, int]], gpus: int) -> tuple[list[tuple[Any, int]], list[tuple[Any, int]]]:
    """The first so many GPUs of these cells, and the others; cells are racks, machines, or slots (their GPUs)."""
    taken, left = [], list(reversed(runs))
    while gpus:
        cell, count = left.pop()
        size = _gpus(cell)
        whole = min(count, gpus // size)
        if whole:
            taken.append((cell, whole))
            gpus -= whole * size
            if whole < count:
                left.append((cell, count - whole))
            continue
        if count > 1:
            left.append((cell, count - 1))
        if isinstance(cell, int):
            taken.append((gpus, 1))
            left.append((cell - gpus, 1))
        else:
            inner, others = _cut(_largest_first(cell), gpus)
            taken.append((_merged(inner), 1))
            left.append((_merged(others), 1))
        gpus = 0
    return taken, left[::-1]


def _largest_first(runs: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    return sorted(runs, key=lambda run: (-_gpus(run[0]), run))


@lru_cache(maxsize=4096)
def _gpus(cell: Any) -> int:
    return cell if isinstance(cell, int) else sum([_gpus(inner) * count for inner, count in cell])


def _merged(runs: Iterable[tuple[Any, int]]) -> tuple[tuple[Any, int], ...]:
    counts: dict[Any, int] = {}
    for cell, count in runs:
        counts[cell] = counts.get(cell, 0) + count
    return tuple(sorted(counts.items()))


def places_of(gpus: Gpus, machines: Iterable[Machine]) -> tuple[Place, ...]:
    """Where these GPUs are. A slot that no machine has is taken to be alone in its rack."""
    wanted, found = dict(gpus), []
    if not wanted:
        return ()
    known = {
        slot.id: (machine.rack, machine.id, machine.model)
        for machine in machines
        for slot in machine.slots
        if slot.id in wanted
    }
    for slot, count in gpus:
        rack, machine, model = known.get(slot, (f"rack of {slot}", f"machine of {slot}", ""))
        found.append(Place(rack, machine, slot, count, model))
    return tuple(found)
