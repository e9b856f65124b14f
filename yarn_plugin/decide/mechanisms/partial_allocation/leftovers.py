"""GPUs that nobody won or that were paid go, at random, to applications that did not bid, then to other bidders."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.problem import AppOfUser, AppWithoutBid, Idle, Leftover
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import usable
from yarn_plugin.decide.mechanisms.partial_allocation.slots import added, from_slots
from yarn_plugin.model.gpus import Gpus, total


def draw_order(seed: int, round: int, names: Sequence[str]) -> list[str]:
    """The names in a random order that depends on seed and round only; adding a name leaves the others' order."""
    return sorted(names, key=lambda name: (hashlib.sha256(f"{seed}/{round}/{name}".encode()).digest(), name))


@dataclass(frozen=True, slots=True)
class Bidder:
    """A bidder that may use more GPUs than it keeps. `paid`: of those that it won. `sizes`: of its rows, in GPUs beyond
    those that it keeps; it could use these numbers, where its gangs do not say more."""

    app: AppWithoutBid
    paid: Gpus
    sizes: tuple[int, ...]

    def numbers(self) -> list[int]:
        """The numbers of GPUs that it could use, in ascending order."""
        return _numbers(self.app) if self.app.gangs else list(self.sizes)


def hand_out(
    offer: Offer,
    free: Mapping[str, int],
    apps: Sequence[AppWithoutBid],
    seed: int,
    round: int,
    bidders: Sequence[Bidder] = (),
) -> tuple[tuple[Leftover, ...], tuple[Idle, ...]]:
    """Who gets which of the free GPUs, and what nobody gets.

    In an order drawn at random (thesis, Pseudocode 3, line 20) each application takes what it can use on one machine,
    on several only if none has room for its gang; this repeats until nobody can use more. The thesis does not say
    which machine: it is where the application holds GPUs, else in a rack where it does, if these have room. Those of
    one user take turns: each time around, the first of them that can use more.

    After all others, those `bidders` that paid nothing take GPUs in the same way, then each of the rest, but none of
    those that it paid itself; then those that come last.
    """
    numbers = {app.app: _numbers(app) for app in apps} | {one.app.app: one.numbers() for one in bidders}
    paid = {one.app.app: dict(one.paid) for one in bidders}
    payers = {one.app.app: one.app for one in bidders if one.paid}
    last: list[AppWithoutBid] = [app for app in apps if isinstance(app, AppOfUser) and app.comes_last]
    turns = [[app for app in apps if app not in last], [one.app for one in bidders if not one.paid]]
    turns += [[payers[name]] for name in draw_order(seed, round, list(payers))]
    turns += [last]
    left, got, wanted = dict(free), dict[str, dict[str, int]](), False
    for turn in turns:
        own = paid[turn[0].app] if turn and turn[0].app in payers else {}
        open_to = _Left(offer, {slot: gpus - own.get(slot, 0) for slot, gpus in left.items()})
        before = dict(open_to.slots)
        wanted = _deal(open_to, turn, numbers, got, seed, round) or wanted
        for slot, gpus in before.items():
            taken = gpus - open_to.slots.get(slot, 0)
            left[slot] -= taken
            # What others paid is taken first, so that the most is left for these others.
            for other in [other for other in paid.values() if other is not own]:
                repaid = min(taken, other.get(slot, 0))
                other[slot] = other.get(slot, 0) - repaid
                taken -= repaid
    return (
        tuple(Leftover(name, tuple(sorted(got[name].items()))) for name in sorted(got)),
        tuple([Idle(slot, gpus, "gang" if wanted else "not wanted") for slot, gpus in sorted(left.items()) if gpus]),
    )


def _deal(
    left: "_Left",
    apps: Sequence[AppWithoutBid],
    numbers: Mapping[str, Sequence[int]],
    got: dict[str, dict[str, int]],
    seed: int,
    round: int,
) -> bool:
    """Give these applications what is left, and note it in `got`; returns whether one of them could use more.

    `numbers`: of GPUs that each can use.
    """
    by_name = {app.app: app for app in apps}
    users = {app.app: app.user for app in apps if isinstance(app, AppOfUser)}
    waiting = draw_order(seed, round, list(by_name))
    while waiting:
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
        waiting = still
    return any(n > sum(got.get(name, {}).values()) for name in by_name for n in numbers[name][-1:])


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
