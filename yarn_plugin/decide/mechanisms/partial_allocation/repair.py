"""Choices within the capacities, from prices: greedy, then improved row by row; for many nodes at once."""

import numpy as np

from yarn_plugin.decide.mechanisms.partial_allocation.relaxation import Flags, Indices, Numbers, Tables

PASSES = 2
"""Rounds of improvement."""


def repaired(tables: Tables, allowed: Flags, prices: Numbers) -> tuple[Indices, Flags]:
    """A choice (node, bidder) for each node, and whether it is one: a greedy choice may leave no room for a bidder.

    Those bidders choose first that gain most at the prices (node, column); then each takes the best row that has room.
    """
    net = np.where(allowed, tables.gain - tables.costs(prices), -np.inf)
    gain = np.where(allowed, tables.gain, -np.inf)
    order = np.argsort(-net.max(axis=2), axis=1, kind="stable")
    each = np.arange(len(prices))
    by_column = np.ascontiguousarray(tables.use.transpose(0, 2, 1))
    left = np.tile(tables.capacity, (len(prices), 1))
    picks = np.zeros(order.shape, dtype=np.intp)
    found = np.ones(len(prices), dtype=np.bool_)
    for turn in range((1 + PASSES) * order.shape[1]):
        bidder = order[:, turn % order.shape[1]]
        if turn >= order.shape[1]:
            left += tables.use[bidder, picks[each, bidder]]
        values = (net if turn < order.shape[1] else gain)[each, bidder]
        values = np.where((by_column[bidder] <= left[:, :, None]).all(axis=1), values, -np.inf)
        best = values.argmax(axis=1)
        found &= np.isfinite(values[each, best])
        picks[each, bidder] = best
        left -= tables.use[bidder, best]
    return picks, found


ROWS = 12
"""Rows of each bidder that the exchange of pairs tries, at most: those with the highest gain less cost."""
MAX_COMPARED = 200_000
"""Uses compared at once in the exchange of pairs; limits the rows that it tries."""


def exchanged(tables: Tables, allowed: Flags, prices: Numbers, picks: Indices) -> Indices:
    """A choice (bidder) improved by changing the rows of two bidders at a time until no such change is better."""
    net = np.where(allowed, tables.gain - tables.costs(prices[None])[0], -np.inf)
    rows = max(2, min(ROWS, int((MAX_COMPARED / max(1, len(picks) * len(tables.capacity))) ** 0.5)))
    short = np.argsort(-net, axis=1, kind="stable")[:, :rows]
    bidders = np.arange(len(picks))
    picks = picks.copy()
    gain = np.where(np.take_along_axis(allowed, short, axis=1), np.take_along_axis(tables.gain, short, axis=1), -np.inf)
    use = np.take_along_axis(tables.use, short[:, :, None], axis=1)
    left = tables.capacity - tables.use[bidders, picks].sum(axis=0)
    unchanged = 0
    turn = 0
    while unchanged < len(picks):
        bidder = turn % len(picks)
        own_gain, own_use = tables.gain[bidders, picks], tables.use[bidders, picks]
        room = left + own_use[bidder] + own_use
        room[bidder] = left + own_use[bidder]
        pairs = np.array(gain[:, :, None] + gain[bidder], copy=True)
        pairs[bidder] = -np.inf
        free = room[:, None, :] - use
        fits = (free[:, :, None, :] >= use[bidder]).all(axis=3)
        better = np.where(fits, pairs, -np.inf) - (own_gain + own_gain[bidder])[:, None, None]
        other, row, own = np.unravel_index(int(better.argmax()), better.shape)
        if better[other, row, own] > 0:
            left += own_use[bidder] + own_use[other] - use[bidder, own] - use[other, row]
            picks[bidder], picks[other] = short[bidder, own], short[other, row]
            unchanged = 0
        else:
            unchanged += 1
            turn += 1
    return picks
