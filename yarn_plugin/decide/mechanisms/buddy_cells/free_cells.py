"""Buddy cell allocation in one chain (HiveD, OSDI '20, section 3.2, Algorithm 1).

Free cells are listed by level. To take a cell that is not free itself, the free cell that contains it is split, down to
it; when all children of a split cell are free again, they merge. The order of a list is part of the state, since it
breaks ties: a split appends the children, and the last cell of a list fills the place of one that leaves it.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.undo import UndoLog


class FreeList:
    """The free cells of one level, which can be iterated by the opportunistic leaves in them."""

    __slots__ = ("_slots", "cells")

    def __init__(self) -> None:
        self.cells: list[PhysicalCell] = []
        self._slots: dict[int, list[int]] = {}
        """For each number of opportunistic leaves, the positions in `cells`, ascending."""

    def __len__(self) -> int:
        return len(self.cells)

    def append(self, cell: PhysicalCell) -> None:
        """Add a cell at the end."""
        cell.slot = len(self.cells)
        self.cells.append(cell)
        self._index(cell)

    def pop(self) -> None:
        """Remove the last cell: the inverse of `append`."""
        cell = self.cells[-1]
        self._unindex(cell, cell.low)
        self.cells.pop()
        cell.slot = -1

    def remove(self, cell: PhysicalCell) -> int:
        """Remove a cell, and let the last one fill its place. Returns the place."""
        slot, last = cell.slot, self.cells[-1]
        self._unindex(cell, cell.low)
        if last is not cell:
            self._unindex(last, last.low)
            self.cells[slot] = last
            last.slot = slot
            self._index(last)
        self.cells.pop()
        cell.slot = -1
        return slot

    def restore(self, cell: PhysicalCell, slot: int) -> None:
        """Put a cell back into its place: the inverse of `remove`."""
        if slot == len(self.cells):
            self.append(cell)
            return
        moved = self.cells[slot]
        self._unindex(moved, moved.low)
        self.append(moved)
        self.cells[slot] = cell
        cell.slot = slot
        self._index(cell)

    def reindex(self, cell: PhysicalCell, low_before: int) -> None:
        """Note that the number of opportunistic leaves in a cell has changed."""
        self._unindex(cell, low_before)
        self._index(cell)

    def by_low(self) -> Iterator[PhysicalCell]:
        """The cells with the fewest opportunistic leaves first; of equals, in the order of the list."""
        for low in sorted(self._slots):
            for slot in self._slots[low]:
                yield self.cells[slot]

    def _index(self, cell: PhysicalCell) -> None:
        slots = self._slots.setdefault(cell.low, [])
        if not slots or slots[-1] < cell.slot:
            slots.append(cell.slot)
        else:
            insort(slots, cell.slot)

    def _unindex(self, cell: PhysicalCell, low: int) -> None:
        slots = self._slots[low]
        if slots[-1] == cell.slot:
            slots.pop()
        else:
            del slots[bisect_left(slots, cell.slot)]
        if not slots:
            del self._slots[low]


class FreeCells:
    """The free cells of a chain at every level."""

    __slots__ = ("_undo", "levels")

    def __init__(self, tops: Sequence[PhysicalCell], height: int, undo: UndoLog) -> None:
        self.levels = [FreeList() for _ in range(height)]
        self._undo = undo
        for cell in tops:
            self.levels[-1].append(cell)

    def at(self, level: int) -> FreeList:
        """The free list of a level."""
        return self.levels[level - 1]

    def take(self, cell: PhysicalCell) -> None:
        """Take a cell, splitting the free cell that contains it."""
        while True:
            parent = cell.parent
            reaches_free = parent is None or parent.split
            if not reaches_free:
                for child in parent.children:  # type: ignore[union-attr]
                    self._append(child)
                self._undo.set(parent, "split", True)
            self._remove(cell)
            if reaches_free:
                return
            cell = parent  # type: ignore[assignment]

    def give(self, cell: PhysicalCell) -> None:
        """Return a cell, merging it with its buddies as far as they are free."""
        while (parent := cell.parent) is not None and all(
            child is cell or child.slot >= 0 for child in parent.children
        ):
            for child in parent.children:
                if child is not cell:
                    self._remove(child)
            self._undo.set(parent, "split", False)
            cell = parent
        self._append(cell)

    def restore(self, levels: Sequence[Sequence[PhysicalCell]]) -> None:
        """Set all free lists; cannot be undone. Whatever is not in them is bound or split."""
        for cells in self.levels:
            while cells:
                cells.pop()
        for cells, free in zip(self.levels, levels, strict=True):
            for cell in free:
                cells.append(cell)
                above = cell.parent
                while above is not None:
                    above.split = True
                    above = above.parent

    def containing(self, cell: PhysicalCell) -> PhysicalCell | None:
        """The free cell that a cell is or lies in."""
        above: PhysicalCell | None = cell
        while above is not None and above.slot < 0:
            above = above.parent
        return above

    def _append(self, cell: PhysicalCell) -> None:
        cells = self.levels[cell.level - 1]
        cells.append(cell)
        self._undo.record(cells.pop)

    def _remove(self, cell: PhysicalCell) -> None:
        cells = self.levels[cell.level - 1]
        self._undo.record(cells.restore, cell, cells.remove(cell))
