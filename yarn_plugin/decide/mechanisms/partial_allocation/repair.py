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
    left = np.tile(tables.capacity, (len(prices), 1))
    picks = np.zeros(order.shape, dtype=np.intp)
    found = np.ones(len(prices), dtype=np.bool_)
    for turn in range((1 + PASSES) * order.shape[1]):
        bidder = order[:, turn % order.shape[1]]
        use = tables.use[bidder]
        if turn >= order.shape[1]:
            left += use[each, picks[each, bidder]]
        values = (net if turn < order.shape[1] else gain)[each, bidder]
        values = np.where((use <= left[:, None, :]).all(axis=2), values, -np.inf)
        best = values.argmax(axis=1)
        found &= np.isfinite(values[each, best])
        picks[each, bidder] = best
        left -= use[each, best]
    return picks, found
