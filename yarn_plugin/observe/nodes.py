"""The nodes of /nodes: those that take containers, and the broken ones that are worth knowing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.observe import fields
from yarn_plugin.observe.answers import ParsedItems, items_at, parse_items
from yarn_plugin.observe.fields import UnreadableItemError

Json = Any

REPORTING = ("UNHEALTHY", "DECOMMISSIONING")
"""States of nodes that send heartbeats and take no containers."""

SILENT = ("LOST", "DECOMMISSIONED", "SHUTDOWN", "REBOOTED")
"""States of nodes that send no heartbeats. The ResourceManager forgets few of these before it restarts."""

PLUGINS = "yarn.nodemanager.resource-plugins"
"""Of NodeManagers, and by custom in the one yarn-site.xml of all daemons."""

BROKEN_STATES = (*REPORTING, *SILENT)
NODE_STATES = frozenset({"NEW", "RUNNING", *BROKEN_STATES})

SILENT_TTL = 24 * 3600 * 1000
"""Milliseconds after which a silent node is dropped, relative to the latest heartbeat of any node."""

MAX_SILENT = 10_000
"""How many silent nodes are retained: those with the latest heartbeats."""


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node as it is listed. `heartbeat`: its last one, in milliseconds since the epoch. `used`: by all containers;
    None if it cannot be read. `partition`: its label, or empty."""

    node: Node
    state: str
    heartbeat: int = 0
    used: Resources | None = None
    partition: str = ""


class ParsedNodes(ParsedItems[Node]):
    """The nodes that take containers; `broken`: the listed ones that do not. `used`: what all containers use of each
    node that takes some. `partitions`: of each listed node that has a label."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, Node] = {}
        self.used: dict[str, Resources] = {}
        self.partitions: dict[str, str] = {}


def parse_nodes(answer: Json) -> ParsedNodes:
    """The nodes of /nodes.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    listed = parse_items(items_at(answer, "nodes", "node"), "id", _node)
    parsed = ParsedNodes()
    parsed.unreadable, parsed.without_id = listed.unreadable, listed.without_id
    parsed.update({name: one.node for name, one in listed.items() if one.state == "RUNNING"})
    parsed.used = {name: one.used for name, one in listed.items() if one.state == "RUNNING" and one.used is not None}
    parsed.partitions = {name: one.partition for name, one in listed.items() if one.partition}
    parsed.broken = relevant_broken(listed.values())
    return parsed


def relevant_broken(listed: Iterable[ListedNode]) -> dict[str, Node]:
    """The broken nodes by id: all that send heartbeats, and for one day the latest silent node of each host.

    A node that restarts on another port is listed as lost under its previous one, so silent nodes of a host that sends
    heartbeats are ignored.
    """
    nodes = list(listed)
    reporting = {one.node.host for one in nodes if one.state not in SILENT}
    silent = sorted((one for one in nodes if one.state in SILENT), key=lambda one: (one.heartbeat, one.node.id))
    since = max((one.heartbeat for one in nodes), default=0) - SILENT_TTL
    latest = {one.node.host: one.node for one in silent if one.heartbeat >= since and one.node.host not in reporting}
    broken = {one.node.id: one.node for one in nodes if one.state in REPORTING}
    return broken | {node.id: node for node in list(latest.values())[-MAX_SILENT:]}


def _node(node: dict[str, Json]) -> ListedNode | None:
    state = fields.text(node, "state")
    if state not in NODE_STATES:
        raise fields.invalid(node, "state")
    heartbeat = node.get("lastHealthUpdate")
    heartbeat = heartbeat if type(heartbeat) is int else 0
    if state == "RUNNING":
        listed = Node(node["id"], fields.text(node, "rack", ""), _capacity(node))
        return ListedNode(listed, state, heartbeat, _used(node), _partition(node))
    if state not in BROKEN_STATES:
        return None
    # A broken node takes no containers, so that an unreadable rack or capacity does not matter.
    rack = node.get("rack")
    try:
        capacity = _capacity(node)
    except UnreadableItemError:
        capacity = Resources()
    broken = Node(node["id"], fields.text(node, "rack") if isinstance(rack, str) else "", capacity)
    return ListedNode(broken, state, heartbeat, partition=_partition(node))


def _partition(node: dict[str, Json]) -> str:
    """Its label; a node has at most one."""
    labels = [label for label in fields.as_list(node.get("nodeLabels")) if isinstance(label, str) and label]
    return fields.encodable(labels[0])[: fields.MAX_TEXT] if labels else ""


def _used(node: dict[str, Json]) -> Resources | None:
    try:
        return fields.resources(node["usedResource"], clamped=True) if "usedResource" in node else None
    except UnreadableItemError:
        return None


def _capacity(node: dict[str, Json]) -> Resources:
    total = node.get("totalResource")
    if total is not None:
        return fields.resources(total)
    # The available amount is negative on a node whose capacity was reduced; used and available make up the capacity.
    memory = fields.integer(node, "usedMemoryMB") + fields.integer(node, "availMemoryMB")
    cores = fields.integer(node, "usedVirtualCores") + fields.integer(node, "availableVirtualCores")
    if memory < 0 or cores < 0:
        raise UnreadableItemError(f"its capacity is negative: {memory} MB, {cores} vcores")
    return Resources.of({MEMORY: memory, VCORES: cores})


def isolate_gpus(conf: Mapping[str, str]) -> bool:
    """Whether nodes show a container its own GPUs alone, by the ResourceManager's configuration."""
    return GPU in conf.get(PLUGINS, "").replace(",", " ").split()
