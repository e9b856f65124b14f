"""A virtual cluster as the pool of an allocator of its own: its cells, by names that say nothing of where they are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from yarn_plugin.decide.allocators.cells import Cells, cells_of
from yarn_plugin.decide.mechanisms.buddy_cells.cells import VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.health import bad_virtual_nodes
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.topology import NODE, Cell, Topology


@dataclass(frozen=True, slots=True)
class VirtualPool:
    """`cells`: of the virtual cluster's quota, pinned cells apart. `leaves`: the virtual leaf that each GPU is."""

    cells: Cells
    leaves: Mapping[str, VirtualCell]

    def names(self) -> dict[VirtualCell, str]:
        """The GPU that each virtual leaf is."""
        return {leaf: gpu for gpu, leaf in self.leaves.items()}


def virtual_pool(cluster: Cluster, name: str, broken: frozenset[str] = frozenset()) -> VirtualPool:
    """The pool of a virtual cluster. `broken`: its nodes that are (see `broken_nodes`).

    Cells of the quota that are smaller than a node are nodes of their own, since they may be bound to different ones.
    """
    cells: list[Cell] = []
    leaves: dict[str, VirtualCell] = {}
    levels: dict[str, None] = {}
    below: dict[str, None] = {}
    for partition in cluster.virtual[name].chains.values():
        chain = partition.cells.chain
        levels |= dict.fromkeys(reversed(chain.types[chain.node_level :]))
        below |= dict.fromkeys(reversed(chain.types[: chain.node_level - 1]))
        for root in partition.cells.roots:
            for cell in _down(root):
                shown = _shown(cell, broken)
                cells.append(shown)
                if cell.level == 1:
                    # A GPU that is a node of its own has one GPU.
                    leaves[f"{shown.id}/0" if shown.level == NODE else shown.id] = cell
    topology = Topology((*levels, NODE, *below), {cell.id: cell for cell in cells})
    return VirtualPool(cells_of(topology, lambda node: node.capacity[GPU]), leaves)


def broken_nodes(cluster: Cluster, name: str) -> frozenset[str]:
    """The nodes of a virtual cluster on which nothing new should be placed, by their names."""
    partitions = cluster.virtual[name].chains.values() if cluster.bad else ()
    return frozenset(_id(node) for partition in partitions for node in bad_virtual_nodes(cluster, partition))


def _shown(cell: VirtualCell, broken: frozenset[str]) -> Cell:
    is_node, id = _is_node(cell), _id(cell)
    return Cell(
        id,
        NODE if is_node else cell.type,
        None if cell.parent is None else _id(cell.parent),
        Resources.of({GPU: cell.size}),
        id in broken,
        cell.chain.leaf_type if is_node else "",
        id if is_node else "",
    )


def _is_node(cell: VirtualCell) -> bool:
    return cell.level == cell.chain.node_level or (cell.parent is None and cell.level < cell.chain.node_level)


def _id(cell: VirtualCell) -> str:
    # Pools list their nodes in order of their names, which is to be that of the numbers.
    return f"{cell.chain.name}/{cell.type}-{cell.number:05}"


def _down(cell: VirtualCell) -> Iterator[VirtualCell]:
    yield cell
    for child in cell.children:
        yield from _down(child)
