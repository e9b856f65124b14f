"""The cells of a cluster: what the ResourceManager reports of racks and nodes, and what a description adds to that.

Ids of cells. Above nodes: the name itself. A node: its host; where YARN shows several nodes on one host, their ids
(`host:port`). So a node that comes back under another port is the same cell. In a node: `host/socket-0/gpu-1`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import Resources, total_of
from yarn_plugin.model.topology import Cell, CellDescription, NodeDescription, Topology, TopologyDescription

NODE = "node"
RACK = "rack"
_UNDESCRIBED = NodeDescription(())


_Input = tuple[Mapping[str, Node], Mapping[str, Node], TopologyDescription]
_last: tuple[_Input, Topology] = (({}, {}, TopologyDescription()), Topology())
"""What was built last, and of what: views are made at every step, and nodes change seldom. What is known of them is
never changed in place, so the same mappings make the same topology."""


def topology(nodes: Mapping[str, Node], broken: Mapping[str, Node], described: TopologyDescription) -> Topology:
    """The cells of a cluster, in an order that does not depend on that of the nodes.

    A node that is in `nodes` and in `broken` is broken. So is one that is described by its full name and that YARN does
    not show. What is described and does not fit what YARN reports is kept as it is described: a node of which YARN
    offers less than its parts would hold has the capacity that YARN says, and whoever hands out parts counts both. Of
    two places that a cell above nodes would lie in, the first one holds.

    The same mappings as at the last call, which must not have been changed, are not gone through again.
    """
    global _last
    wanted, (last, built) = (nodes, broken, described), _last
    if not all(one is another for one, another in zip(wanted, last, strict=True)):
        built = _built(nodes, broken, described)
        _last = wanted, built
    return built


def _built(nodes: Mapping[str, Node], broken: Mapping[str, Node], described: TopologyDescription) -> Topology:
    seen = [(cell, node, node.id in broken) for cell, node in _by_cell(nodes, broken)]
    missing = [(host, Node(host, "", Resources()), True) for host in _missing(described, {**nodes, **broken}.values())]
    inside: dict[str, Cell] = {}
    found: dict[str, tuple[NodeDescription, str]] = {}
    for name, node, is_broken in sorted(seen + missing, key=lambda one: one[0]):
        found[name] = _described(described, node.host), node.rack
        inside |= {cell.id: cell for cell in _node_cells(described, found[name][0].cells, name, node, is_broken)}
    above: dict[str, Cell] = {}
    for name, (one, rack) in found.items():
        inside[name] = replace(inside[name], parent=_place(described.levels, one, rack, above, inside))
    largest_first = sorted(above.values(), key=lambda cell: (described.levels.index(cell.level), cell.id))
    return Topology(described.levels, _added_up({cell.id: cell for cell in largest_first} | inside))


def with_cells(before: State, state: State) -> State:
    """The state with the cells of its nodes, where these or what is said of them have changed."""
    old, new = before.cluster, state.cluster
    same = new.nodes is old.nodes and new.broken is old.broken and state.topology == before.topology
    if same and state.cells is not None:
        return state
    return replace(state, cells=topology(new.nodes, new.broken, state.topology))


def cell_of_node(known: Topology, node: str) -> str | None:
    """The cell of one of YARN's nodes, by its id (`host:port`); None where there is none."""
    return next((name for name in (node, _host(node)) if name in known.cells), None)


def is_pattern(name: str) -> bool:
    """Whether a name stands for several hosts."""
    return any(letter in name for letter in "*?[")


def _host(node: str) -> str:
    return node.rsplit(":", 1)[0]


def _by_cell(nodes: Mapping[str, Node], broken: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    known = {**broken, **nodes}
    on_host = Counter(node.host for node in known.values())
    for node in known.values():
        yield node.host if on_host[node.host] == 1 else node.id, node


def _missing(described: TopologyDescription, known: Iterable[Node]) -> list[str]:
    hosts = {node.host for node in known}
    named = dict.fromkeys(host for one in described.nodes for host in one.hosts if not is_pattern(host))
    return [host for host in named if host not in hosts]


def _described(described: TopologyDescription, host: str) -> NodeDescription:
    fits = (one for one in described.nodes if any(fnmatchcase(host, pattern) for pattern in one.hosts))
    return next(fits, _UNDESCRIBED)


def _place(
    levels: tuple[str, ...], found: NodeDescription, rack: str, above: dict[str, Cell], inside: Mapping[str, Cell]
) -> str | None:
    """The cell that a node lies in directly. It and those that it lies in are added to the cells `above` nodes."""
    within = dict(found.within)
    if rack:
        within.setdefault(RACK, rack)
    parent: str | None = None
    for level in levels[: levels.index(NODE)]:
        name = within.get(level)
        if name is None:
            continue
        while name in inside or (name in above and above[name].level != level):
            # YARN may call a rack what something else is called.
            name = f"{level}:{name}"
        above.setdefault(name, Cell(name, level, parent, Resources()))
        parent = name
    return parent


def _node_cells(
    described: TopologyDescription, parts: tuple[CellDescription, ...], name: str, node: Node, is_broken: bool
) -> list[Cell]:
    """A node and all in it. Of one whose capacity YARN does not say, it is what its parts hold."""
    capacity = node.capacity or total_of(_capacity(part) for part in parts)
    below = described.levels[described.levels.index(NODE) + 1 :]
    return [Cell(name, NODE, None, capacity, is_broken), *_inside(parts, name, below)]


def _inside(cells: tuple[CellDescription, ...], parent: str, levels: tuple[str, ...]) -> Iterator[Cell]:
    for cell in cells if levels else ():
        name = f"{parent}/{cell.name}"
        yield Cell(name, levels[0], parent, _capacity(cell))
        yield from _inside(cell.cells, name, levels[1:])


def _capacity(cell: CellDescription) -> Resources:
    return total_of(map(_capacity, cell.cells)) if cell.capacity is None else cell.capacity


def _added_up(cells: dict[str, Cell]) -> dict[str, Cell]:
    """The cells, those above nodes with what the nodes in them hold, broken ones too."""
    held: dict[str, dict[str, int]] = {}
    for node in [cell for cell in cells.values() if cell.level == NODE]:
        above = node.parent
        while above is not None:
            amounts = held.setdefault(above, {})
            for resource, amount in node.capacity:
                amounts[resource] = amounts.get(resource, 0) + amount
            above = cells[above].parent
    return cells | {name: replace(cells[name], capacity=Resources.of(amounts)) for name, amounts in held.items()}
