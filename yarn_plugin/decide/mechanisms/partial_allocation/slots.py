"""Which GPUs: as few machines and slots as possible, where the application already holds some if possible."""

from collections.abc import Mapping

from yarn_plugin.model.gpus import Gpus


def added(*parts: Gpus) -> dict[str, int]:
    """The GPUs of all parts, by slot."""
    total: dict[str, int] = {}
    for slot, gpus in (one for part in parts for one in part):
        total[slot] = total.get(slot, 0) + gpus
    return total


def keep(won: Gpus, kept: int, machine_of: Mapping[str, str], held: Mapping[str, int]) -> Gpus:
    """The GPUs to keep of those won: on as few machines as possible, preferring machines where it holds most.

    Whole machines, the largest first, until one machine has the rest; of those the smallest that has enough.
    """
    here: dict[str, dict[str, int]] = {}
    for slot, gpus in won:
        here.setdefault(machine_of[slot], {})[slot] = gpus
    holds: dict[str, int] = {}
    for slot, gpus in held.items():
        holds[machine_of.get(slot, slot)] = holds.get(machine_of.get(slot, slot), 0) + gpus
    chosen: dict[str, int] = {}
    left = kept
    while left > 0:
        enough = [one for one in here if sum(here[one].values()) >= left]
        if enough:
            machine = min(enough, key=lambda one: (sum(here[one].values()), -holds.get(one, 0), one))
        else:
            machine = min(here, key=lambda one: (-sum(here[one].values()), -holds.get(one, 0), one))
        part = from_slots(here.pop(machine), left, held)
        chosen |= part
        left -= sum(part.values())
    return tuple(sorted(chosen.items()))


def from_slots(free: Mapping[str, int], wanted: int, held: Mapping[str, int]) -> dict[str, int]:
    """Up to `wanted` GPUs of a machine's slots: in as few slots as possible, preferring slots where it holds most."""
    taken: dict[str, int] = {}
    left = {slot: gpus for slot, gpus in free.items() if gpus > 0}
    remaining = min(wanted, sum(left.values()))
    while remaining > 0:
        enough = [slot for slot in left if left[slot] >= remaining]
        if enough:
            slot = min(enough, key=lambda one: (-held.get(one, 0), left[one], one))
        else:
            slot = min(left, key=lambda one: (-left[one], -held.get(one, 0), one))
        taken[slot] = min(left.pop(slot), remaining)
        remaining -= taken[slot]
    return taken
