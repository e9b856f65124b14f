"""GPUs that nobody won or that were paid go, at random, to applications that did not bid."""

import hashlib
from collections.abc import Mapping, Sequence

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
    left = {slot: gpus for slot, gpus in free.items() if gpus > 0}
    got: dict[str, dict[str, int]] = {}
    by_name = {app.app: app for app in apps}
    numbers = {app.app: _numbers(app, sum(left.values())) for app in apps}
    waiting = draw_order(seed, round, list(by_name))
    while waiting:
        still: list[str] = []
        for name in waiting:
            had = sum(got.get(name, {}).values())
            more = next((n - had for n in numbers[name] if n > had), None)
            if more is not None and more <= sum(left.values()):
                for slot, gpus in _take(offer, left, by_name[name], got.setdefault(name, {}), more).items():
                    got[name][slot] = got[name].get(slot, 0) + gpus
                    left[slot] -= gpus
                still.append(name)
        waiting = still
    wanted = any(n > sum(got.get(name, {}).values()) for name, many in numbers.items() for n in many[-1:])
    return (
        tuple(Leftover(name, tuple(sorted(got[name].items()))) for name in sorted(got)),
        tuple(Idle(slot, left[slot], "gang" if wanted else "not wanted") for slot in sorted(left) if left[slot]),
    )


def _numbers(app: AppWithoutBid, free: int) -> list[int]:
    """The numbers of additional GPUs that an application can use; the last may exceed those that are free."""
    if app.wants <= 0:
        return []
    return [n for n in usable(app.gangs, total(app.held), app.wants) if n <= app.wants]


def _take(
    offer: Offer, left: Mapping[str, int], app: AppWithoutBid, got: Mapping[str, int], wanted: int
) -> dict[str, int]:
    """The slots of `wanted` GPUs: on one machine if possible, else on few, those where it has GPUs first."""
    has = added(app.held, app.expiring, tuple(got.items()))
    machines: dict[str, dict[str, int]] = {}
    for slot, gpus in left.items():
        if gpus:
            machines.setdefault(offer.machine_of[slot], {})[slot] = gpus
    holds = dict.fromkeys(machines, 0)
    for slot, gpus in has.items():
        if (name := offer.machine_of.get(slot, "")) in holds:
            holds[name] += gpus
    taken: dict[str, int] = {}
    while wanted:
        free = {name: sum(slots.values()) for name, slots in machines.items()}
        enough = [name for name in machines if free[name] >= wanted]
        if enough:
            name = min(enough, key=lambda one: (-holds[one], free[one], one))
        else:
            name = min(machines, key=lambda one: (-free[one], -holds[one], one))
        part = from_slots(machines.pop(name), wanted, has)
        taken |= part
        wanted -= sum(part.values())
    return taken
