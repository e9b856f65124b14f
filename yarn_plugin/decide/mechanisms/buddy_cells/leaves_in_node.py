"""Which leaves of a node a pod gets: those that are closest together."""

from collections.abc import Sequence
from typing import TypeVar

from yarn_plugin.decide.mechanisms.buddy_cells.cells import FREE, PhysicalCell, VirtualCell

CellT = TypeVar("CellT", PhysicalCell, VirtualCell)


def available_leaves(node: CellT, priority: int) -> list[CellT]:
    """The leaves that work of a priority may have: free ones, then those held at a lower priority, in tree order."""
    free = [leaf for leaf in node.leaves if leaf.priority == FREE]
    if len(free) == len(node.leaves):
        return free
    return free + [leaf for leaf in node.leaves if FREE < leaf.priority < priority]


def closest(available: Sequence[CellT], size: int) -> list[CellT]:
    """The leaves with the lowest common ancestor; of equally close ones, those that start first.

    At each level upwards, the first cell with enough of the available leaves is the answer.
    """
    if size == 1 or len(available) == size:
        return list(available[:size])
    above = list(available)
    while True:
        by_ancestor: dict[CellT, list[CellT]] = {}
        for index, leaf in enumerate(available):
            ancestor = above[index].parent
            assert ancestor is not None
            above[index] = ancestor
            inside = by_ancestor.setdefault(ancestor, [])
            inside.append(leaf)
        for inside in by_ancestor.values():
            if len(inside) >= size:
                return inside[:size]
