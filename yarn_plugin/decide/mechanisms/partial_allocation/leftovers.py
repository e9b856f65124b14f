"""GPUs that nobody won or that were paid go, at random, to applications that did not bid."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.problem import AppOfUser, AppWithoutBid, Idle, Leftover
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import usable
from yarn_plugin.decide.mechanisms.partial_allocation.slots import added, from_slots
from yarn_plugin.model.gpus import total


def draw_order(seed: int, round: int, names: Sequence[str]) -> list[str]:
    """The names in a random order that depends on seed and round only; adding a name leaves the others' order."""
    return sorted(names, key=lambda name: (hashlib.sha256(f"{seed}/{round}/{name}".encode()).digest(), name))


def hand_out(
    offer: Offer, free: Mapping[str, int], apps: Sequence[AppWithoutBid], seed: int, round: int
) -> tuple[tuple[Leftover, ...], tuple[Idle, ...]]:
    """Who gets which of the free GPUs, and what nobody gets.

    In an order drawn at random (thesis, Pseudocode 3, line 20) each application takes what it can use on one machine,
    on several only if none has room for its gang; this repeats until nobody can use more. The thesis does not say
    which machine: it is where the application holds GPUs, else in a rack where it does, if these have room. Those of
    one user take turns: each time around, the first of them that can use more.
    """
    left = _Left(offer, free)
    got: dict[str, dict[str, int]] = {}
    by_name = {app.app: app for app in apps}
    numbers = {app.app: _numbers(app) for app in apps}
    users = {app.app: app.user for app in apps if isinstance(app, AppOfUser)}
    later = {app.app for app in apps if isinstance(app, AppOfUser) and app.comes_last}
    first = draw_order(seed, round, [name for name in by_name if name not in later])
    last = draw_order(seed, round, list(later))
    while waiting := first or last:
        still: list[str] = []
        served: set[str] = set()
        for name in waiting:
            user = users.get(name, name)
            if user in served:
                still.append(name)
                continue
            had = sum(got.get(name, {}).values())
            usable_more = [n - had for n in numbers[name] if n > had]
            if usable_more and usable_more[0] <= left.total:
                for slot, gpus in left.take(by_name[name], got.setdefault(name, {}), usable_more).items():
                    got[name][slot] = got[name].get(slot, 0) + gpus
                still.append(name)
                served.add(user)
        first, last = (still, last) if first else (first, still)
    wanted = any(n > sum(got.get(name, {}).values()) for name, many in numbers.items() for n in many[-1:])
    return (
        tuple(Leftover(name, tuple(sorted(got[name].items()))) for name in sorted(got)),
        tuple([_idle(slot, gpus, "gang" if wanted else "not wanted") for slot, gpus in sorted(left.slots.items())]),
    )


_idle = lru_cache(maxsize=1 << 16)(Idle)
"""Most GPUs of a large pool that are idle in one round were so in the last."""


def _numbers(app: AppWithoutBid) -> list[int]:
    """The numbers of additional GPUs that an application can use; the last may exceed those that are free."""
    if app.wants <= 0:
        return []
    return [n for n in usable(app.gangs, total(app.held), app.wants) if n <= app.wants]


class _Left:
    """The GPUs that are left. `slots`: by slot; none without any. `total`: how many."""

    def __init__(self, offer: Offer, free: Mapping[str, int]) -> None:
        self._offer = offer
        self._rack_of = {machine.id: machine.rack for machine in offer.machines}
        self.slots = {slot: gpus for slot, gpus in free.items() if gpus > 0}
        self.total = sum(self.slots.values())

    @cached_property
    def _free(self) -> dict[str, int]:
        """By machine; none without any."""
        free: dict[str, int] = {}
        for slot, gpus in self.slots.items():
            name = self._offer.machine_of[slot]
            free[name] = free.get(name, 0) + gpus
        return free

    @cached_property
    def _with(self) -> dict[str, dict[int, list[str]]]:
        """Machines of each rack, and of all (""), by their free GPUs, each a heap; a machine with fewer by now is
        removed when it comes to the top."""
        found: dict[str, dict[int, list[str]]] = {}
        for name, gpus in self._free.items():
            for rack in ("", self._rack_of[name]):
                found.setdefault(rack, {}).setdefault(gpus, []).append(name)
        for places in found.values():
            for names in places.values():
                heapify(names)
        return found

    def take(self, app: AppWithoutBid, got: Mapping[str, int], usable_more: Sequence[int]) -> dict[str, int]:
        """Take one of these numbers of GPUs: on one machine the largest that it has; if none has the first, that on few
        machines."""
        has = added(app.held, app.expiring, tuple(got.items()))
        holds: Counter[str] = Counter()
        for slot, gpus in has.items():
            if slot in self._offer.machine_of:
                holds[self._offer.machine_of[slot]] += gpus
        taken: dict[str, int] = {}
        wanted = usable_more[0]
        while wanted:
            name = self._best(wanted, holds)
            if not taken:
                wanted = max([wanted, *(n for n in usable_more if n <= self._free[name])])
            part = from_slots(self._slots_of(name), wanted, has)
            for slot, gpus in part.items():
                self.slots[slot] -= gpus
                if not self.slots[slot]:
                    del self.slots[slot]
                self._free[name] -= gpus
            if self._free[name]:
                for rack in ("", self._rack_of[name]):
                    heappush(self._with[rack].setdefault(self._free[name], []), name)
            else:
                del self._free[name]
            taken |= part
            wanted -= sum(part.values())
            holds[name] += sum(part.values())
        self.total -= sum(taken.values())
        return taken

    def _slots_of(self, machine: str) -> dict[str, int]:
        """The slots of a machine with GPUs."""
        slots = [self._offer.slots[slot] for slot in self._offer.slots_of[self._offer.number_of_machine[machine]]]
        return {slot: self.slots[slot] for slot in slots if slot in self.slots}

    def _best(self, wanted: int, holds: Mapping[str, int]) -> str:
        """Of the machines with so many GPUs (if there is none: the freest) that where most is held, then in the rack
        where most is, then the fullest. Ties by name."""
        near: Counter[str] = Counter()
        for name, gpus in holds.items():
            near[self._rack_of[name]] += gpus
        enough = min(wanted, max(self._firsts("")))
        known = [name for name in holds if self._free.get(name, 0) >= enough]
        for rack in (*near, ""):
            fullest = min([one for one in self._firsts(rack).items() if one[0] >= enough], default=None)
            known += [fullest[1]] if fullest else []
        return min(known, key=lambda name: (-holds.get(name, 0), -near[self._rack_of[name]], self._free[name], name))

    def _firsts(self, rack: str) -> dict[int, str]:
        """The first machine by name of a rack, or of all, with each number of free GPUs."""
        found: dict[int, str] = {}
        places = self._with.get(rack, {})
        for gpus, names in list(places.items()):
            while names and self._free.get(names[0]) != gpus:
                heappop(names)
            if names:
                found[gpus] = names[0]
            else:
                del places[gpus]
        return found
