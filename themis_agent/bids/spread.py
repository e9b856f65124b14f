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

    __slots__ = ("_bins", "_hash", "racks")

    def __init__(self, racks: tuple[tuple[RackShape, int], ...]) -> None:
        self.racks = racks
        self._bins: tuple[Bins, ...] = ()
        self._hash = hash(racks)

    @property
    def bins(self) -> tuple[Bins, ...]:
        if not self._bins:
            # When first asked for: most parts of a spread are known ones.
            self._bins = _bins_of(self.racks)
        return self._bins

    @property
    def gpus(self) -> int:
        return self.bins[ANYWHERE][0][0] if self.racks else 0

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
        racks = [rack_shape([machine_shape(slots.values()) for slots in one.values()]) for one in inside.values()]
        return cls(_counted(racks))


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


def merged(runs: Iterable[tuple[Thing, int]]) -> tuple[tuple[Thing, int], ...]:
    """Each different one and how often it occurs, in one order whatever theirs; `runs`: so many of one."""
    counts: dict[Thing, int] = {}
    for thing, count in runs:
        counts[thing] = counts.get(thing, 0) + count
    return tuple(sorted(counts.items()))


def _counted(things: Iterable[Thing]) -> tuple[tuple[Thing, int], ...]:
    return merged([(thing, 1) for thing in things])


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
    left = _largest_last(spread.racks)
    return [Spread(merged(_cut(left, size))) for size in sizes]


def _cut(cells: list[tuple[Any, int]], gpus: int) -> list[tuple[Any, int]]:
    """Takes the last so many GPUs out of these cells, which are racks, machines, or slots (their GPUs)."""
    taken = []
    while gpus:
        cell, count = cells.pop()
        size = _gpus(cell)
        whole = min(count, gpus // size)
        if whole:
            taken.append((cell, whole))
            gpus -= whole * size
            if whole < count:
                cells.append((cell, count - whole))
            continue
        if count > 1:
            cells.append((cell, count - 1))
        if isinstance(cell, int):
            taken.append((gpus, 1))
            cells.append((cell - gpus, 1))
        else:
            inner = _largest_last(cell)
            taken.append((merged(_cut(inner, gpus)), 1))
            cells.append((merged(inner), 1))
        gpus = 0
    return taken


def _largest_last(runs: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    return sorted(runs, key=lambda run: (-_gpus(run[0]), run), reverse=True)


@lru_cache(maxsize=4096)
def _gpus(cell: Any) -> int:
    return cell if isinstance(cell, int) else sum([_gpus(inner) * count for inner, count in cell])


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
