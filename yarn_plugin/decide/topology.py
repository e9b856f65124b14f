"""The cells of a cluster: racks and nodes from the ResourceManager, refined by the configured description.

Cell ids. Above nodes: the name. Nodes: the host, or YARN's id (`host:port`) if several nodes share a host; so a node
that returns under another port is the same cell. In a node: `host/socket-0/gpu-1`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import Resources, total_of
from yarn_plugin.model.topology import (
    NODE,
    RACK,
    Cell,
    CellDescription,
    NodeDescription,
    Topology,
    TopologyDescription,
)

_UNDESCRIBED = NodeDescription(())


_Input = tuple[Mapping[str, Node], Mapping[str, Node], TopologyDescription, Mapping[str, str]]
_last: tuple[_Input, Topology] = (({}, {}, TopologyDescription(), {}), Topology())
"""Cache of the last topology and its inputs: views are made at every step, and nodes rarely change. The mappings are
never changed in place, so the same mappings give the same topology."""


_NO_PARTITIONS: Mapping[str, str] = {}


def topology(
    nodes: Mapping[str, Node],
    broken: Mapping[str, Node],
    described: TopologyDescription,
    partitions: Mapping[str, str] = _NO_PARTITIONS,
) -> Topology:
    """The cells of a cluster, in an order independent of that of the nodes.

    A node in both `nodes` and `broken` is broken. So is a node that is described by its full name but not listed by
    YARN. Where description and YARN disagree, a node has the capacity that YARN reports and its parts have theirs as
    described; whoever allocates parts must check both. If a cell above nodes has two parents, the first one counts.
    `partitions`: the label of each node that has one.

    The result is cached for the same mappings, which must not be changed in place.
    """
    global _last
    wanted, (last, built) = (nodes, broken, described, partitions), _last
    if not all(one is another for one, another in zip(wanted, last, strict=True)):
        built = _built(nodes, broken, described, partitions)
        _last = wanted, built
    return built


def _built(
    nodes: Mapping[str, Node],
    broken: Mapping[str, Node],
    described: TopologyDescription,
    partitions: Mapping[str, str],
) -> Topology:
    seen = [(cell, node, node.id in broken) for cell, node in _by_cell(nodes, broken)]
    missing = [(host, Node(host, "", Resources()), True) for host in _missing(described, {**nodes, **broken}.values())]
    inside: dict[str, Cell] = {}
    found: dict[str, tuple[NodeDescription, str]] = {}
    for name, node, is_broken in sorted(seen + missing, key=lambda one: one[0]):
        found[name] = _described(described, node.host), node.rack
        inside |= {cell.id: cell for cell in _node_cells(described, found[name][0], name, node, is_broken)}
        inside[name] = replace(inside[name], partition=partitions.get(node.id, ""))
    above: dict[str, Cell] = {}
    for name, (one, rack) in found.items():
        inside[name] = replace(inside[name], parent=_place(described.levels, one, rack, above, inside))
    largest_first = sorted(above.values(), key=lambda cell: (described.levels.index(cell.level), cell.id))
    return Topology(described.levels, _added_up({cell.id: cell for cell in largest_first} | inside))


def with_cells(before: State, state: State) -> State:
    """The state with its cells updated, if the nodes or their description changed."""
    old, new = before.cluster, state.cluster
    same = new.nodes is old.nodes and new.broken is old.broken and new.partitions is old.partitions
    if same and state.topology == before.topology and state.cells is not None:
        return state
    return replace(state, cells=topology(new.nodes, new.broken, state.topology, new.partitions))


def cell_of_node(known: Topology, node: str) -> str | None:
    """The cell of a YARN node, given its id (`host:port`), or None."""
    if node in known.cells:
        return node
    host = _host(node)
    return host if host in known.cells else None


def is_pattern(name: str) -> bool:
    """Whether a host name is a shell pattern."""
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
    """The parent of a node. It and its ancestors are added to `above`."""
    within = dict(found.within)
    if rack:
        within.setdefault(RACK, rack)
    parent: str | None = None
    for level in levels[: levels.index(NODE)]:
        name = within.get(level)
        if name is None:
            continue
        while name in inside or (name in above and above[name].level != level):
            # A rack in YARN may have the name of another cell.
            name = f"{level}:{name}"
        above.setdefault(name, Cell(name, level, parent, Resources()))
        parent = name
    return parent


def _node_cells(
    described: TopologyDescription, kind: NodeDescription, name: str, node: Node, is_broken: bool
) -> list[Cell]:
    """A node and the cells in it. Without a capacity from YARN, it has the sum of its parts."""
    capacity = node.capacity or total_of(_capacity(part) for part in kind.cells)
    below = described.levels[described.levels.index(NODE) + 1 :]
    cell = Cell(name, NODE, None, capacity, is_broken, kind.gpu_model, node.host)
    return [cell, *_inside(kind.cells, name, below)]


def _inside(cells: tuple[CellDescription, ...], parent: str, levels: tuple[str, ...]) -> Iterator[Cell]:
    for cell in cells if levels else ():
        name = f"{parent}/{cell.name}"
        yield Cell(name, levels[0], parent, _capacity(cell))
        yield from _inside(cell.cells, name, levels[1:])


def _capacity(cell: CellDescription) -> Resources:
    return total_of(map(_capacity, cell.cells)) if cell.capacity is None else cell.capacity


def _added_up(cells: dict[str, Cell]) -> dict[str, Cell]:
    """The cells; those above nodes get the total capacity of their nodes, including broken ones."""
    held: dict[str, dict[str, int]] = {}
    for node in [cell for cell in cells.values() if cell.level == NODE]:
        above = node.parent
        while above is not None:
            amounts = held.setdefault(above, {})
            for resource, amount in node.capacity:
                amounts[resource] = amounts.get(resource, 0) + amount
            above = cells[above].parent
    return cells | {name: replace(cells[name], capacity=Resources.of(amounts)) for name, amounts in held.items()}
