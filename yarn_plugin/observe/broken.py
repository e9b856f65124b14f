"""Nodes that the ResourceManager lists and that take no containers: which of them are worth knowing. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from yarn_plugin.model.cluster import Node

REPORTING = ("UNHEALTHY", "DECOMMISSIONING")
"""The states of nodes that report, and take no containers."""

SILENT = ("LOST", "DECOMMISSIONED", "SHUTDOWN", "REBOOTED")
"""The states of nodes that do not report. The ResourceManager forgets few of these before it restarts."""

BROKEN_STATES = (*REPORTING, *SILENT)

BROKEN_FOR = 24 * 3600 * 1000
"""Milliseconds after which a silent node does not count any more, against the node that was heard of last."""

MAX_BROKEN = 10_000
"""How many silent nodes are known at most: those heard of last."""


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node as it is listed. `heard`: when it last reported, in milliseconds since the epoch."""

    node: Node
    state: str
    heard: int = 0


def lasting(seen: Iterable[SeenNode]) -> dict[str, Node]:
    """The broken nodes by id: all that report, and of the silent ones each host's latest, for a day.

    A node that is started again under another port is listed as lost under the one that it had: where a host reports,
    its silent nodes do not count.
    """
    nodes = list(seen)
    reporting = {one.node.host for one in nodes if one.state not in SILENT}
    silent = sorted((one for one in nodes if one.state in SILENT), key=lambda one: (one.heard, one.node.id))
    since = max((one.heard for one in nodes), default=0) - BROKEN_FOR
    latest = {one.node.host: one.node for one in silent if one.heard >= since and one.node.host not in reporting}
    broken = {one.node.id: one.node for one in nodes if one.state in REPORTING}
    return broken | {node.id: node for node in list(latest.values())[-MAX_BROKEN:]}
