"""Which bidders of an auction made no bid that counts, and why: it came too late, was malformed, or never came.

Read from a journal's inputs, so that it is known of old journals too. A bid that was refused over HTTP (status 422) is
in no journal: its sender was told.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.decide.commands import Command, RecordRound, SendToApp
from yarn_plugin.decide.events import AppSaid, Event
from yarn_plugin.decide.pools.commands import Offer
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.auction import Bid, GpuOffer
from yarn_plugin.model.causes import LeaseRound


@dataclass(frozen=True, slots=True)
class MissedBid:
    """Of an application that was offered GPUs. `late_s`: of a late bid, seconds after the deadline."""

    app: str
    reason: Literal["none", "late", "malformed"]
    late_s: float = 0.0


Missed = dict[tuple[str, int], tuple[MissedBid, ...]]
"""Missed bids by pool, or virtual cluster (`pool/name`), and round."""


def missed_bids(history: Iterable[Decided[Event, Command]]) -> Missed:
    """The missed bids of each auction in a history, oldest first, that has a result."""
    deadlines: dict[tuple[str, int], dict[str, float]] = {}
    pools: dict[tuple[str, int], str] = {}
    first: dict[tuple[str, int], float] = {}
    results: dict[tuple[str, int], LeaseRound] = {}
    for decided in history:
        match decided.event:
            case AppSaid(app, Bid(round=number)) if (app, number) in pools:
                first.setdefault((app, number), decided.at)
        for command in decided.commands:
            match command:
                case SendToApp(pool, app, Offer(offer=GpuOffer(round=number), bid_by=deadline)):
                    pools[app, number] = pool
                    deadlines.setdefault((pool, number), {})[app] = deadline
                case RecordRound(pool, LeaseRound(error=None) as result):
                    results[pool, result.round] = result
    missed: Missed = {}
    for (where, number), result in results.items():
        # The pool sends the offers of its virtual clusters, whose rounds have numbers of their own.
        offered, took_part = deadlines.get((where.partition("/")[0], number), {}), dict(result.rhos)
        missed[where, number] = tuple(
            _missed(app, deadline, first.get((app, number)))
            for app, deadline in offered.items()
            if app in took_part and app not in result.bidders
        )
    return missed


def _missed(app: str, deadline: float, came_at: float | None) -> MissedBid:
    if came_at is None:
        return MissedBid(app, "none")
    # At the deadline, the timer comes first.
    return MissedBid(app, "malformed") if came_at < deadline else MissedBid(app, "late", came_at - deadline)


def text(one: MissedBid, name: str) -> str:
    """Why the application of this name made no bid, in words."""
    match one.reason:
        case "none":
            return f"no bid from {name}"
        case "late":
            return f"bid from {name} {one.late_s:.3g} s too late"
        case "malformed":
            return f"malformed bid from {name}"
