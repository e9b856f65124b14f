"""An offer as an application sees it: what is free, what it holds, and where the GPUs of a row may then lie."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from themis_agent.bids.free_gpus import ANYWHERE, Level, free_gpus
from themis_agent.bids.models import Models, Speeds
from themis_agent.bids.packing import fits
from themis_agent.bids.spread import Bins, MachineShape, Place, RackShape, Spread, machine_shape, merged, rack_shape
from yarn_plugin.model.gpus import Machine, Piece

ANY_RACK = "*"
"""One and the same rack, whichever, of those where nothing is held. Only within this package: rows name each."""

Inside = dict[str, dict[str, dict[str, int]]]
"""GPUs by rack, machine and slot."""
Kind = tuple[Piece, int]
"""A piece and how often it occurs."""
Parts = tuple[tuple[str, int], ...]
"""GPUs of a machine: in a slot, or anywhere in it."""
Room = tuple[int, str, list[str]]
"""Free GPUs of a machine in these slots."""


@dataclass(frozen=True)
class Candidate:
    """A row without its rho: pieces of different kinds."""

    kinds: tuple[Kind, ...]

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return sum([piece.gpus * count for piece, count in self.kinds])

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its pieces, one by one."""
        return tuple(piece for piece, count in self.kinds for _ in range(count))


class OfferedGpus:
    """The free GPUs of an offer, and those that the application holds.

    `free`: by machine. `racks`: their machines; "" is no rack that a row can name. `only_rack`: the rack of all GPUs,
    if there is but one. `alike`: racks in which nothing is held. `slots`: the machine of each slot. `rank_of`: how fast
    the GPUs of each machine are.
    """

    def __init__(self, machines: Sequence[Machine], held: Iterable[Place], speeds: Speeds | None = None) -> None:
        self._speeds = speeds or Speeds(())
        self._offer, others = free_gpus(machines)
        self.free, self.racks = self._offer.free, self._offer.racks
        self.machines = {**self._offer.machines, **{machine.id: machine for machine in others}}
        self.slots = {**self._offer.slots, **{slot.id: machine for machine in others for slot in machine.slots}}
        if self._speeds.matter:
            self.rank_of = {name: self._speeds.rank(machine.model) for name, machine in self.machines.items()}
        else:
            self.rank_of = dict.fromkeys(self.machines, 0)
        self.held = tuple(place for place in held if place.gpus)
        every_rack = self.racks.keys() | {place.rack for place in self.held}
        self.only_rack = next(iter(every_rack)) if len(every_rack) == 1 else None
        homes = {place.rack for place in self.held}
        self.alike = (
            [] if self.only_rack is not None else sorted(rack for rack in self.racks if rack and rack not in homes)
        )
        self._held_slots: Inside = {}
        for place in self.held:
            _add(self._held_slots, place.rack, place.machine, place.slot, place.gpus)
        self._held_machines = {
            rack: {name: machine_shape(slots.values()) for name, slots in machines_there.items()}
            for rack, machines_there in self._held_slots.items()
        }
        self._held_racks = {rack: rack_shape(shapes.values()) for rack, shapes in self._held_machines.items()}

    @cached_property
    def _held_in(self) -> tuple[Counter[str], ...]:
        """The held GPUs of each slot, of each machine, of each rack, and all."""
        found: tuple[Counter[str], ...] = Counter(), Counter(), Counter(), Counter()
        for place in self.held:
            for cells, cell in zip(found, (place.slot, place.machine, place.rack, ANYWHERE), strict=True):
                cells[cell] += place.gpus
        return found

    @cached_property
    def largest(self) -> list[int]:
        """The most GPUs in one cell of each level, free or held."""
        return [
            max([most, *(gpus + free.get(cell, 0) for cell, gpus in mine.items())])
            for mine, free, most in zip(self._held_in, self._offer.cells, self._offer.largest, strict=True)
        ]

    @cached_property
    def _largest_held(self) -> list[int]:
        """The most held GPUs in one cell of each level."""
        return [max(cells.values(), default=0) for cells in self._held_in]

    def largest_with(self, total: int, within: str) -> list[int]:
        """The same with so many GPUs of a class alone, as `spread` takes them to lie, beside what is held."""
        slot, machine, rack, held = self._largest_held
        in_slot, in_machine, *_ = [min(total, most) for most in self._offer.largest]
        in_rack = total + rack
        if within == ANY_RACK:
            in_rack = total
        elif within == ANYWHERE and self.only_rack is None:
            in_rack = in_machine
        return [max(slot, in_slot), max(machine, in_machine), max(rack, in_rack), held + total]

    def largest_at_home(self, total: int) -> list[int]:
        """The same with so many GPUs anywhere, in machines where some are held if they may be."""
        return [min(total + held, most) for held, most in zip(self._largest_held, self.largest, strict=True)]

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks of the free GPUs, ascending."""
        return sorted({self.rank_of[name] for name in self.free})

    def only(self, used: Models) -> "OfferedGpus":
        """The same offer without the free GPUs of other models."""
        machines = [machine for name, machine in self.machines.items() if self.rank_of[name] in used]
        return OfferedGpus(machines, self.held, self._speeds)

    def spreads(self, candidate: Candidate) -> Iterator[tuple[Models, Spread]]:
        """What an application may use of these GPUs and of what is held, and how it is spread, in the worst case.

        A piece of a class is of its slowest model. Without any of these GPUs it is no better off than before.
        """
        if not self._speeds.matter:
            yield (0,), self.spread(candidate)
            return
        kinds = [(kind, self._slowest(kind[0])) for kind in candidate.kinds]
        for used in self._speeds.limits([*(rank for _, rank in kinds), *self._held_ranks]):
            part = tuple([kind for kind, rank in kinds if rank in used])
            if part:
                yield used, self._holding(used).spread(Candidate(part))

    def _slowest(self, piece: Piece) -> int:
        """The largest rank of machines that a piece may lie in."""
        key = piece.within, piece.level, piece.gpus
        if key not in self._slowest_of:
            if piece.within in self.slots:
                names = [self.slots[piece.within].id]
            elif piece.within in self.machines:
                names = [piece.within]
            else:
                racks = self.alike if piece.within == ANY_RACK else [piece.within] if piece.within else self.racks
                names = [name for rack in racks for name in self.racks[rack] if self._has_room(name, piece)]
            self._slowest_of[key] = max(self.rank_of[name] for name in names)
        return self._slowest_of[key]

    def _has_room(self, name: str, piece: Piece) -> bool:
        if piece.level == "slot":
            return any(slot.gpus >= piece.gpus for slot in self.machines[name].slots)
        return self.free[name] >= piece.gpus

    @cached_property
    def _slowest_of(self) -> dict[tuple[str, str, int], int]:
        return {}

    @cached_property
    def _held_ranks(self) -> list[int]:
        return [self._speeds.rank(place.model) for place in self.held]

    def _holding(self, used: Models) -> "OfferedGpus":
        """The same offer to an application that holds GPUs of these models alone."""
        if set(self._held_ranks) <= set(used):
            return self
        if used not in self._holdings:
            held = [place for place, rank in zip(self.held, self._held_ranks, strict=True) if rank in used]
            self._holdings[used] = OfferedGpus(list(self.machines.values()), held, self._speeds)
        return self._holdings[used]

    @cached_property
    def _holdings(self) -> dict[Models, "OfferedGpus"]:
        return {}

    def is_of(self, candidate: Candidate, used: Models) -> bool:
        """Whether its pieces are of these models wherever they may lie."""
        return all(self._slowest(piece) in used for piece, _ in candidate.kinds)

    def in_only_rack(self, candidate: Candidate) -> Candidate:
        """The same, anywhere in the rack of all GPUs if there is but one."""
        rack = self.only_rack
        if not rack:
            return candidate
        return Candidate(
            tuple((Piece(one.gpus, one.within or rack, one.level), count) for one, count in candidate.kinds)
        )

    def named(self, candidate: Candidate) -> Candidate:
        """These pieces in machines and slots by name, where they fit tightest; without pieces if they do not fit."""
        free: dict[str, dict[str, int]] = {}
        found: Counter[tuple[str, Level]] = Counter()
        for piece, count in sorted(candidate.kinds, key=lambda kind: (kind[0].within == ANYWHERE, -kind[0].gpus)):
            left = count
            for room, name, slots in self._rooms_beside(free, piece):
                here = min(left, room // piece.gpus)
                if here:
                    if name not in free:
                        free[name] = {slot.id: slot.gpus for slot in self.machines[name].slots}
                    _take(free[name], slots, here * piece.gpus)
                    found[(slots[0], "slot") if piece.level == "slot" else (name, "machine")] += here * piece.gpus
                    left -= here
                if not left:
                    break
            if left:
                return Candidate(())
        return Candidate(tuple((Piece(gpus, within, level), 1) for (within, level), gpus in found.items()))

    def _rooms_beside(self, free: Mapping[str, Mapping[str, int]], piece: Piece) -> list[Room]:
        """Where a piece may lie, the smallest room first. `free`: of machines of which some GPUs are taken."""
        key = piece.within, piece.level
        if key not in self._all_rooms:
            self._all_rooms[key] = sorted([one for name in self.free for one in self._rooms(name, *key)])
        rooms = self._all_rooms[key]
        if free:
            rooms = [
                (sum([free[name][slot] for slot in slots]) if name in free else room, name, slots)
                for room, name, slots in rooms
            ]
            rooms.sort()
        return rooms

    @cached_property
    def _all_rooms(self) -> dict[tuple[str, Level], list[Room]]:
        return {}

    def _rooms(self, name: str, within: str, level: Level) -> Iterator[Room]:
        """Where in a machine pieces may lie."""
        machine = self.machines[name]
        gpus = {slot.id: slot.gpus for slot in machine.slots}
        if within in (ANYWHERE, machine.rack, name, *gpus):
            for slots in [[slot] for slot in gpus] if level == "slot" else [list(gpus)]:
                if within not in gpus or within == name or within in slots:
                    yield sum([gpus[slot] for slot in slots]), name, slots

    def has_rack(self, name: str) -> bool:
        """Whether machines of the offer, with or without free GPUs, are in this rack."""
        return any(machine.rack == name for machine in self.machines.values())

    def regions(self) -> list[str]:
        """Classes of machines: anywhere, any rack where nothing is held, and the rack where most is held."""
        if self.only_rack is not None:
            return [ANYWHERE]
        holds: Counter[str] = Counter()
        for place in self.held:
            holds[place.rack] += place.gpus
        homes = sorted((rack for rack in holds if rack and rack in self.racks), key=lambda rack: (-holds[rack], rack))
        return [ANYWHERE, *([ANY_RACK] if self.alike else []), *homes[:1]]

    def bins(self, within: str, level: Level = "machine") -> Bins:
        """The free GPUs of the machines, or of the slots, in a rack or anywhere: (GPUs, how many)."""
        return self._offer.bins(within, level)

    def all_bins(self, within: str, level: Level) -> list[Bins]:
        """The different bins of a class: one, but for `ANY_RACK`."""
        return sorted({self.bins(rack, level) for rack in (self.alike if within == ANY_RACK else [within])})

    def homes(self) -> list[str]:
        """Machines with free GPUs where the application holds some, those with most first."""
        holds: Counter[str] = Counter()
        for place in self.held:
            holds[place.machine] += place.gpus
        return sorted((name for name in holds if name in self.free), key=lambda name: (-holds[name], name))

    def expanded(self, candidate: Candidate) -> list[Candidate]:
        """One candidate for each rack that has these GPUs, if it is one for any rack; otherwise itself."""
        if all(piece.within != ANY_RACK for piece, _ in candidate.kinds):
            return [candidate]
        level = candidate.kinds[0][0].level
        gangs = sorted(((piece.gpus, count) for piece, count in candidate.kinds), reverse=True)
        return [
            Candidate(tuple((Piece(piece.gpus, rack, level), count) for piece, count in candidate.kinds))
            for rack in self.alike
            if fits(self.bins(rack, level), gangs)
        ]

    def spread(self, candidate: Candidate) -> Spread:
        """How these GPUs and what is held are spread in the worst case.

        Pieces of a class lie in different machines, anywhere in different racks; a piece is spread over as many slots
        as it may be.
        """
        named: dict[str, dict[str, Parts]] = {}
        loose: dict[str, list[tuple[MachineShape, int]]] = {}
        racks: list[tuple[RackShape, int]] = []
        for piece, count in candidate.kinds:
            in_slot = piece.level == "slot" and piece.within in self.slots
            if in_slot or piece.within in self.machines:
                machine = self.slots[piece.within] if in_slot else self.machines[piece.within]
                parts = named.setdefault(machine.rack, {})
                part = piece.within if in_slot else ANYWHERE, piece.gpus * count
                parts[machine.id] = (*parts.get(machine.id, ()), part)
            elif piece.within == ANYWHERE and self.only_rack is None:
                racks.append((((self._shape(piece), 1),), count))
            else:
                rack = piece.within if self.only_rack is None else self.only_rack
                loose.setdefault(rack, []).append((self._shape(piece), count))
        racks += [(shape, 1) for rack, shape in self._held_racks.items() if rack not in named and rack not in loose]
        for rack in {**named, **loose}:
            parts, machines = named.get(rack, {}), loose.get(rack, [])
            machines += [(self._machine_with(name, added), 1) for name, added in parts.items()]
            machines += [(shape, 1) for name, shape in self._held_machines.get(rack, {}).items() if name not in parts]
            racks.append((merged(machines), 1))
        return Spread(merged(racks))

    def _machine_with(self, name: str, parts: Parts) -> MachineShape:
        """What is held of a machine and these GPUs of it, in the worst case."""
        if (name, parts) not in self._machines_with:
            machine = self.machines[name]
            held = self._held_slots.get(machine.rack, {}).get(name, {})
            slots = Counter(held)
            for slot, gpus in parts:
                slots.update({slot: gpus} if slot else _scattered(machine, gpus, held))
            self._machines_with[name, parts] = machine_shape(slots.values())
        return self._machines_with[name, parts]

    @cached_property
    def _machines_with(self) -> dict[tuple[str, Parts], MachineShape]:
        return {}

    def _shape(self, piece: Piece) -> MachineShape:
        """The GPUs of a piece of a class in slots, in the worst case."""
        key = piece.within, piece.level, piece.gpus
        if key not in self._shapes:
            slots = 1
            if piece.level == "machine":
                # Without what is held on other models there may be but one rack, which is none of those alike.
                among = self.alike if piece.within == ANY_RACK else [piece.within] if piece.within else ()
                kinds = [kind for rack in among or self.racks for kind in self._offer.slots_by_gpus[rack]]
                slots = max([slots for gpus, slots in kinds if gpus >= piece.gpus])
            self._shapes[key] = machine_shape(_even(piece.gpus, slots))
        return self._shapes[key]

    @cached_property
    def _shapes(self) -> dict[tuple[str, str, int], MachineShape]:
        return {}


def _add(inside: Inside, rack: str, machine: str, slot: str, gpus: int) -> None:
    slots = inside.setdefault(rack, {}).setdefault(machine, {})
    slots[slot] = slots.get(slot, 0) + gpus


def _take(free: dict[str, int], slots: Sequence[str], gpus: int) -> None:
    """Take GPUs of these slots, the fullest first."""
    left = gpus
    for slot in sorted(slots, key=lambda one: (-free[one], one)):
        taken = min(left, free[slot])
        free[slot] -= taken
        left -= taken


def _scattered(machine: Machine, gpus: int, held: Mapping[str, int]) -> Counter[str]:
    """So many GPUs of a machine, spread with those held over as many slots as possible."""
    taken: Counter[str] = Counter()
    for _ in range(gpus):
        open_slots = (slot.id for slot in machine.slots if taken[slot.id] < slot.gpus)
        taken[min(open_slots, key=lambda slot: (held.get(slot, 0) + taken[slot], slot))] += 1
    return taken


def _even(gpus: int, parts: int) -> list[int]:
    """So many GPUs in so many parts, as even as possible, without empty ones."""
    return [gpus // parts + (index < gpus % parts) for index in range(min(parts, gpus))]
