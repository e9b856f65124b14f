"""Where in a cluster something lies: cells within cells, from racks down to single GPUs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from yarn_plugin.model.resources import Resources, total_of

NODE, RACK = "node", "rack"
"""The levels that every topology has, or may have."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a cluster: a rack, a node, a socket, a GPU or a part of another level.

    `id` is unique across levels; `parent` is None at the top. `capacity` includes the cells inside. `broken`: it exists
    but cannot be used now. `gpu_model`: of a node's GPUs, if it is described. `host`, `partition` (its label): of a
    node.
    """

    id: str
    level: str
    parent: str | None
    capacity: Resources
    broken: bool = False
    gpu_model: str = ""
    host: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """Cells by id, parents before their children; `levels` from the largest to the smallest."""

    levels: tuple[str, ...] = ()
    cells: Mapping[str, Cell] = field(default_factory=dict)

    def inside(self, parent: str | None) -> Iterator[Cell]:
        """The children of a cell; of None: the cells at the top."""
        return (cell for cell in self.cells.values() if cell.parent == parent)

    def at(self, level: str) -> Iterator[Cell]:
        """The cells of one level."""
        return (cell for cell in self.cells.values() if cell.level == level)

    def ancestors(self, cell: str) -> Iterator[Cell]:
        """The cells that contain a cell, the smallest first."""
        parent = self.cells[cell].parent
        while parent is not None:
            yield self.cells[parent]
            parent = self.cells[parent].parent

    def is_broken(self, cell: str) -> bool:
        """Whether a cell, or a cell that contains it, is broken."""
        return self.cells[cell].broken or any(above.broken for above in self.ancestors(cell))

    def capacity(self) -> Resources:
        """The capacity of the cells at the top, less that of broken cells."""
        whole = total_of(cell.capacity for cell in self.inside(None))
        broken = (cell for cell in self.cells.values() if cell.broken)
        return whole - total_of(
            cell.capacity for cell in broken if not any(above.broken for above in self.ancestors(cell.id))
        )


@dataclass(frozen=True, slots=True)
class CellDescription:
    """A part of a node, with its own parts, as the configuration describes it. `name` is unique within its parent.

    `capacity`: None means the sum of its parts.
    """

    name: str
    capacity: Resources | None = None
    cells: tuple["CellDescription", ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """Nodes of one kind. `hosts`: host names or shell patterns (`gpu-*`, `dgx-[0-9]`).

    `within`: (level, cell) for the levels above a node; without a rack, YARN's rack is used. `cells`: the parts of each
    node. `gpu_model`: of their GPUs.
    """

    hosts: tuple[str, ...]
    within: tuple[tuple[str, str], ...] = ()
    cells: tuple[CellDescription, ...] = ()
    gpu_model: str = ""


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """The topology file. `levels`: the largest first, including `node`. The first entry of `nodes` that matches a host
    describes it."""

    levels: tuple[str, ...] = ("rack", "node")
    nodes: tuple[NodeDescription, ...] = ()
