"""Binding pieces to machines: rows name classes of machines, winners get slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.slots import from_slots
from yarn_plugin.model.gpus import Gpus, Piece

FIRST_TRY = 2_000
SECOND_TRY = 20_000
"""Placements tried: with preference for what is held, then for the tightest fit. Enough in all but contrived cases."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A result of packing. `gpus`: of each application by index; None: not found. `impossible`: proven so."""

    gpus: tuple[Gpus, ...] | None
    impossible: bool
    work: int


def pack(offer: Offer, wanted: Sequence[Sequence[Piece]], held: Sequence[Mapping[str, int]]) -> Packing:
    """Places all pieces of all applications, or shows that it cannot be done.

    An exact search: pieces with the fewest possible places first, the larger first. Of the places, first machines where
    the application holds most GPUs, then those where no other one of these holds any, then the tightest.

    Args:
        wanted: the pieces of each application.
        held: the GPUs that each holds, by slot.
    """
    packer = _Packer(offer, wanted, held)
    work = 0
    for limit, by_held in ((FIRST_TRY, True), (SECOND_TRY, False)):
        places, exhausted, steps = packer.search(limit, by_held)
        work += steps
        if places is not None:
            return Packing(packer.slots_of(places), False, work)
        if exhausted:
            return Packing(None, True, work)
    return Packing(None, False, work)


class _Packer:
    """The pieces in the order of the search, and the free GPUs while it runs."""

    def __init__(self, offer: Offer, wanted: Sequence[Sequence[Piece]], held: Sequence[Mapping[str, int]]) -> None:
        self._offer, self._held = offer, held
        pieces = [(app, piece, *offer.bins(piece)) for app, row in enumerate(wanted) for piece in row]
        # Pieces in slots first: machine-level pieces fill what remains of a machine, whatever slots that is in.
        pieces.sort(key=lambda one: (not one[2], len(one[3]), -one[1].gpus, -sum(held[one[0]].values()), one[0]))
        self._pieces = pieces
        self._holds: list[dict[int, int]] = []
        number_of = {name: slot for slot, name in enumerate(offer.slots)}
        for by_slot in held:
            holds: dict[int, int] = {}
            for name, gpus in by_slot.items():
                if name in number_of:
                    machine = offer.machine_of_slot[number_of[name]]
                    holds[machine] = holds.get(machine, 0) + gpus
            self._holds.append(holds)
        self._named = {bins[0] for _, _, in_slot, bins in pieces if len(bins) == 1 and not in_slot}
        self._named |= {offer.machine_of_slot[bins[0]] for _, _, in_slot, bins in pieces if len(bins) == 1 and in_slot}

    def search(self, limit: int, by_held: bool) -> tuple[list[int] | None, bool, int]:
        """The bin of each piece, or None; whether all was tried; the placements tried."""
        offer, pieces = self._offer, self._pieces
        slots, machines = list(offer.slot_gpus), [machine.gpus for machine in offer.machines]
        places: list[int] = []
        open_choices: list[list[int]] = []
        work = 0
        while len(places) < len(pieces):
            if len(open_choices) == len(places):
                open_choices.append(self._candidates(len(places), slots, machines, by_held))
            choices = open_choices[-1]
            if choices and work < limit:
                work += 1
                places.append(choices.pop())
                self._take(len(places) - 1, places[-1], slots, machines, 1)
                continue
            if work >= limit or not places:
                return None, work < limit, work
            open_choices.pop()
            self._take(len(places) - 1, places.pop(), slots, machines, -1)
        return places, False, work

    def _take(self, index: int, place: int, slots: list[int], machines: list[int], sign: int) -> None:
        _, piece, in_slot, _ = self._pieces[index]
        if in_slot:
            slots[place] -= sign * piece.gpus
            place = self._offer.machine_of_slot[place]
        machines[place] -= sign * piece.gpus

    def _candidates(self, index: int, slots: list[int], machines: list[int], by_held: bool) -> list[int]:
        """Bins with room for a piece, the best last; of those that are alike in all that matters, one."""
        app, piece, in_slot, bins = self._pieces[index]
        free = slots if in_slot else machines
        holds = self._holds[app] if by_held else {}
        best: dict[object, tuple[int, int, int, int, int]] = {}
        for one in bins:
            if free[one] < piece.gpus:
                continue
            machine = self._offer.machine_of_slot[one] if in_slot else one
            others = sum(other.get(machine, 0) for other in self._holds) if by_held else 0
            alike = (
                self._offer.machines[machine].rack,
                tuple(slots[slot] for slot in self._offer.slots_of[machine]) if in_slot else machines[machine],
                machine if machine in self._named or others else -1,
                free[one],
            )
            best.setdefault(alike, (-holds.get(machine, 0), others, free[one], machines[machine], one))
        return [place[-1] for place in sorted(best.values(), reverse=True)]

    def slots_of(self, places: Sequence[int]) -> tuple[Gpus, ...]:
        """The slots of each application's GPUs, given the bin of each piece."""
        offer = self._offer
        slots = list(offer.slot_gpus)
        gpus: list[dict[str, int]] = [{} for _ in self._held]
        for (app, piece, in_slot, _), place in zip(self._pieces, places, strict=True):
            if in_slot:
                chosen = {offer.slots[place]: piece.gpus}
                slots[place] -= piece.gpus
            else:
                free = {offer.slots[slot]: slots[slot] for slot in offer.slots_of[place]}
                chosen = from_slots(free, piece.gpus, self._held[app])
                for slot in offer.slots_of[place]:
                    slots[slot] -= chosen.get(offer.slots[slot], 0)
            for name, count in chosen.items():
                gpus[app][name] = gpus[app].get(name, 0) + count
        return tuple(tuple(sorted(one.items())) for one in gpus)
