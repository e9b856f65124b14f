"""What a bid table says later: finish-time fairness between two bids of an application.

Asking an application for its rho anew in every round would let it adjust the answer to what it wants to win. So between
bids its last table answers: the row for what it holds, with the time that has passed, at the present contention.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from yarn_plugin.model.auction import Bid
from yarn_plugin.model.gpus import Gpus, Machine, Piece


@dataclass(frozen=True, slots=True)
class CachedTable:
    """A bid table, and the work that is left since.

    `arrived_at`, `made_at`: when the application arrived, and when it made the table, seconds. `contention`: the N_avg
    of its offer. `held`: the GPUs that count in every row. `left`: the part of the work at `made_at` that is left.
    """

    bid: Bid
    arrived_at: float
    made_at: float
    contention: float
    held: Gpus = ()
    left: float = 1.0

    def rho_with(self, holds: Gpus, machines: Sequence[Machine]) -> float | None:
        """Rho with these GPUs, as the table had it: that of the best row that they contain beside `held`.

        None: unbounded, also if GPUs of `held` are gone, of which the table says nothing. `machines`: of these GPUs.
        """
        beside = dict(holds)
        for slot, gpus in self.held:
            beside[slot] = beside.get(slot, 0) - gpus
        if min(beside.values(), default=0) < 0:
            return None
        rows = [row for row in self.bid.rows if self.bid.rho is None or row.rho < self.bid.rho]
        # The best row that is there says it all; most are not.
        most = sum(beside.values())
        for row in sorted(rows, key=lambda row: row.rho):
            if sum([piece.gpus for piece in row.pieces]) <= most and contains(beside, row.pieces, machines):
                return row.rho
        return self.bid.rho

    def after(self, seconds: float, rho: float | None) -> "CachedTable":
        """The table after some time with GPUs for which it said `rho` (see `rho_with`): they have done their part."""
        remaining = self._remaining_s(rho)
        if not remaining:
            return self
        return replace(self, left=max(self.left - seconds / remaining, 0.0))

    def now(self, at: float, contention: float, rho: float | None) -> float | None:
        """Rho at a later time and contention with GPUs for which the table said `rho`; None: unbounded.

        T_sh is the time since arrival and what is left of the time that the table expected (equations 3.1 and 3.2 of
        Themis, thesis section 3.4.3); T_id changes with N_avg. Without `cluster_s` only the latter is known.
        """
        if rho is None:
            return None
        remaining = self._remaining_s(rho)
        if remaining is None or not self.bid.cluster_s:
            return rho * self.contention / contention
        return (at - self.arrived_at + self.left * remaining) / (self.bid.cluster_s * contention)

    def _remaining_s(self, rho: float | None) -> float | None:
        """The time that the table expected the application to take from then on."""
        if rho is None or self.bid.cluster_s is None:
            return None
        return max(rho * self.bid.cluster_s * self.contention - (self.made_at - self.arrived_at), 0.0)


def contains(gpus: dict[str, int], pieces: Iterable[Piece], machines: Sequence[Machine]) -> bool:
    """Whether these pieces can be found among these GPUs (by slot): the least flexible first, each by best fit."""
    free = {slot: count for slot, count in gpus.items() if count > 0}
    above = {slot.id: (slot.id, machine.id, machine.rack, "") for machine in machines for slot in machine.slots}
    for piece in sorted(pieces, key=lambda piece: (piece.within == "", -piece.gpus, piece.within, piece.level)):
        cells: dict[str, list[str]] = {}
        for slot in sorted(free):
            names = above.get(slot, (slot, slot, "", ""))
            if piece.within in names:
                cells.setdefault(names[0] if piece.level == "slot" else names[1], []).append(slot)
        rooms = [(sum(free[slot] for slot in slots), cell) for cell, slots in cells.items()]
        fitting = [room for room in rooms if room[0] >= piece.gpus]
        if not fitting:
            return False
        left = piece.gpus
        for slot in cells[min(fitting)[1]]:
            taken = min(left, free[slot])
            free[slot] -= taken
            left -= taken
    return True
