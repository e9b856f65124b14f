"""A round decided although the auction fails on a bid: that bid is set aside, and the others get their result."""

from dataclasses import replace

from yarn_plugin.decide.mechanisms.partial_allocation import auction
from yarn_plugin.decide.mechanisms.partial_allocation.problem import (
    AppBid,
    Award,
    PartialAllocation,
    PartialAllocationProblem,
)
from yarn_plugin.errors import BadInputError, describe
from yarn_plugin.model.causes import BidSetAside


def allocate(problem: PartialAllocationProblem) -> PartialAllocation:
    """Decide a round (`auction.allocate`), without the bids on which that fails, if there are any.

    Bids are added to those that are admitted, in groups that are halved until they succeed or are a single bid.

    Raises:
        BadInputError: an application appears twice.
    """
    try:
        return _checked(problem)
    except BadInputError:
        raise
    except Exception:  # noqa: BLE001 - a fault of the auction, whatever it is, must not cost the others their round
        return _without_faulty(problem)


def _without_faulty(problem: PartialAllocationProblem) -> PartialAllocation:
    admitted: tuple[AppBid, ...] = ()
    result: PartialAllocation | None = None
    set_aside: list[BidSetAside] = []
    waiting = [tuple(sorted(problem.bids, key=lambda bid: bid.app))]
    while waiting:
        group = waiting.pop()
        middle = len(group) // 2
        try:
            result = _checked(replace(problem, bids=(*admitted, *group)))
            admitted += group
        except Exception as fault:  # noqa: BLE001 - as above
            if middle:
                waiting += [group[middle:], group[:middle]]
            else:
                set_aside += [BidSetAside(bid.app, describe(fault)) for bid in group]
    result = result or _checked(replace(problem, bids=()))
    nothing = [Award(one.app, None) for one in set_aside]
    awards = tuple(sorted([*result.awards, *nothing], key=lambda award: award.app))
    return replace(result, awards=awards, set_aside=tuple(set_aside))


def _checked(problem: PartialAllocationProblem) -> PartialAllocation:
    """The auction's result, if each winner gets as many GPUs as its row has, and no GPU is given twice."""
    result = auction.allocate(problem)
    free = {slot.id: slot.gpus for machine in problem.machines for slot in machine.slots}
    rows = {bid.app: bid.rows for bid in problem.bids}
    for award in result.awards:
        wanted = 0 if award.row is None else sum(piece.gpus for piece in rows[award.app][award.row].pieces)
        given = sum(gpus for _, gpus in award.won)
        assert given == wanted, f"{award.app} won {given} GPUs by a row of {wanted}"
        for slot, gpus in award.won:
            free[slot] -= gpus
            assert free[slot] >= 0, f"GPUs of {slot} were given twice"
    return result
