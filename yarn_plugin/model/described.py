"""What an administrator says of a cluster that YARN does not: what nodes lie in, and what lies in them."""

from dataclasses import dataclass

from yarn_plugin.model.resources import Resources


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
