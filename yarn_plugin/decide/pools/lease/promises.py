"""How far the arbiter believes the finish-time fairness that applications report.

A rho is bounded by what the arbiter knows (see `mechanisms.plausible_rho`). A bid table is a promise: with these GPUs,
this rho. It is broken if its application holds such GPUs and reports a worse rho than its table has for them.
Shortfalls add up, as logarithms, and beyond a tolerance they discount later bids. A promise that is kept halves the
sum. Equation 3.1 raises the rho of an application that holds less: that is in its table, too.
"""

import math
from dataclasses import replace

from yarn_plugin.decide.mechanisms.plausible_rho import WORTH, Known
from yarn_plugin.decide.pools.lease.members import contention
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.auction import Bid, Row
from yarn_plugin.model.gpus import Gpus, total

TOLERANCE = math.log(1.25)
"""The shortfall up to which bids are not discounted, in nats: estimates of honest applications err."""

KEPT = 1.02
"""A rho of at most this many times the promised one keeps the promise."""

MAX_MISSING = math.log(4.0)
"""The most that a single report adds: one from an application in trouble does not ruin it."""

MAX_UNKEPT = 8 * TOLERANCE
"""The most that adds up: after three kept promises nothing is discounted."""


def known(turn: Turn, app: str) -> Known:
    """What the arbiter knows of an application."""
    member = turn.state.members[app]
    told = [member.cluster_s, None if member.table is None else member.table.bid.cluster_s]
    declared = max((seconds for seconds in told if seconds), default=None)
    arrived_at = min(member.arrived_at, turn.claims[app].arrived_at) if app in turn.claims else member.arrived_at
    attained = turn.attained_gpu_s(app)
    return Known(turn.at - arrived_at, declared, attained, contention(turn, app), len(turn.inventory.places))


def discount(turn: Turn, app: str) -> float:
    """The factor by which an application's bids are discounted: at most 1."""
    member = turn.state.members[app]
    missing = max(member.unkept - TOLERANCE, 0.0)
    # The jobs of an estimate are the unfinished ones: what others have had, and what follows, is not declared.
    declares_all = member.table is not None and member.table.bid.cluster_s
    return math.exp(-missing) / (known(turn, app).overdue if declares_all else 1.0)


def discounts(turn: Turn) -> tuple[tuple[str, float], ...]:
    """The applications whose bids are discounted, each with its factor."""
    found = ((app, discount(turn, app)) for app in turn.active())
    return tuple((app, round(part, 4)) for app, part in found if part < 1.0)


def believed_rho(turn: Turn, app: str, rho: float | None, gpus: int) -> float | None:
    """A rho with this many GPUs, as believed. None: unbounded, which it never is with an equal part of the pool."""
    most = _bounded(known(turn, app), rho, gpus)
    return None if most is None else most * discount(turn, app)


def _bounded(facts: Known, rho: float | None, gpus: int) -> float | None:
    if rho is None and not facts.has_part(gpus):
        return None
    most = facts.most(gpus)
    if rho is None:
        return None if math.isinf(most) else most
    return min(rho, most)


def believed_bid(turn: Turn, app: str, bid: Bid, held: Gpus) -> Bid:
    """What is believed of a bid: each rho bounded, and what a row gains over the worst one discounted."""
    facts, part, kept = known(turn, app), discount(turn, app), total(held)
    rhos = [min(row.rho, facts.most(kept + sum(piece.gpus for piece in row.pieces))) for row in bid.rows]
    nothing = _bounded(facts, bid.rho, kept)
    if part < 1.0:
        worst = max([*rhos, *([] if nothing is None else [nothing])], default=1.0)
        rhos = [worst * (rho / worst) ** part for rho in rhos]
        nothing = None if nothing is None else worst * (nothing / worst) ** part
    if nothing == bid.rho and all(rho == row.rho for rho, row in zip(rhos, bid.rows, strict=True)):
        return bid
    rows = tuple(Row(row.pieces, rho) for row, rho in zip(bid.rows, rhos, strict=True))
    return replace(bid, rho=nothing, rows=rows)


def compare(turn: Turn, app: str, rho: float | None, promised: float | None, gpus: int) -> None:
    """Compare the rho that an application reports for GPUs that it holds with what its last table promised for them."""
    if promised is None:
        return
    member, facts = turn.state.members[app], known(turn, app)
    is_impossible = rho is None or promised <= 0 or (facts.has_part(gpus) and rho > facts.most(gpus) / WORTH)
    missing = MAX_MISSING if rho is None or is_impossible else math.log(rho / promised)
    is_kept = missing <= math.log(KEPT)
    unkept = member.unkept / 2 if is_kept else member.unkept + min(missing, MAX_MISSING)
    if turn.settings.rules > 1:
        unkept = min(unkept, MAX_UNKEPT)
    if unkept != member.unkept:
        turn.set_member(app, replace(member, unkept=unkept))
