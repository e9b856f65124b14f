"""Choose GPUs for gangs: packed by best fit into slots, machines and racks, or as they are listed.

`PackedGpus` and `ListedGpus` are working copies within one decision: they are changed in place, and never leave the
function that made them.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from heapq import heappop, heappush

from yarn_plugin.model.gpus import Gpus, Machine, Slowdown

Choice = list[tuple[str, int]]
"""How many GPUs of which slots."""

Reach = tuple[int, int, int, int]
"""How many GPUs there are within one slot, machine, rack, and in the cluster."""


NO_LIMIT = 1 << 62
"""More GPUs than there are."""


class Span(IntEnum):
    """What a set of GPUs spans, the narrowest first."""

    SLOT = 0
    MACHINE = 1
    RACK = 2
    CLUSTER = 3


def slowdown_factor(slowdown: Slowdown, span: Span) -> float:
    """By what factor an iteration takes longer on GPUs that span this (thesis, section 3.4.3.1)."""
    return (1.0, slowdown.slot, slowdown.machine, slowdown.rack)[span]


class ListedGpus:
    """Free GPUs in the order of the machines and their slots, whatever they span.

    Machines are looked at when their turn comes: most often, few of a large pool's are needed.
    """

    __slots__ = ("_machines", "_seen", "_slots")

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = iter(machines)
        self._slots: deque[tuple[str, int]] = deque()
        self._seen = 0

    @property
    def total(self) -> int:
        """How many are free."""
        return self.up_to(NO_LIMIT)

    def up_to(self, limit: int) -> int:
        """How many are free, at most `limit`."""
        while self._seen < limit and (machine := next(self._machines, None)) is not None:
            for slot in machine.slots:
                if slot.gpus:
                    self._slots.append((slot.id, slot.gpus))
                    self._seen += slot.gpus
        return min(self._seen, limit)

    def peek(self, wanted: int) -> Choice:
        """The GPUs that are next; there must be as many."""
        self.up_to(wanted)
        found: Choice = []
        for slot, gpus in self._slots:
            if wanted <= 0:
                break
            found.append((slot, min(gpus, wanted)))
            wanted -= gpus
        return found

    def take(self, wanted: int, held: Collection[str] = ()) -> Choice:
        """Take the next GPUs; there must be as many."""
        self.up_to(wanted)
        self._seen -= wanted
        taken: Choice = []
        while wanted:
            slot, gpus = self._slots.popleft()
            part = min(gpus, wanted)
            if part < gpus:
                self._slots.appendleft((slot, gpus - part))
            taken.append((slot, part))
            wanted -= part
        return taken


class Places:
    """Where slots are."""

    __slots__ = ("_home",)

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._home = {slot.id: (machine.id, machine.rack) for machine in machines for slot in machine.slots}

    def span_of(self, slots: Collection[str]) -> Span:
        """What GPUs in these slots span; unknown slots do not count."""
        if len(slots) <= 1:
            return Span.SLOT
        homes = {self._home[slot] for slot in slots if slot in self._home}
        if len(homes) <= 1:
            return Span.MACHINE
        return Span.RACK if len({rack for _, rack in homes}) == 1 else Span.CLUSTER


class PackedGpus:
    """Free GPUs, of which each gang gets those that span least.

    The rules, in this order: one slot; one machine; one rack; else as few racks as the freest allow. Among slots,
    machines or racks of which one suffices, the one of the machine or rack with the fewest free GPUs (best fit), ties
    in the order of the machines. Of a machine or rack that a gang needs in part: the freest slots and machines first,
    and for the remainder the fullest that suffices. GPUs for a job that holds some are first sought around those.
    `total`: how many GPUs are free.
    """

    __slots__ = ("_buckets", "_home", "_ids", "_in_rack", "_machine", "_open", "_rack", "_racks", "_slot", "total")

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._ids = [[slot.id for slot in machine.slots] for machine in machines]
        self._slot = [[slot.gpus for slot in machine.slots] for machine in machines]
        self._machine = [sum(slots) for slots in self._slot]
        self.total = sum(self._machine)
        names = {rack: number for number, rack in enumerate(dict.fromkeys(machine.rack for machine in machines))}
        self._rack = [names[machine.rack] for machine in machines]
        self._racks: list[list[int]] = [[] for _ in names]
        self._in_rack = [0] * len(names)
        for number, rack in enumerate(self._rack):
            self._racks[rack].append(number)
            self._in_rack[rack] += self._machine[number]
        self._home = {slot: number for number, slots in enumerate(self._ids) for slot in slots}
        # Machines by (free GPUs, free GPUs of the freest slot), each a heap. A machine whose numbers have changed is
        # removed when it comes to the top: the numbers only fall, so it never returns to an earlier heap.
        self._buckets: dict[tuple[int, int], list[int]] = {}
        for number, slots in enumerate(self._slot):
            if self._machine[number]:
                self._buckets.setdefault((self._machine[number], max(slots)), []).append(number)
        self._open: Reach | None = None

    def up_to(self, limit: int) -> int:
        """How many are free, at most `limit`."""
        return min(self.total, limit)

    def take(self, wanted: int, held: Collection[str] = ()) -> Choice:
        """Take the GPUs that span least together with the held slots; `wanted` must be at most `total`."""
        chosen = self._choose(wanted, held)
        self.total -= wanted
        self._open = None
        taken: Choice = []
        for machine, slot, gpus in chosen:
            taken.append((self._ids[machine][slot], gpus))
            self._slot[machine][slot] -= gpus
            self._machine[machine] -= gpus
            self._in_rack[self._rack[machine]] -= gpus
        for machine in {machine for machine, _, _ in chosen}:
            if self._machine[machine]:
                key = (self._machine[machine], max(self._slot[machine]))
                heappush(self._buckets.setdefault(key, []), machine)
        return taken

    def reach(self, held: Collection[str] = ()) -> Reach:
        """By span: how many GPUs `take` can add so that together with the held slots they span no more."""
        homes = {self._home[slot] for slot in held if slot in self._home}
        if not homes:
            if self._open is None:
                tops = [key for key in self._buckets if self._top(key) is not None]
                machine, slot = (max(sizes) for sizes in zip((0, 0), *tops, strict=True))
                self._open = slot, machine, max(self._in_rack, default=0), self.total
            return self._open
        home = min(homes)
        racks = {self._rack[one] for one in homes}
        in_rack = self._in_rack[min(racks)] if len(racks) == 1 else 0
        in_machine = self._machine[home] if len(homes) == 1 else 0
        in_slot = self._slot[home][self._ids[home].index(min(held))] if len(set(held)) == 1 else 0
        return in_slot, in_machine, in_rack, self.total

    def span_of(self, slots: Collection[str]) -> Span:
        """What GPUs in these slots span."""
        if len(slots) <= 1:
            return Span.SLOT
        machines = {self._home[slot] for slot in slots if slot in self._home}
        if len(machines) <= 1:
            return Span.MACHINE
        return Span.RACK if len({self._rack[machine] for machine in machines}) == 1 else Span.CLUSTER

    def _choose(self, wanted: int, held: Collection[str]) -> list[tuple[int, int, int]]:
        """(machine, slot, GPUs) to take."""
        homes = sorted({self._home[slot] for slot in held if slot in self._home})
        if homes:
            return self._beside(wanted, held, homes)
        machine = self._best_machine(wanted, one_slot=True)
        if machine is None:
            machine = self._best_machine(wanted, one_slot=False)
        if machine is not None:
            return self._in_one_machine(machine, wanted)
        return self._across(wanted, range(len(self._racks)), ())

    def _best_machine(self, wanted: int, one_slot: bool) -> int | None:
        """The fullest machine with so many free GPUs; `one_slot`: in one of its slots."""
        best: tuple[int, int] | None = None
        for key in list(self._buckets):
            if key[one_slot] < wanted or (best is not None and key[0] > best[0]):
                continue
            machine = self._top(key)
            if machine is not None and (best is None or (key[0], machine) < best):
                best = key[0], machine
        return best[1] if best else None

    def _top(self, key: tuple[int, int]) -> int | None:
        """The first machine with (free GPUs, free GPUs of the freest slot) `key`; None if there is none any more."""
        heap = self._buckets[key]
        while heap and (self._machine[heap[0]], max(self._slot[heap[0]])) != key:
            heappop(heap)
        return heap[0] if heap else None

    def _in_one_machine(self, machine: int, wanted: int) -> list[tuple[int, int, int]]:
        return [(machine, slot, gpus) for slot, gpus in _fewest(list(enumerate(self._slot[machine])), wanted)]

    def _beside(self, wanted: int, held: Collection[str], homes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Around held slots, which are in the machines `homes`: in them, in `homes`, in their racks, elsewhere."""
        chosen: list[tuple[int, int, int]] = []
        if len(homes) > 1 or self._machine[homes[0]] < wanted:
            racks = sorted({self._rack[machine] for machine in homes})
            near = [rack for rack in racks if self._in_rack[rack]]
            if sum(self._in_rack[rack] for rack in near) >= wanted:
                return self._across(wanted, near, homes)
            others = [rack for rack in range(len(self._racks)) if rack not in racks]
            for rack in near:
                chosen += self._across(self._in_rack[rack], [rack], homes)
            rest = wanted - sum(gpus for _, _, gpus in chosen)
            return chosen + self._across(rest, others, ())
        machine = homes[0]
        for slot, name in enumerate(self._ids[machine]):
            part = min(wanted, self._slot[machine][slot]) if name in held else 0
            if part:
                chosen.append((machine, slot, part))
                wanted -= part
        others_in_machine = [
            (slot, gpus) for slot, gpus in enumerate(self._slot[machine]) if self._ids[machine][slot] not in held
        ]
        return chosen + [(machine, slot, gpus) for slot, gpus in _fewest(others_in_machine, wanted)]

    def _across(self, wanted: int, racks: Iterable[int], homes: Sequence[int]) -> list[tuple[int, int, int]]:
        """In as few of these racks, and in each as few machines, as possible; machines `homes` first."""
        chosen: list[tuple[int, int, int]] = []
        for rack, in_rack in _fewest([(rack, self._in_rack[rack]) for rack in racks], wanted):
            left = in_rack
            for machine in homes:
                if self._rack[machine] == rack and left:
                    part = min(left, self._machine[machine])
                    chosen += self._in_one_machine(machine, part)
                    left -= part
            machines = [(one, self._machine[one]) for one in self._racks[rack] if one not in homes]
            for machine, gpus in _fewest(machines, left):
                chosen += self._in_one_machine(machine, gpus)
        return chosen


def _fewest(free: list[tuple[int, int]], wanted: int) -> list[tuple[int, int]]:
    """Divide `wanted` among as few of (place, free GPUs) as possible: the freest first, and for the remainder the
    fullest that suffices; ties in the order given."""
    taken: list[tuple[int, int]] = []
    places = sorted(free, key=lambda one: one[1])
    while wanted > 0:
        enough = next((one for one in places if one[1] >= wanted), None)
        if enough is not None:
            taken.append((enough[0], wanted))
            break
        place, gpus = max(places, key=lambda one: one[1])
        places.remove((place, gpus))
        taken.append((place, gpus))
        wanted -= gpus
    return taken


def span_within(reach: Reach, gpus: int) -> Span | None:
    """What so many more GPUs span at least; None if there are not as many."""
    for span in Span:
        if gpus <= reach[span]:
            return span
    return None


def combined(*parts: Iterable[tuple[str, int]]) -> Gpus:
    """All these GPUs, sorted by slot."""
    total: dict[str, int] = {}
    for part in parts:
        for slot, gpus in part:
            total[slot] = total.get(slot, 0) + gpus
    return tuple(sorted(total.items()))
