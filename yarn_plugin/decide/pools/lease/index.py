"""Leases by application, GPU and end: what one call of the controller asks many times.

An index follows from the leases and the inventory. A controller that is kept between calls keeps it, and changes it
with every lease, so that a call need not look at all of them; otherwise it is built anew.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from yarn_plugin.decide.pools.lease.inventory import BySlot, Inventory, with_free
from yarn_plugin.decide.pools.lease.state import Held
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.gpus import Gpus, Machine, Slot


class LeaseIndex:
    """Changed in place, with the leases. `leases`: those that it is of, to recognise them.

    `free`: the usable GPUs in no lease. `leaving`, `unstarted`: the ids of leases with revoked GPUs, and of those that
    have not started. `is_checked`: all their GPUs are in the inventory; `shrunk`: how often a lease has lost GPUs;
    `freed_or_leased`: how often a GPU has become free or leased; `offered`: the last round with an offer, that number
    then, and how many GPUs of ending leases it offers. `is_within`: no application used more than it leases of
    a machine when that was so, and this was seen (see `excess`).
    """

    def __init__(self, leases: Mapping[str, Held], inventory: Inventory) -> None:
        self.leases, self.inventory = leases, inventory
        self.is_checked = False
        self.shrunk = 0
        self.is_within: tuple[int, View] | None = None
        self.offered: tuple[int, int, int] | None = None
        self._offer: tuple[BySlot, dict[int, Machine], tuple[Machine, ...]] | None = None
        self.free = set(inventory.places)
        self._free_in = {slot: len(gpus) for slot, gpus in inventory.gpus_in.items()}
        self._machines = list(inventory.layout)
        self._outdated = set(range(len(inventory.layout)))
        self._free_by_slot = {slot: tuple(gpus) for slot, gpus in inventory.gpus_in.items()}
        self._outdated_slots: set[str] = set()
        self.freed_or_leased = 0
        self.leaving: set[str] = set()
        self.unstarted: set[str] = set()
        self._by_app: dict[str, dict[str, Held]] = {}
        self._leased: dict[str, int] = {}
        self._in_use: dict[str, int] = {}
        self._on_machine: dict[tuple[str, str], int] = {}
        self._gpus_of: dict[str, int] = {}
        self._in_slots: dict[str, dict[str, int]] = {}
        self._ends: dict[float, set[str]] = {}
        self._place: dict[str, int] = {}
        self._places = 0
        for held in leases.values():
            self.add(held)

    # Changes.

    def add(self, held: Held) -> None:
        """A new lease."""
        self._places += 1
        self._place[held.lease.id] = self._places
        self._by_app.setdefault(held.lease.app, {})[held.lease.id] = held
        self._count_gpus(held, 1)
        self._mark(held)

    def change(self, before: Held, after: Held) -> None:
        """A lease has changed; its application, job and id have not."""
        is_moved = before.lease.holdings is not after.lease.holdings or before.started_at != after.started_at
        if is_moved:
            self._count_gpus(before, -1)
        self._unmark(before)
        self._by_app[after.lease.app][after.lease.id] = after
        if is_moved:
            self._count_gpus(after, 1)
        self._mark(after)

    def remove(self, held: Held) -> None:
        """A lease has ended."""
        mine = self._by_app[held.lease.app]
        del mine[held.lease.id], self._place[held.lease.id]
        if not mine:
            del self._by_app[held.lease.app]
        self._count_gpus(held, -1)
        self._unmark(held)

    def _count_gpus(self, held: Held, change: int) -> None:
        self.shrunk += change < 0
        app, places, is_started = held.lease.app, self.inventory.places, held.started_at is not None
        for gpu in held.gpus:
            is_leased = _changed(self._leased, gpu, change) > 0
            if is_started:
                _changed(self._in_use, gpu, change)
                _changed(self._gpus_of, app, change)
            place = places.get(gpu)
            if place is None:
                continue
            if is_leased == (gpu in self.free):
                (self.free.discard if is_leased else self.free.add)(gpu)
                self._free_in[place.slot] += -1 if is_leased else 1
                self._outdated.add(self.inventory.machine_of[place.slot])
                self._outdated_slots.add(place.slot)
                self.freed_or_leased += 1
            if is_started:
                _changed(self._on_machine, (app, place.machine), change)
                slots = self._in_slots.setdefault(app, {})
                if not _changed(slots, place.slot, change) and not slots:
                    del self._in_slots[app]

    def _mark(self, held: Held) -> None:
        if held.leaving:
            self.leaving.add(held.lease.id)
        if held.started_at is None:
            self.unstarted.add(held.lease.id)
        elif held.lease.until is not None:
            self._ends.setdefault(held.lease.until, set()).add(held.lease.id)

    def _unmark(self, held: Held) -> None:
        self.leaving.discard(held.lease.id)
        self.unstarted.discard(held.lease.id)
        if held.started_at is not None and held.lease.until is not None:
            ending = self._ends[held.lease.until]
            ending.discard(held.lease.id)
            if not ending:
                del self._ends[held.lease.until]

    # Questions.

    def free_by_slot(self) -> Mapping[str, tuple[str, ...]]:
        """The usable GPUs in no lease, by slot: all slots, in the order of the inventory."""
        for slot in self._outdated_slots:
            self._free_by_slot[slot] = tuple([gpu for gpu in self.inventory.gpus_in[slot] if gpu in self.free])
        self._outdated_slots.clear()
        return self._free_by_slot

    def machines(self, others: Iterable[str] = ()) -> tuple[Machine, ...]:
        """All machines with their free GPUs, and with others as if they were free."""
        for number in self._outdated:
            self._machines[number] = with_free(self.inventory.layout[number], self._free_in)
        self._outdated.clear()
        more, found = dict(self.inventory.count(others)), self._machines.copy()
        for number in {self.inventory.machine_of[slot] for slot in more}:
            one = self._machines[number]
            counts = {slot.id: slot.gpus + more.get(slot.id, 0) for slot in one.slots}
            found[number] = with_free(one, counts)
        return tuple(found)

    def offered_machines(self, offer: BySlot, others: Iterable[str] = ()) -> tuple[Machine, ...]:
        """The machines of the GPUs of an offer, and of other GPUs, whose slots may have none in it.

        For the same offer and no other slots it is the same object.
        """
        inventory = self.inventory
        if self._offer is None or self._offer[0] is not offer:
            machines = self._machines_in(offer)
            self._offer = offer, machines, tuple(machines.values())
        _, machines, alone = self._offer
        slots = {inventory.places[gpu].slot for gpu in others if gpu in inventory.places} - offer.keys()
        if not slots:
            return alone
        numbers, found = list(machines), list(alone)
        for number in {inventory.machine_of[slot] for slot in slots}:
            one = inventory.layout[number]
            shown = [slot.id for slot in one.slots if slot.id in slots or slot.id in offer]
            counts = tuple([Slot(slot, len(offer.get(slot, ()))) for slot in shown])
            place = bisect_left(numbers, number)
            if number not in machines:
                numbers.insert(place, number)
                found.insert(place, one)
            found[place] = replace(one, slots=counts)
        return tuple(found)

    def _machines_in(self, offer: BySlot) -> dict[int, Machine]:
        """The machines of an offer with their slots that have GPUs in it, by their places in the layout.

        The same objects as in the last offer where nothing has changed since.
        """
        before, layout = {} if self._offer is None else self._offer[0], self.inventory.layout
        changed = [slot for slot, gpus in offer.items() if before.get(slot) is not gpus]
        changed += [slot for slot in before if slot not in offer]
        machines = {} if self._offer is None else dict(self._offer[1])
        for number in {self.inventory.machine_of[slot] for slot in changed}:
            one = layout[number]
            slots = tuple([Slot(slot.id, len(offer[slot.id])) for slot in one.slots if slot.id in offer])
            if not slots:
                machines.pop(number, None)
            elif number not in machines or machines[number].slots != slots:
                machines[number] = replace(one, slots=slots)
        return dict(sorted(machines.items()))

    def of(self, app: str) -> Iterator[Held]:
        """The leases of an application, those not started included, the oldest first."""
        return iter(tuple(self._by_app.get(app, {}).values()))

    def ordered(self, ids: set[str]) -> list[str]:
        """These leases, the oldest first."""
        return sorted(ids, key=self._place.__getitem__)

    def ended_by(self, at: float) -> list[str]:
        """The started leases that end at this time or did before, the oldest first."""
        return self.ordered({lease for end, leases in self._ends.items() if end <= at for lease in leases})

    def ending_or_leaving(self, at: float) -> set[str]:
        """The leases that end at this time or did before, or have revoked GPUs."""
        return self.leaving.union(*(leases for end, leases in self._ends.items() if end <= at))

    def gpus_of(self, app: str) -> int:
        """How many GPUs an application has in leases that have started, revoked ones and those of lost machines
        included."""
        return self._gpus_of.get(app, 0)

    def ends(self) -> Iterator[float]:
        """When started leases end, each time once."""
        return iter(self._ends)

    def is_in_use(self, gpu: str) -> bool:
        """Whether a lease of a GPU has started, and has not ended."""
        return gpu in self._in_use

    def on_machine(self, app: str, machine: str) -> int:
        """How many GPUs of a machine an application has in leases that have started, revoked ones included."""
        return self._on_machine.get((app, machine), 0)

    def holds(self, app: str) -> Gpus:
        """How many GPUs of each slot an application has in leases that have started, revoked ones included."""
        return tuple(sorted(self._in_slots.get(app, {}).items()))


def _changed(counts: dict[Any, int], key: Any, change: int) -> int:
    """Change a count, without zeros; returns the new one."""
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
    return count
