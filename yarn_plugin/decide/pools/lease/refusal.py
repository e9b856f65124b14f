"""What is wrong with an application's answer, for its sender. The round goes on without it: see `rounds`."""

from yarn_plugin.decide.mechanisms.partial_allocation import checked_bid
from yarn_plugin.decide.pools.commands import Offer
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.lease.validity import checked_estimate
from yarn_plugin.model.auction import Bid, Estimate, GpuOffer


def check(state: LeaseState, app: str, message: object) -> None:
    """Check an estimate, or a bid against the offer that waits for it. One that is late is not wrong.

    Raises:
        BadInputError: it is invalid; names the field, such as `rows.3.pieces.0.gpus`, and its value.
    """
    match message:
        case Estimate():
            checked_estimate(message)
        case Bid() if (offer := _offer(state, app)) is not None:
            checked_bid(message, offer)


def _offer(state: LeaseState, app: str) -> GpuOffer | None:
    """The offer on which an application may bid now."""
    now = state.round
    if now is None or now.phase != "offered" or app not in now.asked:
        return None
    command = state.open.get(now.asked[app])
    return command.offer if isinstance(command, Offer) and isinstance(command.offer, GpuOffer) else None
