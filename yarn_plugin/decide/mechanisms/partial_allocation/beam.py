"""Choices bidder by bidder, the most promising first, with the knapsacks' bounds; of several problems at once."""

from dataclasses import dataclass

import numpy as np

from yarn_plugin.decide.mechanisms.partial_allocation.blocks import Blocks, all_of
from yarn_plugin.decide.mechanisms.partial_allocation.knapsack import Knapsacks, at
from yarn_plugin.decide.mechanisms.partial_allocation.relaxation import Flags, Indices, Numbers, Tables


@dataclass(frozen=True, slots=True)
class Beam:
    """Complete choices within the capacities, of each problem that with the highest gain first.

    `problem`, `gain`: of each choice. `picks`: (choice, bidder). `bound`: no other choice of the problem gains more,
    unless it gains no more than the target. `compared`: how many partial choices were looked at.
    """

    problem: Indices
    gain: Numbers
    picks: Indices
    bound: Numbers
    compared: int


def beam(tables: Tables, blocks: Blocks, knapsacks: Knapsacks, allowed: Flags, target: Numbers, width: int) -> Beam:
    """The choices that gain more than the target (problem), of the allowed rows (problem, bidder, row).

    Bidders with fewer rows come first. After each, of a problem's partial choices that use the same only the best is
    kept, and of these so many with the highest bounds; the bound of what is left out is part of the result.
    """
    rows_of = [np.flatnonzero(rows) for rows in np.logical_or.reduce(allowed)]
    order = sorted(range(len(rows_of)), key=lambda bidder: (len(rows_of[bidder]), bidder))
    after = knapsacks.after(order)
    problem = np.arange(len(target))
    gain, value = np.zeros(len(target)), knapsacks.constant
    left, used = np.tile(tables.capacity, (len(target), 1)), blocks.nothing(len(target))
    room = np.full(len(target), knapsacks.room)
    taken: list[tuple[Indices, Indices]] = []
    dropped, compared = np.full(len(target), -np.inf), 0
    for turn, bidder in enumerate(order):
        rows = rows_of[bidder]
        rooms = room[:, None] - knapsacks.use[bidder, rows]
        # Of rows that are not allowed it is infinitely low.
        values = value[:, None] + knapsacks.value[:, bidder, rows].take(problem, axis=0)
        bounds = values + at(after[turn + 1], problem[:, None], rooms)
        compared += bounds.size
        choice = np.flatnonzero(bounds > target[problem, None])
        state, row = np.divmod(choice, len(rows))
        rest = left.take(state, axis=0) - tables.use[bidder, rows].take(row, axis=0)
        uses = used.take(state, axis=0) + blocks.use[bidder, rows].take(row, axis=0)
        fits = np.flatnonzero(all_of(rest >= 0) & blocks.fitting(uses))
        rest, uses, choice = rest.take(fits, axis=0), uses.take(fits, axis=0), choice.take(fits)
        state, row = np.divmod(choice, len(rows))
        bound, more = bounds.take(choice), gain.take(state) + tables.gain[bidder, rows].take(row)
        kept = _distinct(problem.take(state), np.concatenate([rest, uses], axis=1), more)
        kept = kept[np.lexsort((-bound[kept], problem[state[kept]]))]
        of = problem[state[kept]]
        rank = np.arange(len(of)) - np.searchsorted(of, of)
        np.maximum.at(dropped, of[rank >= width], bound[kept[rank >= width]])
        kept = kept[rank < width]
        choice, state, row = choice[kept], state[kept], row[kept]
        taken.append((state, rows[row]))
        problem, gain = problem[state], more[kept]
        left, used = rest.take(kept, axis=0), uses.take(kept, axis=0)
        room, value = rooms.take(choice), values.take(choice)
    best = np.lexsort((-gain, problem))
    best = best[(gain > target[problem])[best]]
    picks = np.zeros((len(best), len(order)), dtype=np.intp)
    state = best
    for bidder, (before, chosen) in zip(reversed(order), reversed(taken), strict=True):
        picks[:, bidder] = chosen[state]
        state = before[state]
    return Beam(problem[best], gain[best], picks, dropped, compared)


def _distinct(problem: Indices, used: Numbers, gain: Numbers) -> Indices:
    """Of choices of a problem that use the same, the one that gains most."""
    # Equal uses have equal sums. If others have it too, some are kept that need not be.
    weights = np.arange(1.0, used.shape[1] + 1) ** 2 * 7919.0 % 1_000_003.0
    order = np.lexsort((-gain, used @ weights, problem))
    first = np.ones(len(order), dtype=np.bool_)
    used, problem = used.take(order, axis=0), problem.take(order)
    first[1:] = ~all_of(used[:-1] == used[1:]) | (problem[:-1] != problem[1:])
    return order[first]
