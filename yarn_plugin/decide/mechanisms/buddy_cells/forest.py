"""The forests of physical and virtual cells that a specification describes, and the indexes into them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    Chain,
    ClusterSpec,
    PhysicalSpec,
    VirtualClusterSpec,
    chains_of,
)
from yarn_plugin.spelling import must_be_one_of

MAX_LEAVES = 1_000_000
"""Of all cells together: they are all in memory."""


@dataclass(slots=True)
class PhysicalForest:
    """All physical cells. `levels[chain][level - 1]`: cells in configuration order."""

    chains: dict[str, Chain]
    levels: dict[str, list[list[PhysicalCell]]]
    pinned: dict[str, PhysicalCell] = field(default_factory=dict)
    nodes: dict[str, list[PhysicalCell]] = field(default_factory=dict)
    """The cells of each node by host name; a node may be in several chains."""
    leaf: dict[tuple[str, str, str], PhysicalCell] = field(default_factory=dict)
    """Leaves by chain, host name and address."""

    def tops(self, chain: str) -> list[PhysicalCell]:
        """The top-level cells of a chain."""
        return self.levels[chain][-1]


@dataclass(slots=True)
class VirtualCells:
    """The cells of a virtual cluster in one chain, or of one pinned cell."""

    cluster: str
    chain: Chain
    roots: list[VirtualCell] = field(default_factory=list)
    levels: list[list[VirtualCell]] = field(default_factory=list)
    _roots_at: dict[int, list[VirtualCell]] = field(default_factory=dict)

    def add(self, roots: Iterable[VirtualCell]) -> None:
        """Add cells of the quota."""
        for root in roots:
            self.roots.append(root)
            self._roots_at.setdefault(root.level, []).append(root)

    def roots_at(self, level: int) -> Sequence[VirtualCell]:
        """The cells of the quota at a level."""
        return self._roots_at.get(level, ())


def grow_physical(spec: ClusterSpec) -> PhysicalForest:
    """The physical cells, with missing children and addresses filled in.

    A missing address is the cell's position: among the top-level cells, and in a node that of a leaf is its position
    in the node (0, 1, ...).

    Raises:
        CellFileError: a type, a number of children, an address or a pinned id is invalid.
    """
    chains = chains_of(spec.types, (cell.type for cell in spec.cells))
    leaves = sum(chains[cell.type].sizes[-1] for cell in spec.cells)
    if leaves > MAX_LEAVES:
        raise CellFileError("cells: number of leaves", leaves, f"must be at most {MAX_LEAVES:,}")
    levels: dict[str, list[list[PhysicalCell]]] = {name: [[] for _ in chain.types] for name, chain in chains.items()}
    forest = PhysicalForest(chains, levels)
    for position, cell in enumerate(spec.cells):
        _grow(forest, chains[cell.type], cell, None, position, f"cells #{position + 1}")
    return forest


def _grow(
    forest: PhysicalForest, chain: Chain, spec: PhysicalSpec, parent: PhysicalCell | None, position: int, where: str
) -> PhysicalCell:
    level = chain.top if parent is None else parent.level - 1
    kind = chain.types[level - 1]
    if spec.type not in ("", kind):
        raise CellFileError(f"{where}: type", spec.type, f"must be {kind}, the child of {chain.types[level]}")
    siblings = forest.levels[chain.name][level - 1]
    cell = PhysicalCell(chain, level, parent, spec.address or str(position), len(siblings))
    siblings.append(cell)
    cell.node = cell if level == chain.node_level else parent.node if parent is not None else None
    _pin(forest, cell, spec.pinned, where)
    if level == 1:
        cell.leaves = (cell,)
    else:
        fan_out = chain.fan_out(level)
        if spec.children and len(spec.children) != fan_out:
            raise CellFileError(
                f"{where}: number of children", len(spec.children), f"must be {fan_out}, as of each {kind}"
            )
        first = 0 if level == chain.node_level else position * fan_out
        children = spec.children or (PhysicalSpec(""),) * fan_out
        cell.children = tuple(
            _grow(forest, chain, child, cell, first + rank, f"{where}.{rank + 1}")
            for rank, child in enumerate(children)
        )
        for rank, child in enumerate(cell.children):
            child.rank = rank
        if len({child.address for child in cell.children}) < fan_out:
            raise CellFileError(
                f"{where}: addresses", " ".join(child.address for child in cell.children), "must differ"
            )
        if level <= chain.node_level:
            cell.leaves = tuple(leaf for child in cell.children for leaf in child.leaves)
    if level == chain.node_level:
        _register_node(forest, cell, where)
    return cell


def _pin(forest: PhysicalForest, cell: PhysicalCell, pinned: str, where: str) -> None:
    if not pinned:
        return
    above = cell.parent
    while above is not None:
        if above.pinned:
            raise CellFileError(f"{where}: pinned", pinned, f"the cell lies in the pinned cell {above.pinned}")
        above = above.parent
    if pinned in forest.pinned:
        raise CellFileError(f"{where}: pinned", pinned, "another cell has this id; ids must differ")
    cell.pinned = pinned
    forest.pinned[pinned] = cell


def _register_node(forest: PhysicalForest, node: PhysicalCell, where: str) -> None:
    cells = forest.nodes.setdefault(node.address, [])
    if any(cell.chain is node.chain for cell in cells):
        raise CellFileError(f"{where}: address", node.address, f"chain {node.chain.name} has this node already")
    cells.append(node)
    for leaf in node.leaves:
        forest.leaf[node.chain.name, node.address, leaf.address] = leaf
    if len({leaf.address for leaf in node.leaves}) < len(node.leaves):
        raise CellFileError(f"{where}: addresses of leaves", node.address, "must differ within a node")


def quota_numbers(name: str, spec: VirtualClusterSpec, forest: PhysicalForest) -> dict[str, list[int]]:
    """How many cells a virtual cluster is assured of, by chain and level (from 1), pinned ones aside.

    Raises:
        CellFileError: a chain, type or number is invalid.
    """
    numbers = {chain.name: [0] * chain.top for chain in forest.chains.values()}
    for quota in spec.quotas:
        where = f"virtual_clusters.{name}.cells"
        if quota.chain not in forest.chains:
            raise CellFileError(f"{where}: chain", quota.chain, must_be_one_of(forest.chains, quota.chain))
        chain = forest.chains[quota.chain]
        level = chain.level_of(quota.type)
        if level is None:
            types = ", ".join(reversed(chain.types))
            raise CellFileError(f"{where}: type", quota.type, f"chain {chain.name} has the types {types}")
        if quota.number < 0:
            raise CellFileError(f"{where}: number", quota.number, "must be at least 0")
        numbers[chain.name][level - 1] += quota.number
    return numbers


def grow_virtual(
    name: str, spec: VirtualClusterSpec, forest: PhysicalForest
) -> tuple[dict[str, VirtualCells], dict[str, VirtualCells]]:
    """The cells of a virtual cluster, whose specification is valid: those of its quotas by chain, and those of its
    pinned cells by id."""
    by_chain: dict[str, VirtualCells] = {}
    for quota in spec.quotas:
        chain = forest.chains[quota.chain]
        level = chain.types.index(quota.type) + 1
        if quota.number:
            cells = by_chain.setdefault(chain.name, _no_cells(name, chain))
            cells.add(_grow_virtual(cells, level, None) for _ in range(quota.number))
    by_pin: dict[str, VirtualCells] = {}
    for pinned in spec.pinned:
        physical = forest.pinned[pinned]
        cells = by_pin[pinned] = _no_cells(name, physical.chain)
        cells.add([_grow_virtual(cells, physical.level, None)])
        cells.roots[0].pinned = pinned
    return by_chain, by_pin


def _no_cells(cluster: str, chain: Chain) -> VirtualCells:
    return VirtualCells(cluster, chain, levels=[[] for _ in chain.types])


def _grow_virtual(cells: VirtualCells, level: int, parent: VirtualCell | None) -> VirtualCell:
    chain, siblings = cells.chain, cells.levels[level - 1]
    cell = VirtualCell(chain, level, parent, cells.cluster, len(siblings))
    siblings.append(cell)
    if level == 1:
        cell.leaves = (cell,)
        return cell
    cell.children = tuple(_grow_virtual(cells, level - 1, cell) for _ in range(chain.fan_out(level)))
    if level <= chain.node_level:
        cell.leaves = tuple(leaf for child in cell.children for leaf in child.leaves)
    return cell


def nodes_of(cells: VirtualCells) -> Iterator[VirtualCell]:
    """What pods are placed on: the nodes, then cells of the quota that are smaller than a node, largest first.

    Each smaller cell counts as a node of its own, since different ones may be bound to different nodes.
    """
    node_level = cells.chain.node_level
    yield from cells.levels[node_level - 1]
    for level in range(node_level - 1, 0, -1):
        yield from cells.roots_at(level)


def check_pins(clusters: dict[str, VirtualClusterSpec], pinned: Sequence[str]) -> None:
    """Check that each pinned cell belongs to exactly one virtual cluster.

    Raises:
        CellFileError: one belongs to none, or to two, or does not exist.
    """
    owners: dict[str, list[str]] = {pin: [] for pin in pinned}
    for name, spec in clusters.items():
        for pin in spec.pinned:
            if pin not in owners:
                known = ", ".join(pinned) or "none"
                raise CellFileError(
                    f"virtual_clusters.{name}.pinned", pin, f"no cell has this id; pinned cells: {known}"
                )
            owners[pin].append(name)
    for pin, names in owners.items():
        if len(names) != 1:
            held = f"in {' and '.join(names)}" if names else "in no virtual cluster"
            raise CellFileError("pinned", pin, f"is {held}; must be in exactly one")
