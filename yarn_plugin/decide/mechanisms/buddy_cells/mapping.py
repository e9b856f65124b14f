"""From cells of a virtual cluster to physical cells: dynamic binding (HiveD, OSDI '20, section 3.2).

A cell of the quota that is not bound yet gets a free physical cell: from the lowest level with one, and of that level
the one in which the least opportunistic work runs. Where bad or excluded nodes are in the way, a free cell of a higher
level is split instead, as long as the quotas of all virtual clusters stay feasible (Theorem 1). Below, unbound virtual
cells get the unbound children with the least opportunistic work.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as concatenate

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.free_cells import FreeCells
from yarn_plugin.decide.mechanisms.buddy_cells.openings import MANY, Openings
from yarn_plugin.decide.mechanisms.buddy_cells.quotas import Quotas, shortage

VirtualPods = Sequence[Sequence[VirtualCell]]


def map_to_physical(
    pods: VirtualPods, free: FreeCells, quotas: Quotas, excluded: frozenset[str]
) -> tuple[tuple[PhysicalCell, ...], ...] | None:
    """The physical leaves for the virtual leaves of each pod; None if bad or excluded nodes leave none.

    Cells of the quota that become bound are taken from the free lists: roll back unless the placement is made.
    """
    mapping = _Mapping(free, quotas, excluded)
    mapping.trace(pods)
    if not mapping.solve():
        return None
    serves = mapping.serves
    return tuple(tuple(serves[leaf] for leaf in pod) for pod in pods)


class _Mapping:
    """The virtual cells that need a physical one, and what was found for their leaves."""

    def __init__(self, free: FreeCells, quotas: Quotas, excluded: frozenset[str]) -> None:
        self._free, self._quotas, self._excluded = free, quotas, excluded
        self._node_level = quotas.chain.node_level
        self.serves: dict[VirtualCell, PhysicalCell] = {}
        self._roots: list[VirtualCell] = []
        """Cells of the quota to bind."""
        self._below_bound: dict[VirtualCell, list[VirtualCell]] = {}
        """Cells to bind in cells that are bound already."""
        self._parts: dict[VirtualCell, list[VirtualCell]] = {}
        """The children to bind of a cell to bind; none listed means all of it."""

    def trace(self, pods: VirtualPods) -> None:
        """Find the cells to bind, from the leaves upwards."""
        for pod in pods:
            node = pod[0].parent
            while node is not None and len(node.leaves) < len(pod):
                node = node.parent
            takes_all = node is not None and node.bound is None and node.leaves == tuple(pod)
            for cell in (node,) if takes_all else pod:
                assert cell is not None
                if cell.bound is not None:
                    self.serves[cell] = cell.bound
                else:
                    self._trace_up(cell)

    def _trace_up(self, cell: VirtualCell) -> None:
        while True:
            parent = cell.parent
            if parent is None:
                self._roots.append(cell)
                return
            group = self._parts if parent.bound is None else self._below_bound
            if parent in group:
                group[parent].append(cell)
                return
            group[parent] = [cell]
            if parent.bound is not None:
                return
            cell = parent

    def solve(self) -> bool:
        """Find physical cells for all of them."""
        return all(self._take(root) for root in self._roots) and all(
            self._match(cells, self._usable_children(parent.bound))
            for parent, cells in self._below_bound.items()
            if parent.bound is not None
        )

    def _take(self, root: VirtualCell) -> bool:
        """Take a free cell for a cell of the quota."""
        for level in range(root.level, self._quotas.chain.top + 1):
            cells = self._free.at(level)
            if not cells or not self._keeps_quotas(root.level, level):
                continue
            for candidate in cells.by_low():
                picked = self._descend(root, candidate)
                if picked is not None:
                    self._free.take(picked)
                    self._quotas.change(root.cluster, root.level, -1)
                    return True
        return False

    def _keeps_quotas(self, level: int, split_level: int) -> bool:
        """Whether all quotas stay feasible if one cell is split down to a level and a cell there is taken."""
        free = [len(cells) for cells in self._free.levels]
        left = list(self._quotas.left)
        left[level - 1] -= 1
        free[split_level - 1] -= 1
        for below in range(level, split_level):
            free[below - 1] += self._quotas.chain.fan_out(below + 1) - 1
        return shortage(self._quotas.chain, left, free) is None

    def _descend(self, root: VirtualCell, candidate: PhysicalCell) -> PhysicalCell | None:
        """A cell of the root's level in a free cell."""
        if not self._is_usable(candidate):
            return None
        if candidate.level == root.level:
            return candidate if self._fits(root, candidate) else None
        for child in self._usable_children(candidate):
            if (picked := self._descend(root, child)) is not None:
                return picked
        return None

    def _fits(self, cell: VirtualCell, candidate: PhysicalCell) -> bool:
        """Whether a physical cell can serve a virtual one; if so, `serves` has its leaves."""
        if cell.level == 1:
            self.serves[cell] = candidate
            return True
        parts = self._parts.get(cell)
        if parts is None and not candidate.low:
            self.serves.update(zip(cell.leaves, candidate.leaves, strict=True))
            return True
        return self._match(parts or cell.children, self._usable_children(candidate))

    def _match(self, cells: Sequence[VirtualCell], candidates: Iterable[PhysicalCell]) -> bool:
        """Give each cell the first candidate that can serve it and that no earlier cell has."""
        remaining = iter(candidates)
        passed: list[PhysicalCell] = []
        given: list[PhysicalCell] = []
        for cell in cells:
            for candidate in concatenate(tuple(passed), remaining):
                if self._fits(cell, candidate):
                    if candidate in passed:
                        passed.remove(candidate)
                    given.append(candidate)
                    break
                if candidate not in passed:
                    passed.append(candidate)
            else:
                # Below a node all unbound cells are alike: others would not help.
                return cell.level > self._node_level and self._rematch(cells, [*given, *passed])
        return True

    def _rematch(self, cells: Sequence[VirtualCell], candidates: Sequence[PhysicalCell]) -> bool:
        """Find a perfect matching if there is one, by augmenting paths."""
        server: dict[PhysicalCell, VirtualCell] = {}

        def augment(cell: VirtualCell, seen: set[PhysicalCell]) -> bool:
            for candidate in candidates:
                if candidate not in seen and self._fits(cell, candidate):
                    seen.add(candidate)
                    if candidate not in server or augment(server[candidate], seen):
                        server[candidate] = cell
                        return True
            return False

        return all(augment(cell, set()) for cell in cells) and all(
            self._fits(cell, candidate) for candidate, cell in server.items()
        )

    def _usable_children(self, cell: PhysicalCell) -> Iterator[PhysicalCell]:
        """The children that can be bound, those with the least opportunistic work first."""
        if cell.bound is not None and len(cell.children) >= MANY:
            if cell.openings is None:
                cell.openings = Openings(cell)
            return filter(self._is_usable, cell.openings.by_low())
        children = filter(self._is_usable, cell.children)
        return iter(sorted(children, key=lambda child: child.low)) if cell.low else children

    def _is_usable(self, cell: PhysicalCell) -> bool:
        if cell.bound is not None:
            return False
        node = cell.node
        return node is None or not (node.bad or node.address in self._excluded)
