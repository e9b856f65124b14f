"""The ResourceManager's JSON, as nouns. Accepts it wrapped (3.5) and bare, and empty lists in all their forms.

Whatever else is answered with 200 (`{}`, an error in JSON) is no answer, and nothing is learned from it. Of a list in
which single items cannot be read, the others count.
"""

from collections.abc import Iterator
from typing import Any

from yarn_plugin.model.cluster import Container, Node, Queue, YarnApp
from yarn_plugin.model.resources import MEMORY, VCORES, Resources, total_of
from yarn_plugin.observe import amounts, fields
from yarn_plugin.observe.answers import (
    MAX_DEPTH,
    Reading,
    as_object,
    each,
    listed,
    not_an_answer,
    objects,
    read_items,
    unwrapped,
)
from yarn_plugin.observe.broken import BROKEN_STATES, SeenNode, lasting
from yarn_plugin.observe.fields import UnreadableItemError
from yarn_plugin.observe.queue_tree import walk

Json = Any

ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
NODE_STATES = frozenset(
    {"NEW", "RUNNING", "UNHEALTHY", "DECOMMISSIONED", "LOST", "REBOOTED", "DECOMMISSIONING", "SHUTDOWN"}
)
FIGURES = (
    "appsSubmitted", "appsCompleted", "appsFailed", "appsKilled", "appsPending", "appsRunning", "containersAllocated",
    "containersPending", "allocatedMB", "allocatedVirtualCores", "pendingMB", "pendingVirtualCores", "activeNodes",
    "lostNodes", "unhealthyNodes", "decommissionedNodes", "totalMB", "totalVirtualCores",
    "decommissioningNodes", "rebootedNodes", "shutdownNodes",
)  # fmt: skip
"""Those of /metrics that move when applications or nodes do."""


class NodeReading(Reading[Node]):
    """The nodes that take containers, and those that are listed and take none: `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, Node] = {}


def nodes(answer: Json) -> NodeReading:
    """The nodes of /nodes.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    seen = read_items(listed(answer, "nodes", "node"), "id", _node)
    reading = NodeReading()
    reading.unreadable, reading.nameless = seen.unreadable, seen.nameless
    reading.update({name: one.node for name, one in seen.items() if one.state == "RUNNING"})
    reading.broken = lasting(seen.values())
    return reading


def apps(answer: Json) -> Reading[YarnApp]:
    """The unfinished applications of /apps.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    return read_items(listed(answer, "apps", "app"), "id", _app)


def queues(answer: Json) -> Reading[Queue]:
    """All queues of /scheduler by path; empty where the scheduler is not the CapacityScheduler.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    reading = Reading[Queue]()
    for path, queue in walk(answer, reading.nameless.append):
        try:
            # The root has no absolute values of its own: it is everything.
            least, most = fields.fraction(queue, "absoluteCapacity"), fields.fraction(queue, "absoluteMaxCapacity")
            reading[path] = Queue(path, least, most)
        except UnreadableItemError as problem:
            reading.unreadable[path] = str(problem)
    return reading


def containers(answer: Json, master: str | None) -> tuple[Container, ...]:
    """The running containers of an application attempt; `master` is the application master's id.

    One that cannot be read is left out: it is not ended.
    """
    found = read_items(each(unwrapped(answer, "containers").get("container")), "containerId", _running_container)
    return tuple(Container(one.id, one.node, one.resources, master=one.id == master) for one in found.values())


def attempts(answer: Json) -> list[tuple[str, str]]:
    """The attempts of an application: their ids and their masters' containers, the last one last.

    Raises:
        NotAManagerError: one cannot be read.
    """
    found = read_items(each(unwrapped(answer, "appAttempts").get("appAttempt")), "appAttemptId", _master_of)
    if found.nameless or found.unreadable:
        raise not_an_answer("/appattempts")
    return list(found.items())


def metrics(answer: Json) -> dict[str, Json]:
    """The figures of /metrics.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    figures = as_object(answer.get("clusterMetrics", answer), "/metrics")
    if not any(type(figures.get(name)) is int for name in FIGURES):
        raise not_an_answer("/metrics")
    return {name: figures.get(name) for name in FIGURES}


def info(answer: Json) -> dict[str, Json]:
    """What /info says: `resourceManagerVersion`, `haState` and `startedOn` (ms) are as they should be, or missing.

    Raises:
        NotAManagerError: it does not even say its version.
    """
    said = dict(as_object(answer.get("clusterInfo", answer), "/info"))
    if not isinstance(said.get("resourceManagerVersion"), str):
        raise not_an_answer("/info")
    if not isinstance(said.get("haState", "ACTIVE"), str):
        raise not_an_answer("/info")
    if not (type(said.get("startedOn", 0)) is int and 0 <= said.get("startedOn", 0) <= fields.MAX_AMOUNT):
        raise not_an_answer("/info")
    if "haState" in said:
        said["haState"] = fields.cleaned(said["haState"])
    said["resourceManagerVersion"] = fields.cleaned(said["resourceManagerVersion"])
    return said


def why_waiting(answer: Json) -> list[str]:
    """What /scheduler/app-activities says (grouped by diagnostic), each reason once, with the hosts it is true of."""
    found: dict[str, set[str]] = {}
    activities = answer.get("appActivities")
    for allocation in objects((activities if isinstance(activities, dict) else answer).get("allocations")):
        for text, nodes in _reasons(allocation, 0):
            found.setdefault(text, set()).update(node.rsplit(":", 1)[0] for node in nodes)
    return [text + (f" (on {', '.join(sorted(hosts))})" if hosts else "") for text, hosts in found.items()]


def diagnostics(answer: Json) -> list[str]:
    """What /apps/ID says of itself, in one line; nothing where it says nothing."""
    app = answer.get("app", answer)
    text = app.get("diagnostics") if isinstance(app, dict) else None
    said = " ".join(fields.cleaned(text).split()) if isinstance(text, str) else ""
    return [said] if said else []


def _reasons(activity: Json, depth: int) -> Iterator[tuple[str, list[str]]]:
    text = activity.get("diagnostic")
    if isinstance(text, str) and text:
        places = each(activity.get("nodeIds")) or each(activity.get("nodeId"))
        yield fields.cleaned(text), [place for place in places if isinstance(place, str)]
    if depth < MAX_DEPTH:
        for inner in objects(activity.get("children")):
            yield from _reasons(inner, depth + 1)


def _node(node: dict[str, Json]) -> SeenNode | None:
    state = fields.text(node, "state")
    if state not in NODE_STATES:
        raise fields.wrong(node, "state")
    heard = node.get("lastHealthUpdate")
    heard = heard if type(heard) is int else 0
    if state == "RUNNING":
        return SeenNode(Node(node["id"], fields.text(node, "rack", ""), _node_capacity(node)), state, heard)
    if state not in BROKEN_STATES:
        return None
    # Whatever else is odd about it, it does not take containers.
    rack = node.get("rack")
    try:
        capacity = _node_capacity(node)
    except UnreadableItemError:
        capacity = Resources()
    broken = Node(node["id"], fields.text(node, "rack") if isinstance(rack, str) else "", capacity)
    return SeenNode(broken, state, heard)


def _node_capacity(node: dict[str, Json]) -> Resources:
    total = node.get("totalResource")
    if total is not None:
        return amounts.resources(total)
    # What is free may be below zero, on a node that was made smaller; together they are what it offers.
    memory = fields.whole(node, "usedMemoryMB") + fields.whole(node, "availMemoryMB")
    cores = fields.whole(node, "usedVirtualCores") + fields.whole(node, "availableVirtualCores")
    if memory < 0 or cores < 0:
        raise UnreadableItemError(f"it offers {memory} MB and {cores} vcores")
    return Resources.of({MEMORY: memory, VCORES: cores})


def _app(app: dict[str, Json]) -> YarnApp | None:
    state = fields.text(app, "state")
    if state in ENDED:
        return None
    usage = app.get("resourceInfo")
    if not isinstance(usage, dict | None):
        raise fields.wrong(app, "resourceInfo")
    partitions = each((usage or {}).get("resourceUsagesByPartition"))
    if not all(isinstance(one, dict) for one in partitions):
        raise fields.wrong(usage or {}, "resourceUsagesByPartition")
    used = total_of(amounts.resources(one["used"]) for one in partitions if one.get("used") is not None)
    pending = total_of(amounts.resources(one["pending"]) for one in partitions if one.get("pending") is not None)
    held = fields.amount(app, "runningContainers")
    if not used:
        used = Resources.of({MEMORY: fields.amount(app, "allocatedMB"), VCORES: fields.amount(app, "allocatedVCores")})
    return YarnApp(
        id=app["id"],
        name=fields.text(app, "name", ""),
        user=fields.text(app, "user", ""),
        queue=fields.text(app, "queue"),
        waiting=state != "RUNNING" and held == 0,
        started_at=fields.amount(app, "startedTime") / 1000.0,
        used=used,
        pending=pending,
        containers=held,
    )


def _running_container(container: dict[str, Json]) -> Container | None:
    if container.get("containerState", "RUNNING") not in ("RUNNING", "NEW"):
        return None
    allocated = container.get("allocatedResources")
    entries = each(allocated.get("entry")) if isinstance(allocated, dict) else []
    usual = {MEMORY: fields.amount(container, "allocatedMB"), VCORES: fields.amount(container, "allocatedVCores")}
    node = fields.text(container, "nodeId", "") or fields.text(container, "assignedNodeId", "")
    return Container(
        id=container["containerId"],
        node=node,
        resources=amounts.named(entries, "key") if entries else Resources.of(usual),
        master=False,
    )


def _master_of(attempt: dict[str, Json]) -> str:
    return fields.text(attempt, "containerId", "")
