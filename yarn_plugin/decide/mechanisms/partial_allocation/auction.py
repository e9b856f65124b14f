"""One round of the partial allocation auction: proportional fairness, hidden payments, leftovers."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from yarn_plugin.decide.mechanisms.partial_allocation.binding import bind
from yarn_plugin.decide.mechanisms.partial_allocation.blocks import Blocks
from yarn_plugin.decide.mechanisms.partial_allocation.candidates import candidates
from yarn_plugin.decide.mechanisms.partial_allocation.fitting import fit, kinds_of
from yarn_plugin.decide.mechanisms.partial_allocation.leftovers import Bidder, draw_order, hand_out
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.problem import (
    AppBid,
    AppWithoutBid,
    Award,
    PartialAllocation,
    PartialAllocationProblem,
)
from yarn_plugin.decide.mechanisms.partial_allocation.program import program
from yarn_plugin.decide.mechanisms.partial_allocation.relaxation import tables_of
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import kept_of, usable
from yarn_plugin.decide.mechanisms.partial_allocation.search import Rows, Search, Task
from yarn_plugin.decide.mechanisms.partial_allocation.slots import added, keep
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import NAT, SERVED
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus, Piece, total

Payment = Callable[[float], int]
"""How many GPUs a winner keeps if this is its share."""


def allocate(problem: PartialAllocationProblem) -> PartialAllocation:
    """Decide a round (thesis, section 3.3.3.1, and Pseudocode 3, lines 5-11 and 20).

    1. The bidders get the rows with the greatest product of V = 1 / rho, bound to machines.
    2. A winner keeps of its GPUs the share c: the product of the others' V with it over that without it.
    3. What is left goes at random to applications that do not bid; what these cannot use, to bidders that did not pay
       it.

    The result depends neither on the order of bids, rows and machines nor on time.

    Raises:
        BadInputError: an application appears twice, so one that pays could get leftovers.
    """
    seen: set[str] = set()
    for app in [*(bid.app for bid in problem.bids), *(one.app for one in problem.without_bid)]:
        if app in seen:
            raise BadInputError("app", app, "must appear once, with a bid or without")
        seen.add(app)
    return _Round(problem).decide()


def share(others_with: float, others_without: float) -> float:
    """The share c that a winner keeps, from the others' gains with it and without it (thesis, Pseudocode 3, line 8).

    At most 1: if the search is cut off, the others' best gains without the winner may be unknown.
    """
    return min(1.0, math.exp((others_with - others_without) / NAT))


class _Round:
    """The parts of a round while it is decided. The order of bidders is drawn: among equals it decides who wins."""

    def __init__(self, problem: PartialAllocationProblem) -> None:
        self._problem = problem
        self._offer = Offer.of(problem.machines)
        by_name = {bid.app: bid for bid in problem.bids}
        self._bids = [by_name[name] for name in draw_order(problem.seed, problem.round, list(by_name))]
        self._number = {bid.app: i for i, bid in enumerate(self._bids)}
        self._held = [added(bid.held, bid.expiring) for bid in self._bids]
        self._candidates = [candidates(bid) for bid in self._bids]
        self._tables, self._real = tables_of(program(self._offer, self._candidates))
        blocks = Blocks.of(self._offer, self._candidates, self._real.shape[1])
        self._search = Search(self._tables, blocks, self._fits)

    def decide(self) -> PartialAllocation:
        problem = self._problem
        nothing: Rows = tuple(len(table) for table in self._candidates)
        best = Task(self._real, 0.0, nothing, np.zeros(len(self._tables.capacity)))
        self._search.solve([best], problem.work_limit // 2, cold=True)
        placed = bind(self._offer, self._pieces(best.rows), self._held) or ((),) * len(self._bids)
        awards = self._awards(best, placed)
        free = _left(self._offer, [award.kept for award in awards])
        bidders = [self._bidder(award) for award in awards]
        leftovers, idle = hand_out(self._offer, free, problem.without_bid, problem.seed, problem.round, bidders)
        value = (best.gain - SERVED * sum(award.row is not None for award in awards)) / NAT
        gap = best.most - best.gain
        return PartialAllocation(problem.round, awards, leftovers, idle, value, gap / NAT, gap == 0, self._search.work)

    def _awards(self, best: Task, placed: Sequence[Gpus]) -> tuple[Award, ...]:
        """What each bidder gets; of all winners at once the others' optima without them."""
        won = {i: self._candidates[i][j] for i, j in enumerate(best.rows) if j < len(self._candidates[i])}
        payments = {i: self._payment(self._bids[i], placed[i]) for i in won}
        others = {i: best.gain - won[i].gain for i in won}
        without: dict[int, Task] = {}
        if self._problem.payments:
            without = {i: self._without(i, best, others[i], payments[i]) for i in won}
            self._search.leave_out(without, best.prices)
            self._search.solve(list(without.values()), self._problem.work_limit, cold=False)
        awards: list[Award] = []
        for i, bid in enumerate(self._bids):
            if i not in won:
                awards.append(Award(bid.app, None))
                continue
            task = without.get(i)
            least, most = (share(others[i], task.most), share(others[i], task.gain)) if task else (1.0, 1.0)
            kept = keep(placed[i], payments[i](most), self._offer.machine_of, self._held[i])
            decided = payments[i](least) == payments[i](most)
            awards.append(Award(bid.app, won[i].row, placed[i], kept, least, most, decided))
        return tuple(sorted(awards, key=lambda award: award.app))

    def _bidder(self, award: Award) -> Bidder:
        """What a bidder could use beside what it keeps: as many GPUs as a row that it could win has, and that is not
        worse than the one that it won."""
        i = self._number[award.app]
        bid, kept, paid = self._bids[i], total(award.kept), added(award.won)
        for slot, gpus in award.kept:
            paid[slot] -= gpus
        worst = math.inf if award.row is None else bid.rows[award.row].rho
        useful = [row for row in self._candidates[i] if bid.rows[row.row].rho <= worst]
        sizes = {sum(piece.gpus for piece in row.pieces) - kept for row in useful}
        more = tuple(sorted(size for size in sizes if size > 0))
        has = tuple(sorted(added(bid.held, award.kept).items()))
        app = AppWithoutBid(award.app, max(more, default=0), has, bid.expiring, bid.gangs)
        return Bidder(app, tuple((slot, gpus) for slot, gpus in sorted(paid.items()) if gpus), more)

    def _without(self, bidder: int, best: Task, others: float, payment: Payment) -> Task:
        """The problem of the others without this winner: theirs is at least what they have with it."""
        nothing = len(self._candidates[bidder])
        allowed = self._real.copy()
        allowed[bidder, :nothing] = False
        rows = (*best.rows[:bidder], nothing, *best.rows[bidder + 1 :])

        def known_well_enough(gain: float, bound: float) -> bool:
            return payment(share(others, gain)) == payment(share(others, bound))

        solved = (lambda gain, bound: False) if self._problem.exact_shares else known_well_enough
        return Task(allowed, others, rows, best.prices, solved, bound=best.bound)

    def _payment(self, bid: AppBid, won: Gpus) -> Payment:
        count = total(won)
        numbers = usable(bid.gangs, total(bid.held), count)
        return lambda share: kept_of(share, count, numbers, self._problem.rounding)

    def _fits(self, rows: Rows) -> bool | None:
        pieces = [piece for row in self._pieces(rows) for piece in row]
        found = fit(self._offer, self._offer.slot_gpus, kinds_of(self._offer, pieces))
        self._search.work += found.work // FITTING_STEPS
        return True if found.steps is not None else False if found.impossible else None

    def _pieces(self, rows: Rows) -> list[tuple[Piece, ...]]:
        return [table[j].pieces if j < len(table) else () for table, j in zip(self._candidates, rows, strict=True)]


FITTING_STEPS = 10
"""So many steps of fitting pieces count as one step of the search."""


def _left(offer: Offer, taken: Sequence[Gpus]) -> dict[str, int]:
    free = dict(zip(offer.slots, offer.slot_gpus, strict=True))
    for gpus in taken:
        for slot, count in gpus:
            free[slot] -= count
    return free
