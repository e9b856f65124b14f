"""What a user asks for: the size and shape of an embedded cluster."""

import re
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.embedded.ports import LIMIT, WIDTH, Ports
from yarn_plugin.errors import BadInputError

DEFAULT_PORT_BASE = 18000


@dataclass(frozen=True, slots=True)
class Node:
    """A NodeManager: its loopback address, which is also its name in YARN, and its rack."""

    host: str
    rack: str

    @property
    def daemon(self) -> str:
        """The name of the NodeManager among the cluster's daemons."""
        return f"nm-{self.host}"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """An embedded cluster to bring up. Raises `BadInputError` for a value that cannot be.

    `memory_mb` (MiB), `vcores` and `gpus_per_node` are what each node offers to YARN. They are figures of the
    scheduler: YARN does not check them against the machine. `cpu_per_node` (cores) makes a node's share of the
    machine physical, where control groups may be written. `node_expiry_ms` is the silence after which a node counts
    as lost. `reconnect_ms` is the time between a daemon's attempts to reach a ResourceManager that has gone (Hadoop's
    own default is 30,000). `ivy_settings` names a user's own Ivy settings file, for a mirror of the jars.

    GPUs that nobody uses make YARN's preemption lenient: what is to be shared is compared by its largest fraction,
    which is then that of the idle GPUs, so nothing is taken back for a demand as small as a new application's master.
    For work without GPUs, offer none (`gpus_per_node=0`), and about as much memory to a vcore as a container takes.
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

    def __post_init__(self) -> None:
        _require(1 <= self.nodes <= 250, "nodes", self.nodes, "from 1 to 250")
        _require(1 <= self.racks <= self.nodes, "racks", self.racks, f"from 1 to the number of nodes ({self.nodes})")
        _require(self.gpus_per_node >= 0, "gpus-per-node", self.gpus_per_node, "0 or more")
        _require(self.memory_mb >= 128, "memory", self.memory_mb, "at least 128 (MiB, the smallest container)")
        _require(self.vcores >= 1, "vcores", self.vcores, "at least 1")
        _require(
            self.cpu_per_node is None or self.cpu_per_node >= 0.05,
            "cpu-per-node",
            self.cpu_per_node,
            "at least 0.05 (cores)",
        )
        _require(
            1024 <= self.port_base <= LIMIT - WIDTH,
            "port-base",
            self.port_base,
            f"from 1024 to {LIMIT - WIDTH} ({WIDTH} ports are used from there on)",
        )
        _require(self.node_expiry_ms >= 1000, "node-expiry-ms", self.node_expiry_ms, "at least 1000 (milliseconds)")
        _require(self.reconnect_ms >= 100, "reconnect-ms", self.reconnect_ms, "at least 100 (milliseconds)")
        _require(
            self.dir.is_absolute() and not re.search(r"[\s,$]", str(self.dir)),
            "dir",
            str(self.dir),
            "an absolute path without spaces, commas or $ (YARN splits lists of directories there)",
        )

    @property
    def ports(self) -> Ports:
        """Where each daemon listens."""
        return Ports(self.port_base)

    @property
    def topology(self) -> tuple[Node, ...]:
        """The nodes, in order: racks are filled one after the other, as evenly as the numbers allow."""
        racks = [index * self.racks // self.nodes + 1 for index in range(self.nodes)]
        return tuple(
            Node(f"127.0.{rack}.{index - racks.index(rack) + 1}", f"/rack{rack}") for index, rack in enumerate(racks)
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes' addresses."""
        return tuple(node.host for node in self.topology)

    @property
    def daemon_names(self) -> tuple[str, ...]:
        """The daemons this cluster consists of, in the order they are started."""
        return (*(("nn", "dn") if self.hdfs else ()), "rm", *(node.daemon for node in self.topology))


def _require(holds: bool, field: str, value: object, expected: str) -> None:
    if not holds:
        raise BadInputError(field, value, expected)
