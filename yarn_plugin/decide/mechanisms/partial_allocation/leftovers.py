"""GPUs that nobody won or that were paid go, at random, to applications that did not bid."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.problem import AppWithoutBid, Idle, Leftover
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

    In an order drawn at random each application takes the next usable number of GPUs (its gang), on one machine if one
    has them, where it holds GPUs if it can; this repeats until nobody can use more (thesis, Pseudocode 3, line 20).
    """
    left = _Left(offer, free)
    got: dict[str, dict[str, int]] = {}
    by_name = {app.app: app for app in apps}
    numbers = {app.app: _numbers(app) for app in apps}
    waiting = draw_order(seed, round, list(by_name))
    while waiting:
        still: list[str] = []
        for name in waiting:
            had = sum(got.get(name, {}).values())
            more = next((n - had for n in numbers[name] if n > had), None)
            if more is not None and more <= left.total:
                for slot, gpus in left.take(by_name[name], got.setdefault(name, {}), more).items():
                    got[name][slot] = got[name].get(slot, 0) + gpus
                still.append(name)
        waiting = still
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
    def _with(self) -> dict[int, list[str]]:
        """Machines by their free GPUs, each a heap; a machine with fewer by now is removed when it comes to the top."""
        found: dict[int, list[str]] = {}
        for name, gpus in self._free.items():
            found.setdefault(gpus, []).append(name)
        for names in found.values():
            heapify(names)
        return found

    def take(self, app: AppWithoutBid, got: Mapping[str, int], wanted: int) -> dict[str, int]:
        """Take `wanted` GPUs: on one machine if possible, else on few, those where the application has GPUs first."""
        has = added(app.held, app.expiring, tuple(got.items()))
        holds: Counter[str] = Counter()
        for slot, gpus in has.items():
            holds[self._offer.machine_of.get(slot, "")] += gpus
        taken: dict[str, int] = {}
        while wanted:
            name = self._best(wanted, holds)
            part = from_slots(self._slots_of(name), wanted, has)
            for slot, gpus in part.items():
                self.slots[slot] -= gpus
                if not self.slots[slot]:
                    del self.slots[slot]
                self._free[name] -= gpus
            if self._free[name]:
                heappush(self._with.setdefault(self._free[name], []), name)
            else:
                del self._free[name]
            taken |= part
            wanted -= sum(part.values())
        self.total -= sum(taken.values())
        return taken

    def _slots_of(self, machine: str) -> dict[str, int]:
        """The slots of a machine with GPUs."""
        slots = [self._offer.slots[slot] for slot in self._offer.slots_of[self._offer.number_of_machine[machine]]]
        return {slot: self.slots[slot] for slot in slots if slot in self.slots}

    def _best(self, wanted: int, holds: Mapping[str, int]) -> str:
        """The machine that has as many where most is held, then the fullest; if none has, the freest. Ties by name."""
        first = {gpus: name for gpus in list(self._with) if (name := self._first(gpus)) is not None}
        enough = [gpus for gpus in first if gpus >= wanted]
        homes = [name for name, gpus in holds.items() if gpus > 0 and name in self._free]
        if enough:
            known = [(-holds[name], self._free[name], name) for name in homes if self._free[name] >= wanted]
            return min(known)[-1] if known else first[min(enough)]
        most = max(first)
        return min([(-holds[name], name) for name in homes if self._free[name] == most], default=(0, first[most]))[-1]

    def _first(self, gpus: int) -> str | None:
        """The first machine by name with so many free GPUs."""
        names = self._with[gpus]
        while names and self._free.get(names[0]) != gpus:
            heappop(names)
        if not names:
            del self._with[gpus]
            return None
        return names[0]
