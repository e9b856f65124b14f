"""What a cluster consists of: types of cells, physical cells, and what each virtual cluster is assured of.

HiveD (OSDI '20), section 3.1: a cell type consists of a number of cells of another type, down to leaves such as GPUs.
A chain is the hierarchy below one top-level type; physical cells of one top-level type form one chain.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError

MAX_LEVELS = 32


@dataclass(frozen=True, slots=True)
class CellType:
    """Cells that consist of `number` cells of type `child`. `is_node`: a machine, so that containers lie within one."""

    child: str
    number: int
    is_node: bool = False


@dataclass(frozen=True, slots=True)
class PhysicalSpec:
    """A physical cell as configured. `address`: unique among its siblings; that of a node is its host name.

    Missing children and addresses are filled in (`Cluster`).
    """

    type: str
    address: str = ""
    pinned: str = ""
    children: tuple["PhysicalSpec", ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """`number` cells of type `type` in the chain of the top-level type `chain`."""

    chain: str
    type: str
    number: int


@dataclass(frozen=True, slots=True)
class VirtualClusterSpec:
    """What a virtual cluster is assured of: cells of any place, and pinned cells (by id) that are its alone."""

    quotas: tuple[Quota, ...] = ()
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A whole configuration. `chain_order`: for each leaf type, its chains in the order in which they are tried."""

    types: Mapping[str, CellType]
    cells: tuple[PhysicalSpec, ...]
    clusters: Mapping[str, VirtualClusterSpec]
    chain_order: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Chain:
    """The types of a chain from its leaf (level 1, index 0) to its top."""

    name: str
    types: tuple[str, ...]
    node_level: int
    sizes: tuple[int, ...]
    """Leaves of a cell at each level."""

    @property
    def top(self) -> int:
        """The highest level."""
        return len(self.types)

    @property
    def leaf_type(self) -> str:
        """The type of its leaves."""
        return self.types[0]

    def fan_out(self, level: int) -> int:
        """How many cells of the level below a cell consists of."""
        return self.sizes[level - 1] // self.sizes[level - 2]

    def level_of(self, type_name: str) -> int | None:
        """The level of a type; None if the chain has none."""
        return self.types.index(type_name) + 1 if type_name in self.types else None


def chains_of(types: Mapping[str, CellType], tops: Iterable[str]) -> dict[str, Chain]:
    """The chains of top-level cells of these types, in this order.

    Raises:
        CellFileError: a type contains itself, is no node's, or has nodes within nodes.
    """
    return {name: _chain(name, types) for name in dict.fromkeys(tops)}


def _chain(name: str, types: Mapping[str, CellType]) -> Chain:
    described = list(_descend(name, types))
    names = [name, *(cell_type.child for cell_type in described)]
    nodes = [level for level, cell_type in enumerate(described) if cell_type.is_node]
    if len(nodes) != 1:
        where = " -> ".join(names)
        raise CellFileError("cell_types", where, f"must have one node level (is_node), not {len(nodes)}")
    sizes = [1]
    for cell_type in reversed(described):
        sizes.append(sizes[-1] * cell_type.number)
    return Chain(name, tuple(reversed(names)), len(names) - nodes[0], tuple(sizes))


def _descend(name: str, types: Mapping[str, CellType]) -> Iterator[CellType]:
    """The types below a type, from the top."""
    seen = [name]
    while name in types:
        cell_type = types[name]
        if cell_type.child in seen:
            path = " -> ".join([*seen, cell_type.child])
            raise CellFileError("cell_types", path, "a cell must not contain itself")
        if len(seen) > MAX_LEVELS:
            raise CellFileError("cell_types", seen[0], f"must have at most {MAX_LEVELS} levels below it")
        if cell_type.number < 1:
            raise CellFileError(f"cell_types.{name}: number of children", cell_type.number, "must be at least 1")
        seen.append(cell_type.child)
        yield cell_type
        name = cell_type.child
