"""One round of the partial allocation auction: proportional fairness, hidden payments, leftovers."""

import math
from collections.abc import Sequence

from yarn_plugin.decide.mechanisms.partial_allocation.candidates import candidates
from yarn_plugin.decide.mechanisms.partial_allocation.leftovers import hand_out
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.packing import Packing, pack
from yarn_plugin.decide.mechanisms.partial_allocation.problem import (
    AppBid,
    Award,
    PartialAllocation,
    PartialAllocationProblem,
)
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import kept_of, usable
from yarn_plugin.decide.mechanisms.partial_allocation.search import Best, Choice, maximise
from yarn_plugin.decide.mechanisms.partial_allocation.slots import added, keep
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import NAT
from yarn_plugin.model.gpus import Gpus


def allocate(problem: PartialAllocationProblem) -> PartialAllocation:
    """Decide a round (thesis, section 3.3.3.1, and Pseudocode 3, lines 5-11 and 20).

    1. The bidders get the rows with the greatest product of V = 1 / rho, bound to machines.
    2. A winner keeps of its GPUs the share c: the product of the others' V with it over that without it.
    3. What is left goes at random to applications that do not bid.

    The result depends neither on the order of bids, rows and machines nor on time.
    """
    offer = Offer.of(problem.machines)
    bids = sorted(problem.bids, key=lambda bid: bid.app)
    tables = [candidates(bid) for bid in bids]
    held = [added(bid.held, bid.expiring) for bid in bids]

    def packed(choice: Choice) -> Packing:
        rows = [tables[i][j].pieces if j is not None else () for i, j in enumerate(choice)]
        return pack(offer, rows, held)

    best = maximise(offer, tables, packed, problem.work_limit)
    placed = packed(best.choice).gpus or ((),) * len(bids)
    work = best.work
    awards: list[Award] = []
    for i, bid in enumerate(bids):
        j = best.choice[i]
        if j is None:
            awards.append(Award(bid.app, None))
            continue
        others = best.gain - tables[i][j].gain
        without = Best((), others, others, 0)
        if problem.payments:
            without = maximise(offer, tables, packed, problem.work_limit - work, skip=i)
            work += without.work
        share_min, share_max = share(others, without.bound), share(others, without.gain)
        awards.append(_award(problem, offer, bid, tables[i][j].row, placed[i], share_min, share_max))
    free = _left(offer, [award.kept for award in awards])
    leftovers, idle = hand_out(offer, free, problem.without_bid, problem.seed, problem.round)
    gap = (best.bound - best.gain) / NAT
    return PartialAllocation(
        problem.round, tuple(awards), leftovers, idle, best.gain / NAT, gap, best.bound == best.gain, work
    )


def share(others_with: int, others_without: int) -> float:
    """The share c that a winner keeps, from the others' gains with it and without it (thesis, Pseudocode 3, line 8).

    At most 1: a better allocation of the others that contains the winner's loss may be missed if the search is cut off.
    """
    return min(1.0, math.exp((others_with - others_without) / NAT))


def _award(
    problem: PartialAllocationProblem, offer: Offer, bid: AppBid, row: int, won: Gpus, least: float, most: float
) -> Award:
    count = sum(gpus for _, gpus in won)
    numbers = usable(bid.gangs, sum(gpus for _, gpus in bid.held), count)
    kept = kept_of(most, count, numbers, problem.rounding)
    decided = kept_of(least, count, numbers, problem.rounding) == kept
    return Award(
        bid.app, row, won, keep(won, kept, offer.machine_of, added(bid.held, bid.expiring)), least, most, decided
    )


def _left(offer: Offer, taken: Sequence[Gpus]) -> dict[str, int]:
    free = dict(zip(offer.slots, offer.slot_gpus, strict=True))
    for gpus in taken:
        for slot, count in gpus:
            free[slot] -= count
    return free
