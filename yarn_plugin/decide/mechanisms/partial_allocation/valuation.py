"""What the rows of a bid are worth: the gain in log V, V = 1 / rho, over winning nothing."""

import math

from yarn_plugin.decide.mechanisms.partial_allocation.problem import AppBid

NAT = 1 << 28
"""Gains are whole numbers of 1/NAT nats. Floats hold sums and products of such numbers exactly, so the result of the
search depends neither on the order of additions nor on the machine."""

STARVED = 10.0
"""An application whose rho is unbounded without GPUs counts as this many times worse off than with the worst row of its
table.

Any finite stand-in is a choice (thesis, section 3.3.3.2, says only that serving such an application is "a huge
improvement"): the larger it is, the earlier the application is served, and the more those pay that are served instead
of it. One derived from the application's own table leaves two properties of the mechanism intact: scaling a table
changes nothing, and no bid changes what another application's bid is worth, which the proof of truthfulness needs. A
stand-in common to all would also prefer those with a low rho, who have waited least.
"""

SERVED = round(2e-5 * NAT)
"""Added to the gain of each row, so that of allocations with equal products one wins that serves more applications."""


def log_rho_without(bid: AppBid) -> float:
    """The logarithm of its rho if it wins nothing; of a finite stand-in where that is unbounded; see STARVED."""
    if bid.rho is not None:
        return math.log(bid.rho)
    return math.log(STARVED) + math.log(max((row.rho for row in bid.rows), default=1.0))


def gains(bid: AppBid) -> list[int]:
    """Of each row, log(rho without / rho with it) in units of 1/NAT nats; negative if the row is worse than nothing."""
    without = log_rho_without(bid)
    return [round((without - math.log(row.rho)) * NAT) for row in bid.rows]
