"""How the brackets of a search share GPUs: side by side, each with a part of its own.

The parts are in proportion to the work that is left, in whole GPUs, and none is less than the largest of the smallest
gangs of its bracket nor more than the bracket can use. Brackets take their parts in order of size, the largest first,
from the largest rack on, machine by machine. If there are too few GPUs for all, the brackets run one after the other.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """What a bracket needs: its work left in seconds on one GPU, and the least and most GPUs that it can use."""

    work_s: float
    min_gpus: int
    max_gpus: int


class Shares:
    """The GPUs of each bracket, for any number of GPUs.

    Each GPU goes to the bracket whose work divided by its GPUs would otherwise be largest (D'Hondt's rule); which one,
    does not depend on how many follow.
    """

    def __init__(self, needs: Sequence[Need]) -> None:
        self._needs = needs
        self._given = [tuple(need.min_gpus for need in needs)]
        self._waiting = [
            (-need.work_s / need.min_gpus, index) for index, need in enumerate(needs) if need.min_gpus < need.max_gpus
        ]
        heapq.heapify(self._waiting)

    def of(self, gpus: int) -> Sequence[int] | None:
        """How many GPUs each bracket gets; None if there are too few for all."""
        more = gpus - sum(self._given[0])
        if more < 0:
            return None
        while len(self._given) <= more and self._waiting:
            _, index = self._waiting[0]
            shares = list(self._given[-1])
            shares[index] += 1
            self._given.append(tuple(shares))
            need = self._needs[index]
            if shares[index] < need.max_gpus:
                heapq.heapreplace(self._waiting, (-need.work_s / shares[index], index))
            else:
                heapq.heappop(self._waiting)
        return self._given[min(more, len(self._given) - 1)]
