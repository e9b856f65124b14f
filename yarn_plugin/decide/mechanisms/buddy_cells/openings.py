"""The unbound children of a bound cell with many children, by the opportunistic work in them."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell

MANY = 32
"""From how many children on it pays to keep this."""


class Openings:
    """What can still be bound in a cell. It is made when it is needed, and dropped when bindings are rolled back."""

    __slots__ = ("_cell", "_ranks")

    def __init__(self, cell: PhysicalCell) -> None:
        self._cell = cell
        self._ranks: dict[int, list[int]] = {}
        """For each number of opportunistic leaves, the positions of the children, ascending."""
        for child in cell.children:
            if child.bound is None:
                self._ranks.setdefault(child.low, []).append(child.rank)

    def add(self, child: PhysicalCell) -> None:
        """A child has become unbound."""
        insort(self._ranks.setdefault(child.low, []), child.rank)

    def remove(self, child: PhysicalCell) -> None:
        """A child has been bound."""
        self._drop(child, child.low)

    def reindex(self, child: PhysicalCell, low_before: int) -> None:
        """The number of opportunistic leaves in a child has changed."""
        self._drop(child, low_before)
        self.add(child)

    def by_low(self) -> Iterator[PhysicalCell]:
        """The children with the fewest opportunistic leaves first; of equals, in tree order."""
        children = self._cell.children
        for low in sorted(self._ranks):
            for rank in self._ranks[low]:
                yield children[rank]

    def _drop(self, child: PhysicalCell, low: int) -> None:
        ranks = self._ranks[low]
        del ranks[bisect_left(ranks, child.rank)]
        if not ranks:
            del self._ranks[low]
