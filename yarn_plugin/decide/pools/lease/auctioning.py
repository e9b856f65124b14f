"""The auction of a round as a problem for the solver."""

from collections.abc import Iterable

from yarn_plugin.decide.mechanisms.partial_allocation import (
    AppBid,
    AppOfUser,
    AppWithoutBid,
    PartialAllocation,
    PartialAllocationProblem,
    checked_bid,
)
from yarn_plugin.decide.pools.lease import promises, service
from yarn_plugin.decide.pools.lease.binding import Winner
from yarn_plugin.decide.pools.lease.inventory import BySlot
from yarn_plugin.decide.pools.lease.quotas import Quotas
from yarn_plugin.decide.pools.lease.state import Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Bid, GpuOffer, Row
from yarn_plugin.model.gpus import Gpus, total


def problem(turn: Turn, now: Round) -> PartialAllocationProblem:
    """The auction of the offered GPUs among those that were offered them; others may get leftovers.

    Who did not answer, or is gone, has made the empty bid.
    """
    settings, offer = turn.settings, turn.by_slot(now.offer)
    # The index is of the same GPUs as when they were offered, or else does not know of it.
    is_known = turn.index.offered is not None and turn.index.offered[0] == now.number
    is_whole = is_known or turn.inventory.order.keys() >= {gpu for gpus in offer.values() for gpu in gpus}
    quotas = Quotas(turn, now)
    bids = [quotas.bid(_bid(turn, now, app, is_whole)) for app in now.bidders]
    others = [quotas.without_bid(_without_bid(turn, now, app)) for app in turn.active() if app not in now.bidders]
    others = _in_turns(turn, now, others)
    return PartialAllocationProblem(
        now.number,
        settings.seed,
        turn.index.offered_machines(offer if is_whole else _left(turn, offer)),
        tuple(bids),
        tuple(others),
        work_limit=settings.work_limit,
        rounding=settings.rounding,
        payments=settings.payments,
    )


def _left(turn: Turn, offer: BySlot) -> BySlot:
    """The offer without lost nodes."""
    return turn.inventory.by_slot([gpu for gpus in offer.values() for gpu in gpus])


def _bid(turn: Turn, now: Round, app: str, is_whole: bool) -> AppBid:
    bid = now.bids[app] if app in now.bids and app in turn.state.members else Bid(now.number, None)
    gangs = turn.state.members[app].gangs if app in turn.state.members else ()
    held, expiring = _held(turn, now, app)
    if app in turn.state.members:
        bid = promises.believed_bid(turn, app, bid, held)
    return AppBid(app, bid.rho, bid.rows if is_whole else _rows(turn, now, bid), held, expiring, gangs)


def _rows(turn: Turn, now: Round, bid: Bid) -> tuple[Row, ...]:
    """The rows of a bid without those that need a node that was lost since the offer."""
    machines = turn.index.offered_machines(_left(turn, turn.by_slot(now.offer)))
    left = GpuOffer(now.number, machines, turn.settings.lease_s, 1.0)

    def fits(row: Row) -> bool:
        try:
            return bool(checked_bid(Bid(now.number, None, (row,)), left, turn.offers))
        except BadInputError:
            return False

    return tuple(row for row in bid.rows if fits(row))


def _without_bid(turn: Turn, now: Round, app: str) -> AppWithoutBid:
    held, expiring = _held(turn, now, app)
    wants = max(_most(turn, app) - total(held), 0)
    return AppWithoutBid(app, wants, held, expiring, turn.state.members[app].gangs)


def _in_turns(turn: Turn, now: Round, apps: Iterable[AppWithoutBid]) -> list[AppWithoutBid]:
    """The same; those that are ahead come last. Where users count, with their users; those of users who bid come last,
    too."""
    counts_users = turn.settings.entitlement == "user"
    bidding = {turn.user_of(app) for app in now.bidders if app in turn.state.members} if counts_users else set()
    found = []
    for one in apps:
        user = turn.user_of(one.app) if counts_users else one.app
        comes_last = user in bidding or service.is_ahead(turn, one.app)
        if counts_users or comes_last:
            one = AppOfUser(one.app, one.wants, one.held, one.expiring, one.gangs, user=user, comes_last=comes_last)
        found.append(one)
    return found


def _held(turn: Turn, now: Round, app: str) -> tuple[Gpus, Gpus]:
    """What an application keeps whatever it wins, and what of the offer it holds."""
    staying: list[str] = []
    expiring: list[str] = []
    for one in turn.leases_of(app):
        (expiring if one.lease.id in now.ending else staying).extend(one.staying)
    return turn.inventory.count(staying), turn.inventory.count(expiring)


def _most(turn: Turn, app: str) -> int:
    """How many GPUs an application can use in all: by its jobs, if it names them, within its registered demand."""
    member, total = turn.state.members[app], len(turn.inventory.places)
    most = total if member.demand is None else member.demand
    return min(most, sum(gang.max_gpus * gang.trials for gang in member.gangs)) if member.gangs else most


def kept(result: PartialAllocation) -> list[tuple[Winner, Gpus]]:
    """What each bidder won, less its payment."""
    return [((award.app, ""), award.kept) for award in result.awards if award.kept]


def leftovers(result: PartialAllocation) -> list[tuple[Winner, Gpus]]:
    """What applications without a bid get."""
    return [((one.app, ""), one.gpus) for one in result.leftovers]


def paid(result: PartialAllocation) -> tuple[tuple[str, int], ...]:
    """The GPUs that each bidder paid."""
    payments = ((award.app, total(award.won) - total(award.kept)) for award in result.awards)
    return tuple((app, gpus) for app, gpus in payments if gpus)
