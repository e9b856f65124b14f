"""GPUs that nobody won or that were paid go, at random, to applications that did not bid."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

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
        tuple(Idle(slot, gpus, "gang" if wanted else "not wanted") for slot, gpus in sorted(left.slots())),
    )


def _numbers(app: AppWithoutBid) -> list[int]:
    """The numbers of additional GPUs that an application can use; the last may exceed those that are free."""
    if app.wants <= 0:
        return []
    return [n for n in usable(app.gangs, total(app.held), app.wants) if n <= app.wants]


class _Left:
    """The GPUs that are left, by machine and slot; none without any. `total`: how many."""

    def __init__(self, offer: Offer, free: Mapping[str, int]) -> None:
        self._machine_of = offer.machine_of
        self._machines: dict[str, dict[str, int]] = {}
        for slot, gpus in free.items():
            if gpus > 0:
                self._machines.setdefault(offer.machine_of[slot], {})[slot] = gpus
        self._free = {name: sum(slots.values()) for name, slots in self._machines.items()}
        self.total = sum(self._free.values())

    def slots(self) -> Iterator[tuple[str, int]]:
        """The slots with their GPUs."""
        return (one for slots in self._machines.values() for one in slots.items())

    def take(self, app: AppWithoutBid, got: Mapping[str, int], wanted: int) -> dict[str, int]:
        """Take `wanted` GPUs: on one machine if possible, else on few, those where the application has GPUs first."""
        has = added(app.held, app.expiring, tuple(got.items()))
        holds: Counter[str] = Counter()
        for slot, gpus in has.items():
            holds[self._machine_of.get(slot, "")] += gpus
        taken: dict[str, int] = {}
        while wanted:
            enough = [(-holds[name], free, name) for name, free in self._free.items() if free >= wanted]
            if enough:
                name = min(enough)[-1]
            else:
                name = min((-free, -holds[name], name) for name, free in self._free.items())[-1]
            part = from_slots(self._machines[name], wanted, has)
            for slot, gpus in part.items():
                self._machines[name][slot] -= gpus
                if not self._machines[name][slot]:
                    del self._machines[name][slot]
                self._free[name] -= gpus
            if not self._free[name]:
                del self._free[name], self._machines[name]
            taken |= part
            wanted -= sum(part.values())
        self.total -= sum(taken.values())
        return taken
