"""The requested size and shape of an embedded cluster."""

import re
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.embedded.ports import LIMIT, WIDTH, Ports
from yarn_plugin.errors import BadInputError

DEFAULT_PORT_BASE = 18000


@dataclass(frozen=True, slots=True)
class Node:
    """A NodeManager: its loopback address, which is also its host name in YARN, and its rack."""

    host: str
    rack: str

    @property
    def daemon(self) -> str:
        """The daemon name of the NodeManager."""
        return f"nm-{self.host}"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """An embedded cluster to start. Raises `BadInputError` for an invalid value.

    `memory_mb` (MiB), `vcores` and `gpus_per_node`: the resources of each node for the scheduler; YARN does not check
    them against the machine. `gpu_partition`: how many nodes, the last ones, form an exclusive partition `gpu` with
    queue `root.gpu`; only they have GPUs then. `cpu_per_node` (cores): a CPU quota for each node outside that
    partition, where control groups can be written. `node_expiry_ms`: time without heartbeats after which a node is
    lost. `reconnect_ms`: interval of daemons' attempts to reconnect to the ResourceManager (Hadoop's default: 30,000).
    `ivy_settings`: an Ivy settings file, for a mirror of the jars.

    Idle GPUs make YARN's preemption lenient: it compares dominant fractions, which are those of the unused GPUs,
    so nothing is preempted for a demand as small as a new application master. For work without GPUs, set
    `gpus_per_node=0`, and choose about as much memory per vcore as a container uses.
    """

    dir: Path
    nodes: int = 4
    racks: int = 2
    gpus_per_node: int = 4
    memory_mb: int = 4096
    vcores: int = 4
    cpu_per_node: float | None = None
    hdfs: bool = False
    port_base: int = DEFAULT_PORT_BASE
    node_expiry_ms: int = 10_000
    reconnect_ms: int = 1000
    ivy_settings: Path | None = None
    gpu_partition: int = 0

    def __post_init__(self) -> None:
        _require(1 <= self.nodes <= 250, "nodes", self.nodes, "must be from 1 to 250")
        _require(1 <= self.racks <= self.nodes, "racks", self.racks, f"must be from 1 to --nodes, {self.nodes}")
        _require(self.gpus_per_node >= 0, "gpus-per-node", self.gpus_per_node, "must be at least 0")
        _require(
            0 <= self.gpu_partition < self.nodes,
            "gpu-partition",
            self.gpu_partition,
            f"must be from 0 to {self.nodes - 1}: application masters and queries need one of the --nodes",
        )
        _require(
            self.gpus_per_node > 0 or not self.gpu_partition,
            "gpus-per-node",
            self.gpus_per_node,
            "must be at least 1 with --gpu-partition",
        )
        _require(self.memory_mb >= 128, "memory", self.memory_mb, "must be at least 128 MiB, the smallest container")
        _require(self.vcores >= 1, "vcores", self.vcores, "must be at least 1")
        _require(
            self.cpu_per_node is None or self.cpu_per_node >= 0.05,
            "cpu-per-node",
            self.cpu_per_node,
            "must be at least 0.05 cores",
        )
        _require(
            1024 <= self.port_base <= LIMIT - WIDTH,
            "port-base",
            self.port_base,
            f"must be from 1024 to {LIMIT - WIDTH}; the cluster uses {WIDTH} ports from there on",
        )
        _require(self.node_expiry_ms >= 1000, "node-expiry-ms", self.node_expiry_ms, "must be at least 1000 ms")
        _require(self.reconnect_ms >= 100, "reconnect-ms", self.reconnect_ms, "must be at least 100 ms")
        _require(
            self.dir.is_absolute() and not re.search(r"[\s,$]", str(self.dir)),
            "dir",
            str(self.dir),
            "must be an absolute path without spaces, commas or $; YARN would split the path at them",
        )

    @property
    def ports(self) -> Ports:
        """The ports of the daemons."""
        return Ports(self.port_base)

    @property
    def topology(self) -> tuple[Node, ...]:
        """The nodes in order, distributed over the racks as evenly as possible."""
        racks = [index * self.racks // self.nodes + 1 for index in range(self.nodes)]
        return tuple(
            Node(f"127.0.{rack}.{index - racks.index(rack) + 1}", f"/rack{rack}") for index, rack in enumerate(racks)
        )

    @property
    def gpu_nodes(self) -> tuple[Node, ...]:
        """The nodes of the partition `gpu`."""
        return self.topology[self.nodes - self.gpu_partition :]

    def gpus_of(self, node: Node) -> int:
        """The GPUs that a node reports."""
        return self.gpus_per_node if node in self.gpu_nodes or not self.gpu_partition else 0

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses of the nodes."""
        return tuple(node.host for node in self.topology)

    @property
    def daemon_names(self) -> tuple[str, ...]:
        """The daemons of the cluster, in the order in which they start."""
        return (*(("nn", "dn") if self.hdfs else ()), "rm", *(node.daemon for node in self.topology))


def _require(is_valid: bool, option: str, value: object, expected: str) -> None:
    if not is_valid:
        raise BadInputError(f"--{option}", value, expected)
