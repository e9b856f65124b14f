"""From numbers of GPUs per slot to the GPUs themselves, so that what is held stays where it is."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from yarn_plugin.decide.pools.lease.inventory import BySlot
from yarn_plugin.model.gpus import Gpus

Winner = tuple[str, str]
"""An application, and its job ("" if it assigns GPUs to jobs itself)."""


def bind(
    won: Sequence[tuple[Winner, Gpus]],
    offer: BySlot,
    free: Collection[str],
    own: Mapping[Winner, Collection[str]],
) -> dict[Winner, dict[str, list[str]]]:
    """The GPUs of each winner by slot: those that it holds first, then free ones, then those that others still hold.

    `offer`: the GPUs to bind; `free`: those that nobody holds; `own`: those that a winner's ending leases
    hold. A slot that has fewer GPUs left than were won (a node was lost meanwhile) gives what it has.
    """
    wanted: Counter[tuple[Winner, str]] = Counter()
    for winner, gpus in won:
        wanted.update({(winner, slot): count for slot, count in gpus})
    left = {slot: offer.get(slot, ()) for _, slot in wanted}
    bound: dict[Winner, dict[str, list[str]]] = {winner: {} for winner, _ in won}
    for step in ("own", "free", "any"):
        for (winner, slot), count in wanted.items():
            mine = bound[winner].setdefault(slot, [])
            if len(mine) == count:
                continue
            allowed = own.get(winner, ()) if step == "own" else free if step == "free" else left[slot]
            taken = [gpu for gpu in left[slot] if gpu in allowed][: count - len(mine)]
            if taken:
                mine += taken
                left[slot] = tuple([gpu for gpu in left[slot] if gpu not in taken])
    return {winner: {slot: gpus for slot, gpus in mine.items() if gpus} for winner, mine in bound.items()}
