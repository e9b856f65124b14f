"""The cluster as the ResourceManager reports it, and the names of the leaf queues that the arbiter creates."""

import re
from dataclasses import dataclass, field

from yarn_plugin.model.resources import Resources, total_of


@dataclass(frozen=True, slots=True)
class Node:
    """A NodeManager that accepts containers. `id` is YARN's `host:port`; `rack` its network location."""

    id: str
    rack: str
    capacity: Resources

    @property
    def host(self) -> str:
        """The node's address without the port."""
        return self.id.rsplit(":", 1)[0]


@dataclass(frozen=True, slots=True)
class YarnApp:
    """An application that has not finished.

    `waiting`: its application master has not started. `containers` includes the application master's.
    `pending`: requested and not yet allocated. `started_at`: the RM's start time, seconds since the epoch.
    """

    id: str
    name: str
    user: str
    queue: str
    waiting: bool
    started_at: float
    used: Resources
    pending: Resources
    containers: int


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the CapacityScheduler: its guaranteed and its maximum fraction of the cluster."""

    path: str
    guaranteed: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Container:
    """A running container; `master`: it runs the application master, and is never preempted."""

    id: str
    node: str
    resources: Resources
    master: bool


@dataclass(frozen=True, slots=True)
class Use:
    """Resources and containers of an application (identified as in claims) on one node."""

    app: str
    node: str
    held: Resources
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the ResourceManager supports. `writable`: queue weights can be changed. `preempts`: YARN itself preempts.

    `least`: the minimum allocation; memory is allocated in multiples of it.
    """

    version: str
    writable: bool
    preempts: bool
    least: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything observed, by id. Mappings are never changed in place.

    `nodes`: those that accept containers; `broken`: those that are listed but do not. `total`: the cached capacity,
    or None (see `capacity`). `use`: resources on each node, of the applications whose containers were listed.
    `node_used`: what all containers use of each node with GPUs, if a pool's controller reads it. `partitions`: the
    node label of each node that has one.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    apps: dict[str, YarnApp] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    total: Resources | None = None
    broken: dict[str, Node] = field(default_factory=dict)
    use: dict[str, tuple[Use, ...]] = field(default_factory=dict)
    node_used: dict[str, Resources] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)

    def capacity(self) -> Resources:
        """The capacity of all nodes that accept containers and are in no partition: what pools share.

        Nodes of a partition are for the queues with a part of it.
        """
        if self.total is not None:
            return self.total
        return total_of(node.capacity for node in self.nodes.values() if node.id not in self.partitions)


_OWN_LEAF = re.compile(r"_\d+_[0-9a-f]{8,}$")


def leaf_name(name: str, seq: int, at: float) -> str:
    """A queue name that was never used before: a leaf's weight outlives it, and a namesake would inherit it."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())[:24].strip("-") or "app"
    return f"{slug}_{seq}_{int(at):x}"


def is_own_leaf(queue: str) -> bool:
    """Whether a queue's name was made by `leaf_name`."""
    return _OWN_LEAF.search(queue) is not None


def is_defined(queue: str, static: "frozenset[str] | tuple[str, ...] | None") -> bool:
    """Whether YARN's configuration defines a queue. Before it was read (`static` None), every foreign name counts."""
    return not is_own_leaf(queue) if static is None else queue in static
