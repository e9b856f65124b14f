"""How the brackets of a search share GPUs: side by side, each with a part of its own.

The parts are in proportion to the work that is left, in whole GPUs, and none is less than the largest of the smallest
gangs of its bracket nor more than the bracket can use. Brackets take their parts in order of size, the largest first,
from the largest rack on, machine by machine. If there are too few GPUs for all, the brackets run one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """What a bracket needs: its work left in seconds on one GPU, and the least and most GPUs that it can use."""

    work_s: float
    min_gpus: int
    max_gpus: int


def shares_of(needs: Sequence[Need], gpus: int) -> list[int] | None:
    """How many GPUs each bracket gets; None if there are too few for all.

    Each GPU goes to the bracket whose work divided by its GPUs would otherwise be largest (D'Hondt's rule).
    """
    shares = [need.min_gpus for need in needs]
    if sum(shares) > gpus:
        return None
    for _ in range(gpus - sum(shares)):
        open_ones = [index for index, need in enumerate(needs) if shares[index] < need.max_gpus]
        if not open_ones:
            break
        shares[max(open_ones, key=lambda index: (needs[index].work_s / shares[index], -index))] += 1
    return shares
