"""The ResourceManager's JSON, as nouns. Accepts it wrapped (3.5) and bare, and empty lists in all their forms.

Whatever else is answered with 200 (`{}`, an error in JSON) is no answer, and nothing is learned from it. Of a list in
which single items cannot be read, the others count.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from yarn_plugin.model.cluster import Container, Node, Queue, YarnApp
from yarn_plugin.model.resources import MEMORY, VCORES, Resources, total_of
from yarn_plugin.observe import fields
from yarn_plugin.observe.fields import UnreadableItemError
from yarn_plugin.observe.resource_manager import EXPECTED, NotAManagerError

Json = Any
Item = TypeVar("Item")

MAX_DEPTH = 50
"""Of queues in queues."""

ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
NODE_STATES = frozenset(
    {"NEW", "RUNNING", "UNHEALTHY", "DECOMMISSIONED", "LOST", "REBOOTED", "DECOMMISSIONING", "SHUTDOWN"}
)
FIGURES = (
    "appsSubmitted", "appsCompleted", "appsFailed", "appsKilled", "appsPending", "appsRunning", "containersAllocated",
    "containersPending", "allocatedMB", "allocatedVirtualCores", "pendingMB", "pendingVirtualCores", "activeNodes",
    "lostNodes", "unhealthyNodes", "decommissionedNodes", "totalMB", "totalVirtualCores",
)  # fmt: skip
"""Those of /metrics that move when applications or nodes do."""


class Reading(dict[str, Item], Generic[Item]):
    """The items of an answer by id.

    `unreadable`: why others could not be read, by their id. `nameless`: why those were not whose very id could not be.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[str, str] = {}
        self.nameless: list[str] = []


def nodes(answer: Json) -> Reading[Node]:
    """The nodes that take containers, of /nodes.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    return _read(_listed(answer, "nodes", "node"), "id", _node)


def apps(answer: Json) -> Reading[YarnApp]:
    """The unfinished applications of /apps.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    return _read(_listed(answer, "apps", "app"), "id", _app)


def queues(answer: Json) -> Reading[Queue]:
    """All queues of /scheduler by path; empty where the scheduler is not the CapacityScheduler.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    scheduler = _object(_object(answer.get("scheduler", answer), "/scheduler").get("schedulerInfo"), "/scheduler")
    if not isinstance(scheduler.get("type"), str):
        raise _not_an_answer("/scheduler")
    reading = Reading[Queue]()
    if scheduler["type"] == "capacityScheduler":
        _read_queues(scheduler, "", reading, 0)
    return reading


def containers(answer: Json, master: str | None) -> tuple[Container, ...]:
    """The running containers of an application attempt; `master` is the application master's id.

    One that cannot be read is left out: it is not ended.
    """
    found = _read(_each(_held(answer, "containers").get("container")), "containerId", _running_container)
    return tuple(Container(one.id, one.node, one.resources, master=one.id == master) for one in found.values())


def attempts(answer: Json) -> list[tuple[str, str]]:
    """The attempts of an application: their ids and their masters' containers, the last one last.

    Raises:
        NotAManagerError: one cannot be read.
    """
    found = _read(_each(_held(answer, "appAttempts").get("appAttempt")), "appAttemptId", _master_of)
    if found.nameless or found.unreadable:
        raise _not_an_answer("/appattempts")
    return list(found.items())


def metrics(answer: Json) -> dict[str, Json]:
    """The figures of /metrics.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    figures = _object(answer.get("clusterMetrics", answer), "/metrics")
    if not any(type(figures.get(name)) is int for name in FIGURES):
        raise _not_an_answer("/metrics")
    return {name: figures.get(name) for name in FIGURES}


def info(answer: Json) -> dict[str, Json]:
    """What /info says: `resourceManagerVersion`, `haState` and `startedOn` (ms) are as they should be, or missing.

    Raises:
        NotAManagerError: it does not even say its version.
    """
    said = dict(_object(answer.get("clusterInfo", answer), "/info"))
    if not isinstance(said.get("resourceManagerVersion"), str):
        raise _not_an_answer("/info")
    if not isinstance(said.get("haState", "ACTIVE"), str):
        raise _not_an_answer("/info")
    if not (type(said.get("startedOn", 0)) is int and 0 <= said.get("startedOn", 0) <= fields.MAX_AMOUNT):
        raise _not_an_answer("/info")
    if "haState" in said:
        said["haState"] = fields.cleaned(said["haState"])
    said["resourceManagerVersion"] = fields.cleaned(said["resourceManagerVersion"])
    return said


def configuration(answer: Json) -> dict[str, str]:
    """The scheduler's configuration, of /scheduler-conf, by property.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    held = _object(answer.get("sched-conf", answer), "/scheduler-conf")
    entries = _each(held.get("property"))
    if "property" not in held or not all(isinstance(entry, dict) for entry in entries):
        raise _not_an_answer("/scheduler-conf")
    found = [(entry.get("name"), entry.get("value")) for entry in entries]
    if not all(isinstance(name, str) and isinstance(value, str | None) for name, value in found):
        raise _not_an_answer("/scheduler-conf")
    return {fields.cleaned(name): fields.cleaned(value or "") for name, value in found}


def why_waiting(answer: Json) -> list[str]:
    """What /scheduler/app-activities says (grouped by diagnostic), each reason once, with the hosts it is true of."""
    found: dict[str, set[str]] = {}
    activities = answer.get("appActivities")
    for allocation in _objects((activities if isinstance(activities, dict) else answer).get("allocations")):
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
        places = _each(activity.get("nodeIds")) or _each(activity.get("nodeId"))
        yield fields.cleaned(text), [place for place in places if isinstance(place, str)]
    if depth < MAX_DEPTH:
        for inner in _objects(activity.get("children")):
            yield from _reasons(inner, depth + 1)


# What an answer is, as a whole.


def _not_an_answer(path: str) -> NotAManagerError:
    return NotAManagerError(f"the answer to {path} is not a ResourceManager's; {EXPECTED}")


def _object(value: Json, path: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise _not_an_answer(path)
    return value


def _listed(answer: Json, outer: str, inner: str) -> list[Json]:
    """The list at answer[outer][inner] or answer[inner]; empty where answer[outer] is null or has nothing in it."""
    path = f"/{outer}"
    if outer in answer:
        held = answer[outer]
        if held is None or held == {}:
            return []
        listed = _object(held, path)
        if inner not in listed:
            raise _not_an_answer(path)
        return _items(listed[inner], path) if listed[inner] is not None else []
    if inner not in answer:
        raise _not_an_answer(path)
    return _items(answer[inner], path)


def _items(value: Json, path: str) -> list[Json]:
    """A list; a single object where the RM writes a list of one without brackets."""
    if not isinstance(value, list | dict):
        raise _not_an_answer(path)
    return _each(value)


def _held(answer: Json, outer: str) -> dict[str, Json]:
    held = answer.get(outer, answer)
    return held if isinstance(held, dict) else {}


def _each(value: Json) -> list[Json]:
    """A list; one object where the RM writes a list of one without brackets."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _objects(value: Json) -> list[dict[str, Json]]:
    return [one for one in _each(value) if isinstance(one, dict)]


# What its items are.


def _read(listed: list[Json], id_field: str, read: Callable[[dict[str, Json]], Item | None]) -> Reading[Item]:
    """Every item that can be read and counts (of others, `read` returns None)."""
    reading = Reading[Item]()
    for one in listed:
        try:
            if not isinstance(one, dict):
                raise UnreadableItemError(f"{fields.shown(one)} is not an object")
            name = fields.identifier(one, id_field)
        except UnreadableItemError as problem:
            reading.nameless.append(str(problem))
            continue
        try:
            item = read(one)
        except UnreadableItemError as problem:
            reading.unreadable[name] = str(problem)
        else:
            if item is not None:
                reading[name] = item
    return reading


def _node(node: dict[str, Json]) -> Node | None:
    state = fields.text(node, "state")
    if state not in NODE_STATES:
        raise fields.wrong(node, "state")
    if state != "RUNNING":
        return None
    return Node(node["id"], fields.text(node, "rack", ""), _node_capacity(node))


def _node_capacity(node: dict[str, Json]) -> Resources:
    total = node.get("totalResource")
    if total is not None:
        return _resources(total)
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
    partitions = _each((usage or {}).get("resourceUsagesByPartition"))
    if not all(isinstance(one, dict) for one in partitions):
        raise fields.wrong(usage or {}, "resourceUsagesByPartition")
    used = total_of(_resources(one["used"]) for one in partitions if one.get("used") is not None)
    pending = total_of(_resources(one["pending"]) for one in partitions if one.get("pending") is not None)
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


def _resources(written: Json) -> Resources:
    """`resourceInformations` where the RM sends it, else memory and vCores."""
    if not isinstance(written, dict):
        raise UnreadableItemError(f"{fields.shown(written)} is not an amount of resources")
    listed = written.get("resourceInformations")
    if not isinstance(listed, dict | None):
        raise fields.wrong(written, "resourceInformations")
    entries = _each((listed or {}).get("resourceInformation"))
    if entries:
        return _amounts(entries, "name")
    return Resources.of({MEMORY: fields.amount(written, "memory"), VCORES: fields.amount(written, "vCores")})


def _amounts(entries: list[Json], key: str) -> Resources:
    if not all(isinstance(entry, dict) for entry in entries):
        raise UnreadableItemError(f"{fields.shown(entries)} is not a list of resources")
    amounts = ((fields.identifier(entry, key), fields.amount(entry, "value", required=True)) for entry in entries)
    return Resources.of(dict(amounts))


def _running_container(container: dict[str, Json]) -> Container | None:
    if container.get("containerState", "RUNNING") not in ("RUNNING", "NEW"):
        return None
    allocated = container.get("allocatedResources")
    entries = _each(allocated.get("entry")) if isinstance(allocated, dict) else []
    amounts = {MEMORY: fields.amount(container, "allocatedMB"), VCORES: fields.amount(container, "allocatedVCores")}
    node = fields.text(container, "nodeId", "") or fields.text(container, "assignedNodeId", "")
    return Container(
        id=container["containerId"],
        node=node,
        resources=_amounts(entries, "key") if entries else Resources.of(amounts),
        master=False,
    )


def _master_of(attempt: dict[str, Json]) -> str:
    return fields.text(attempt, "containerId", "")


def _read_queues(queue: dict[str, Json], parent: str, reading: Reading[Queue], depth: int) -> None:
    """A queue and all in it. One that has no name takes what lies in it along."""
    try:
        path = _queue_path(queue, parent)
    except UnreadableItemError as problem:
        reading.nameless.append(str(problem))
        return
    try:
        # The root has no absolute values of its own: it is everything.
        least, most = fields.fraction(queue, "absoluteCapacity"), fields.fraction(queue, "absoluteMaxCapacity")
        reading[path] = Queue(path, least, most)
    except UnreadableItemError as problem:
        reading.unreadable[path] = str(problem)
    inner = queue.get("queues")
    listed = _each(inner.get("queue")) if isinstance(inner, dict) else _each(inner)
    for child in listed:
        if isinstance(child, dict) and depth < MAX_DEPTH:
            _read_queues(child, path, reading, depth + 1)
        else:
            reading.nameless.append(f"{fields.shown(child)} is not a queue")


def _queue_path(queue: dict[str, Json], parent: str) -> str:
    if queue.get("queuePath"):
        return fields.identifier(queue, "queuePath")
    name = fields.identifier(queue, "queueName") if parent or "queueName" in queue else "root"
    return f"{parent}.{name}" if parent else name
