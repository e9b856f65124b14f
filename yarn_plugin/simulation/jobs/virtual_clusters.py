"""Virtual clusters to simulate: the nodes of a configuration of cells, each one's private cluster, and configurations
made of a workload's GPU time (HiveD, OSDI '20, section 5)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.topology import NODE, RACK, Cell, Topology
from yarn_plugin.simulation.jobs.job import Job

GPUS_PER_NODE = 8


def topology_of(spec: ClusterSpec) -> Topology:
    """The nodes of a configuration, with their GPUs, all in one rack."""
    nodes = {
        host: sum(len(node.leaves) for node in nodes) for host, nodes in Cluster(spec).forest.nodes.items() if nodes
    }
    rack = Cell("/default-rack", RACK, None, Resources.of({GPU: sum(nodes.values())}))
    cells = {host: Cell(host, NODE, rack.id, Resources.of({GPU: gpus}), host=host) for host, gpus in nodes.items()}
    return Topology((RACK, NODE), {rack.id: rack, **cells})


def gpus_of(spec: ClusterSpec, name: str) -> int:
    """The GPUs that a virtual cluster is assured of."""
    return sum(number * _size(spec.types, type) for type, number in _assured(spec, name))


def node_size(spec: ClusterSpec) -> int:
    """The GPUs of its largest node."""
    return max(cell.capacity[GPU] for cell in topology_of(spec).at(NODE))


def private_clusters(spec: ClusterSpec) -> Iterator[tuple[str, ClusterSpec]]:
    """For each virtual cluster, a cluster of its cells alone. A cell that is part of a node is a small node there."""
    for name in spec.clusters:
        types, cells, quotas = dict(spec.types), list[PhysicalSpec](), Counter[str]()
        for type, number in _assured(spec, name):
            top = type if _contains_node(spec.types, type) else f"{type} alone"
            if top != type:
                types[top] = CellType(type, 1, is_node=True)
            quotas[top] += number
            cells += [_cell(types, top, f"{name}-{len(cells) + place}") for place in range(number)]
        chains: dict[str, tuple[str, ...]] = {}
        for top in quotas:
            leaf = _leaf(types, top)
            chains[leaf] = (*chains.get(leaf, ()), top)
        own = VirtualClusterSpec(tuple(Quota(top, top, number) for top, number in quotas.items()))
        if quotas:
            yield name, ClusterSpec(types, tuple(cells), {name: own}, chains)


def by_gpu_time(jobs: Sequence[Job], load: float, gpus_per_node: int = GPUS_PER_NODE) -> ClusterSpec:
    """A cluster of equal nodes, and for each tenant as many of them as its GPU time needs at this load, at least those
    that its largest job needs. GPU time: of all jobs, over the whole days of the workload."""
    used: Counter[str] = Counter()
    largest: dict[str, int] = {}
    for job in jobs:
        used[job.tenant] += round(job.gpus * (job.seconds[0] or 0))
        largest[job.tenant] = max(largest.get(job.tenant, 0), ceil(job.gpus / gpus_per_node))
    days = ceil((max(job.arrives_at for job in jobs) + 1) / 86_400)
    span = days * 86_400 * gpus_per_node * load
    nodes = {name: max(ceil(used[name] / span), largest[name]) for name in sorted(used)}
    return whole_nodes(nodes, gpus_per_node)


def whole_nodes(nodes: Mapping[str, int], gpus_per_node: int = GPUS_PER_NODE) -> ClusterSpec:
    """A cluster of equal nodes, so many for each virtual cluster."""
    types = {"node": CellType("gpu", gpus_per_node, is_node=True)}
    cells = tuple(PhysicalSpec("node", f"n{number}") for number in range(sum(nodes.values())))
    clusters = {name: VirtualClusterSpec((Quota("node", "node", number),)) for name, number in nodes.items()}
    return ClusterSpec(types, cells, clusters, {"gpu": ("node",)})


def _assured(spec: ClusterSpec, name: str) -> Iterator[tuple[str, int]]:
    """The cells that a virtual cluster is assured of: type and number."""
    virtual, pinned = spec.clusters[name], dict(_pinned(spec.cells))
    yield from ((quota.type, quota.number) for quota in virtual.quotas)
    yield from ((pinned[id], 1) for id in virtual.pinned)


def _pinned(cells: Sequence[PhysicalSpec]) -> Iterator[tuple[str, str]]:
    """The pinned cells: id and type."""
    for cell in cells:
        if cell.pinned:
            yield cell.pinned, cell.type
        yield from _pinned(cell.children)


def _size(types: Mapping[str, CellType], type: str) -> int:
    return types[type].number * _size(types, types[type].child) if type in types else 1


def _leaf(types: Mapping[str, CellType], type: str) -> str:
    return _leaf(types, types[type].child) if type in types else type


def _contains_node(types: Mapping[str, CellType], type: str) -> bool:
    return type in types and (types[type].is_node or _contains_node(types, types[type].child))


def _cell(types: Mapping[str, CellType], type: str, address: str) -> PhysicalSpec:
    """A cell whose nodes have names that begin with its address."""
    if types[type].is_node:
        return PhysicalSpec(type, address)
    children = tuple(_cell(types, types[type].child, f"{address}-{place}") for place in range(types[type].number))
    return PhysicalSpec(type, address, children=children)
