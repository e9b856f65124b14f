"""Binding won rows to slots: rows name classes of machines, winners get GPUs, where they hold some if possible."""

from collections import Counter
from collections.abc import Mapping, Sequence

from yarn_plugin.decide.mechanisms.partial_allocation.alike import alike, changed, free_of, like
from yarn_plugin.decide.mechanisms.partial_allocation.fitting import fit, kinds_of
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.pieces import Fit, Kind, Step
from yarn_plugin.decide.mechanisms.partial_allocation.slots import from_slots
from yarn_plugin.model.gpus import Gpus, Piece


def bind(offer: Offer, rows: Sequence[Sequence[Piece]], held: Sequence[Mapping[str, int]]) -> tuple[Gpus, ...] | None:
    """The GPUs of each application for its row; None if no way to place all of them is found.

    Pieces first go to machines on which their application holds GPUs, the larger first, as far as the others still
    fit: all applications' if that is possible, otherwise application by application. The rest prefer machines on which
    nobody holds GPUs.

    Args:
        rows: the pieces of each application.
        held: the GPUs that each holds, by slot.
    """
    binder = _Binder(offer, rows, held)
    kept: _Placed = binder.kept_in_place(range(len(rows)))
    found = binder.fit_beside(kept)
    if found.steps is None:
        kept = {}
        found = binder.fit_beside(kept)
        if found.steps is None:
            return None
        for app in range(len(rows)):
            more = {**kept, **binder.kept_in_place([app], kept)}
            if len(more) > len(kept) and (tried := binder.fit_beside(more)).steps is not None:
                kept, found = more, tried
    return binder.bound(kept, found)


_Piece = tuple[int, int]
"""An application, and the index of a piece of its row."""

_Placed = dict[_Piece, dict[str, int]]
"""The GPUs of pieces, by slot."""


class _Binder:
    def __init__(self, offer: Offer, rows: Sequence[Sequence[Piece]], held: Sequence[Mapping[str, int]]) -> None:
        self._offer, self._rows, self._held = offer, rows, held
        self._kinds = {
            (app, index): next(iter(kinds_of(offer, [piece])))
            for app, row in enumerate(rows)
            for index, piece in enumerate(row)
        }
        self._holds: list[Counter[int]] = []
        for by_slot in held:
            holds: Counter[int] = Counter()
            for slot, gpus in by_slot.items():
                if slot in offer.number_of_slot:
                    holds[offer.machine_of_slot[offer.number_of_slot[slot]]] += gpus
            self._holds.append(holds)
        self._all_holds = sum(self._holds, Counter[int]())

    def kept_in_place(self, apps: Sequence[int], placed: _Placed | None = None) -> _Placed:
        """The GPUs of each piece of these that has room on a machine where its application holds GPUs."""
        free = self._free(placed or {})
        chosen: _Placed = {}
        for app in apps:
            pieces = sorted(range(len(self._rows[app])), key=lambda index: -self._rows[app][index].gpus)
            for index in pieces:
                kind = self._kinds[app, index]
                for machine, _ in sorted(self._holds[app].items(), key=lambda one: (-one[1], one[0])):
                    slots = self._room(free, machine, kind, self._held[app])
                    if kind.place.contains(self._offer.machines[machine].rack, machine) and slots:
                        chosen[app, index] = self._take(free, slots, kind.gpus, self._held[app])
                        break
        return chosen

    def fit_beside(self, placed: _Placed) -> Fit:
        """Whether the other pieces fit beside those that are placed."""
        rest = Counter(kind for piece, kind in self._kinds.items() if piece not in placed)
        return fit(self._offer, self._free(placed), rest)

    def bound(self, placed: _Placed, found: Fit) -> tuple[Gpus, ...]:
        """The GPUs of all pieces: those that are placed, and the others as they were found to fit."""
        offer, free = self._offer, self._free(placed)
        gpus = [Counter[str]() for _ in self._rows]
        for (app, _), taken in placed.items():
            gpus[app].update(taken)
        waiting: dict[Kind, list[int]] = {}
        for (app, index), kind in self._kinds.items():
            if (app, index) not in placed:
                waiting.setdefault(kind, []).append(app)
        named = {kind.place.machine for kind in waiting if kind.place.machine >= 0}
        # Machines that are not like themselves in the offer.
        others = named | changed(offer, free)
        for step in found.steps or ():
            machines = self._machines(step, free, named, others)
            assert len(machines) == step.machines, f"{step} has {len(machines)} machines"
            for machine in machines:
                others.add(machine)
                slots: Sequence[int] = offer.slots_of[machine]
                if step.kind.in_slot and step.alike.number >= 0:
                    slots = [slots[step.slot]]
                elif step.kind.in_slot:
                    slots = [next(slot for slot in slots if free[slot] == step.alike.free[step.slot])]
                for app in [waiting[step.kind].pop(0) for _ in range(step.pieces)]:
                    gpus[app].update(self._take(free, slots, step.kind.gpus, self._held[app]))
        return tuple(tuple(sorted(one.items())) for one in gpus)

    def _machines(self, step: Step, free: Sequence[int], named: set[int], others: set[int]) -> list[int]:
        """Machines for a step, those first on which nobody holds GPUs."""
        found = like(self._offer, step.alike, step.kind.in_slot, others)
        for number in others:
            one = alike(self._offer, free, named, number)
            gpus = free_of(one, step.kind.in_slot)
            if (one.rack, one.number, gpus) == (step.alike.rack, step.alike.number, step.alike.free):
                found.append(number)
        return sorted(found, key=lambda number: (self._all_holds[number], number))[: step.machines]

    def _free(self, placed: _Placed) -> list[int]:
        free = list(self._offer.slot_gpus)
        for taken in placed.values():
            for name, gpus in taken.items():
                free[self._offer.number_of_slot[name]] -= gpus
        return free

    def _room(self, free: Sequence[int], machine: int, kind: Kind, held: Mapping[str, int]) -> Sequence[int]:
        """The slots of a machine that a piece may use; none if it has too few free GPUs."""
        slots: Sequence[int] = self._offer.slots_of[machine]
        names = self._offer.slots
        if kind.in_slot:
            slots = [slot for slot in slots if free[slot] >= kind.gpus and kind.place.slot in (-1, slot - slots[0])]
            slots = sorted(slots, key=lambda slot: (-held.get(names[slot], 0), free[slot], slot))[:1]
        return slots if sum(free[slot] for slot in slots) >= kind.gpus else []

    def _take(self, free: list[int], slots: Sequence[int], gpus: int, held: Mapping[str, int]) -> dict[str, int]:
        taken = from_slots({self._offer.slots[slot]: free[slot] for slot in slots}, gpus, held)
        for name, count in taken.items():
            free[self._offer.number_of_slot[name]] -= count
        return taken
