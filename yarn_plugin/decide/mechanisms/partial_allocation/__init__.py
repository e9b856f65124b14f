"""The partial allocation auction of Themis (thesis, section 3.3.3): `allocate(problem)` decides one round.

Pure and deterministic: it runs in the solver's worker process. `TAGS` are the journal's names of its values.
"""

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offers
from yarn_plugin.decide.mechanisms.partial_allocation.problem import (
    AppBid,
    AppOfUser,
    AppWithoutBid,
    Award,
    Gang,
    Idle,
    Leftover,
    PartialAllocation,
    PartialAllocationProblem,
)
from yarn_plugin.decide.mechanisms.partial_allocation.set_aside import allocate
from yarn_plugin.decide.mechanisms.partial_allocation.validity import checked_bid

TAGS: dict[str, type] = {
    "partial-allocation.problem/1": PartialAllocationProblem,
    "partial-allocation.result/1": PartialAllocation,
}

__all__ = [
    "TAGS",
    "AppBid",
    "AppOfUser",
    "AppWithoutBid",
    "Award",
    "Gang",
    "Idle",
    "Leftover",
    "Offers",
    "PartialAllocation",
    "PartialAllocationProblem",
    "allocate",
    "checked_bid",
]
