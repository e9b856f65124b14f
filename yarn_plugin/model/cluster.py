"""The cluster as the ResourceManager shows it."""

import re
from dataclasses import dataclass, field

from yarn_plugin.model.resources import Resources, total_of


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that takes containers. `id` is YARN's `host:port`; `rack` its network location."""

    id: str
    rack: str
    capacity: Resources

    @property
    def host(self) -> str:
        """The node's address without the port."""
        return self.id.rsplit(":", 1)[0]


@dataclass(frozen=True, slots=True)
class YarnApp:
    """An application that is not finished.

    `waiting`: it has no application master yet. `containers` counts the application master too.
    `pending`: asked for and not yet given. `started_at`: when the RM recorded it, seconds since the epoch.
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
    """A queue of the CapacityScheduler: its guaranteed and largest fraction of the whole cluster."""

    path: str
    guaranteed: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Container:
    """A running container; `master` marks the application master's own, which is never taken away."""

    id: str
    node: str
    resources: Resources
    master: bool


@dataclass(frozen=True, slots=True)
class Use:
    """What an application (by the id that claims go by) holds on a node, and in which containers."""

    app: str
    node: str
    held: Resources
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the ResourceManager allows: `writable` a queue's weight can be written, `preempts` YARN preempts itself.

    `least`: the smallest container, which is also the step in which memory is given.
    """

    version: str
    writable: bool
    preempts: bool
    least: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything observed, by id. Mappings are never changed in place.

    `nodes`: those that take containers; `broken`: others that the ResourceManager lists, which take none. `total`: what
    all nodes have together; None where that was not added up yet (see `capacity`). `use`: what each application whose
    containers were listed holds on each node.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    apps: dict[str, YarnApp] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    total: Resources | None = None
    broken: dict[str, Node] = field(default_factory=dict)
    use: dict[str, tuple[Use, ...]] = field(default_factory=dict)

    def capacity(self) -> Resources:
        """What all nodes have together."""
        return total_of(node.capacity for node in self.nodes.values()) if self.total is None else self.total


_OWN_LEAF = re.compile(r"_\d+_[0-9a-f]{8,}$")


def leaf_name(name: str, seq: int, at: float) -> str:
    """A queue name never used before: a weight written for a leaf outlives it and a namesake would inherit it."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())[:24].strip("-") or "app"
    return f"{slug}_{seq}_{int(at):x}"


def is_own_leaf(queue: str) -> bool:
    """Whether a queue's name is one that the arbiter gives (see `leaf_name`)."""
    return _OWN_LEAF.search(queue) is not None


def is_defined(queue: str, static: "frozenset[str] | tuple[str, ...] | None") -> bool:
    """Whether the configuration defines a queue; or may, as long as it was not shown, if the name is not our own."""
    return not is_own_leaf(queue) if static is None else queue in static
