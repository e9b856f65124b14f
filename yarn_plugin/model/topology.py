"""Where in a cluster something lies: cells within cells, from racks down to single GPUs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from yarn_plugin.model.resources import Resources, total_of


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a cluster: a rack, a node, a socket, a GPU, or whatever a level is called.

    `id` is unique over all levels; `parent` None at the top. `capacity`: what it holds with all in it. `broken`: it is
    there, and takes nothing now.
    """

    id: str
    level: str
    parent: str | None
    capacity: Resources
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """Cells of any depth, by id, each after the cell that it lies in; `levels` from the largest to the smallest."""

    levels: tuple[str, ...] = ()
    cells: Mapping[str, Cell] = field(default_factory=dict)

    def inside(self, parent: str | None) -> Iterator[Cell]:
        """The cells directly in a cell; None: those at the top."""
        return (cell for cell in self.cells.values() if cell.parent == parent)

    def at(self, level: str) -> Iterator[Cell]:
        """The cells of a level."""
        return (cell for cell in self.cells.values() if cell.level == level)

    def ancestors(self, cell: str) -> Iterator[Cell]:
        """The cells that a cell lies in, the smallest first."""
        parent = self.cells[cell].parent
        while parent is not None:
            yield self.cells[parent]
            parent = self.cells[parent].parent

    def is_broken(self, cell: str) -> bool:
        """Whether a cell, or one that it lies in, takes nothing now."""
        return self.cells[cell].broken or any(above.broken for above in self.ancestors(cell))

    def capacity(self) -> Resources:
        """What the cells at the top hold together, less what is broken in them."""
        whole = total_of(cell.capacity for cell in self.inside(None))
        broken = (cell for cell in self.cells.values() if cell.broken)
        return whole - total_of(
            cell.capacity for cell in broken if not any(above.broken for above in self.ancestors(cell.id))
        )


@dataclass(frozen=True, slots=True)
class CellDescription:
    """A part of a node, and its parts. `name` is unique in what it lies in.

    `capacity`: None where it is what its parts hold together.
    """

    name: str
    capacity: Resources | None = None
    cells: tuple["CellDescription", ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """Nodes that are alike. `hosts`: their names, or shell patterns of them (`gpu-*`, `dgx-[0-9]`).

    `within`: (level, cell) for levels above a node; where it names no rack, YARN's counts. `cells`: the parts of
    each.
    """

    hosts: tuple[str, ...]
    within: tuple[tuple[str, str], ...] = ()
    cells: tuple[CellDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """`levels`, the largest first, `node` among them. The first of `nodes` that fits a host describes it."""

    levels: tuple[str, ...] = ("rack", "node")
    nodes: tuple[NodeDescription, ...] = ()
