"""Which bids of a round make the solver's process hang or die: found by solving without some, then set aside.

Errors that the solver raises are found in the process itself (`partial_allocation.set_aside`); those that end it are
not. Bids are added to those that are admitted, in groups that are halved until they succeed or are a single bid.
"""

import math
from dataclasses import replace

from yarn_plugin.decide.pools.lease.state import FaultyBids
from yarn_plugin.model.causes import BidSetAside


def begin(bidders: tuple[str, ...], error: str) -> FaultyBids:
    """The search after the process was lost with the bids of these."""
    return after(FaultyBids(waiting=(bidders,)), error)


def tried(search: FaultyBids) -> tuple[str, ...]:
    """The bidders with whose bids the round is solved now."""
    return (*search.admitted, *(search.waiting[0] if search.waiting else ()))


def after(search: FaultyBids, error: str | None) -> FaultyBids:
    """The search after the process was lost (`error`) or gave a result (None) with those that were tried."""
    group, waiting = search.waiting[0], search.waiting[1:]
    middle = len(group) // 2
    if error is None:
        return replace(search, admitted=(*search.admitted, *group), waiting=waiting)
    if middle:
        return replace(search, waiting=(group[:middle], group[middle:], *waiting))
    return replace(search, waiting=waiting, set_aside=(*search.set_aside, BidSetAside(group[0], error)))


def max_tries(bids: int) -> int:
    """How often a round is solved at most: enough to find two faulty bids among so many."""
    return 4 * math.ceil(math.log2(max(bids, 2))) + 6
