"""Why nodes of a cells file are bad, or cannot be used as the file says: compared with what YARN reports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.model.topology import NODE, Topology
from yarn_plugin.quantities import count


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node as YARN reports it. `gpus`: how many it has; `broken`: those of them that cannot be leased, as the node is
    described or as its tasks have no room; `is_broken`: it accepts no containers; `is_outside`: the pool does not use
    it."""

    gpus: int
    broken: tuple[str, ...] = ()
    is_broken: bool = False
    is_outside: bool = False


@dataclass(frozen=True, slots=True)
class NodeFault:
    """A node, and the GPUs that it has in the file. `seen`: None if YARN reports no such node."""

    host: str
    gpus: int
    seen: SeenNode | None

    @property
    def is_bad(self) -> bool:
        """Whether no new work is placed there."""
        seen = self.seen
        return seen is None or seen.is_broken or seen.is_outside or seen.gpus < self.gpus or bool(seen.broken)

    def __str__(self) -> str:
        seen, of_file = self.seen, f"node {self.host}"
        if seen is None:
            return f"{of_file}: YARN reports no such host; must be a host name as in `yarn node -list`"
        if seen.is_outside:
            return f"{of_file}: not a node of this pool; see its partition, nodes and task size in arbiter.toml"
        if seen.is_broken:
            return f"{of_file}: takes no containers now (lost, unhealthy or decommissioned)"
        if seen.gpus != self.gpus:
            rest = (
                "bad until they agree" if seen.gpus < self.gpus else f"{seen.gpus - self.gpus} of them are never used"
            )
            return f"{of_file}: {count(self.gpus, 'GPU')} in the file, but {seen.gpus} in YARN; {rest}"
        return (
            f"{of_file}: the node is healthy, but {', '.join(seen.broken)} cannot be leased: broken in the topology "
            f"file, or beyond the tasks for which the node has memory and vcores"
        )


def find_faults(cluster: Cluster, seen: Mapping[str, SeenNode]) -> Iterator[NodeFault]:
    """The nodes of the file that are not as it says, in its order. `seen`: by host."""
    for host, cells in cluster.forest.nodes.items():
        fault = NodeFault(host, sum(cell.size for cell in cells), seen.get(host))
        if fault.is_bad or (fault.seen is not None and fault.seen.gpus > fault.gpus):
            yield fault


def nodes_of_pool(topology: Topology, cells: Cells) -> dict[str, SeenNode]:
    """The nodes that the arbiter knows, by host, as a pool sees them. `cells`: of the pool."""
    seen: dict[str, SeenNode] = {}
    for node in topology.at(NODE):
        host = node.host or node.id
        if node.id not in cells:
            seen.setdefault(host, SeenNode(0, is_broken=node.broken, is_outside=not node.broken))
            continue
        gpus = list(cells.gpus_in(node.id))
        broken = () if node.broken else tuple(gpu for gpu in gpus if gpu in cells.broken)
        seen[host] = SeenNode(len(gpus), broken, node.broken)
    return seen
