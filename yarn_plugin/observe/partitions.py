"""The partitions of a cluster: YARN's node labels, each of which splits off the nodes that have it."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from yarn_plugin.observe.answers import as_object, unwrapped
from yarn_plugin.observe.fields import objects_in
from yarn_plugin.observe.nodes import parse_nodes
from yarn_plugin.observe.resource_manager import ResourceManager

PATH = "/get-node-labels"


@dataclass(frozen=True, slots=True)
class Partition:
    """`is_exclusive`: only queues with a part of it use its nodes, also while these are idle. `nodes`: how many nodes
    that accept containers have its label."""

    is_exclusive: bool
    nodes: int


def read(manager: ResourceManager) -> dict[str, bool]:
    """The partitions by name, without the default one; whether each is exclusive. Empty if node labels are off.

    Raises:
        ManagerError: they cannot be read.
    """
    return parse(manager.get(PATH))


def read_with_nodes(manager: ResourceManager) -> dict[str, Partition]:
    """The partitions by name, with their nodes.

    Raises:
        ManagerError: they cannot be read.
    """
    listed = parse_nodes(manager.get("/nodes"))
    nodes = Counter(label for node, label in listed.partitions.items() if node in listed)
    return {name: Partition(is_exclusive, nodes[name]) for name, is_exclusive in read(manager).items()}


def parse(answer: Any) -> dict[str, bool]:
    """The partitions in an answer; unreadable ones are left out.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    entries = objects_in(unwrapped(as_object(answer, PATH), "nodeLabelsInfo").get("nodeLabelInfo"))
    return {
        entry["name"]: str(entry.get("exclusivity", "true")).lower() == "true"
        for entry in entries
        if isinstance(entry.get("name"), str) and entry["name"]
    }
