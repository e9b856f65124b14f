"""What a virtual cluster sees of bad nodes.

Health enters neither bindings nor free lists: a bad node is skipped when cells are bound. What a virtual cluster sees
is computed when it is asked for. Of a level, as many of its unbound cells are doomed as it may still claim beyond the
healthy cells that are left there; and in a bound cell, as many unbound children as it has bad unbound ones.
"""

from collections.abc import Iterator

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import ChainState, Cluster, Partition, VirtualCluster


def bad_physical_nodes(cluster: Cluster, chain: str) -> set[PhysicalCell]:
    """The bad nodes of a chain."""
    return cluster.bad.get(chain, set())


def bad_virtual_nodes(cluster: Cluster, partition: Partition) -> set[VirtualCell]:
    """The nodes of a virtual cluster's partition on which nothing new should be placed."""
    bad = cluster.bad.get(partition.cells.chain.name)
    if not bad:
        return set()
    shown: set[VirtualCell] = set()
    for node in bad:
        for cell in (node, *_below(node)):
            if (virtual := cell.bound) is not None and virtual.place is not None:
                shown.add(virtual)
    own = partition.nodes
    shown = {cell for cell in shown if cell.place is not None and cell.place.view is own}
    shown |= {cell for cell in doomed(cluster, partition) if cell.place is not None}
    for node in bad:
        shown |= _unbound_beside(node, own)
    return shown


def doomed(cluster: Cluster, partition: Partition) -> Iterator[VirtualCell]:
    """The unbound cells of the quota for which only bad physical cells are left."""
    if any(root.pinned for root in partition.cells.roots):
        return
    state = cluster.chains[partition.cells.chain.name]
    for level in sorted({root.level for root in partition.cells.roots}):
        left = state.quotas.of[partition.cells.cluster][level - 1]
        number = left - _healthy(cluster, state, level)
        if number > 0:
            unbound = (root for root in partition.cells.roots_at(level) if root.bound is None)
            yield from (root for root, _ in zip(unbound, range(number), strict=False))


def bad_cells(cluster: Cluster, virtual: VirtualCluster) -> int:
    """How many cells of a virtual cluster's quota are bad or doomed, pinned ones included."""
    if not cluster.bad:
        return 0
    bound = sum(
        1 for part in virtual.partitions() for root in part.cells.roots if root.bound is not None and root.bound.bad
    )
    return bound + sum(1 for part in virtual.chains.values() for _ in doomed(cluster, part))


def _healthy(cluster: Cluster, state: ChainState, level: int) -> int:
    """How many cells of a level the free cells can be split into without a bad node in them."""
    sizes = state.chain.sizes
    obtainable = sum(
        len(state.free.at(above)) * (sizes[above - 1] // sizes[level - 1])
        for above in range(level, state.chain.top + 1)
    )
    bad: set[PhysicalCell] = set()
    for node in cluster.bad.get(state.chain.name, ()):
        bad.update(cell for cell in _at_level(node, level) if state.free.containing(cell) is not None)
    return obtainable - len(bad)


def _at_level(node: PhysicalCell, level: int) -> Iterator[PhysicalCell]:
    """The cells of a level that contain a node, or lie in it."""
    if level >= node.level:
        cell = node
        while cell.level < level:
            assert cell.parent is not None
            cell = cell.parent
        yield cell
    else:
        yield from (cell for cell in _below(node) if cell.level == level)


def _below(cell: PhysicalCell) -> Iterator[PhysicalCell]:
    for child in cell.children:
        yield child
        yield from _below(child)


def _unbound_beside(node: PhysicalCell, view: object) -> set[VirtualCell]:
    """For a bad unbound node in a bound cell: as many of that cell's unbound virtual nodes as bad unbound ones."""
    parent = node.parent
    if node.bound is not None or parent is None or parent.bound is None:
        return set()
    number = sum(1 for child in parent.children if child.bound is None and child.bad)
    unbound = (cell for cell in parent.bound.children if cell.bound is None)
    first = (cell for cell, _ in zip(unbound, range(number), strict=False))
    return {cell for cell in first if cell.place is not None and cell.place.view is view}
