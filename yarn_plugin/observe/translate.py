"""The ResourceManager's JSON as values of the model. Accepts wrapped (3.5) and bare answers, and all forms of lists.

An answer of another form (`{}`, an error in JSON with status 200) is rejected as a whole. Unreadable items of a list do
not affect the others. /nodes is in `nodes`.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from yarn_plugin.model.cluster import Container, Queue, YarnApp
from yarn_plugin.model.resources import MEMORY, VCORES, Resources, total_of
from yarn_plugin.observe import fields
from yarn_plugin.observe.answers import (
    MAX_DEPTH,
    ParsedItems,
    Remembered,
    as_object,
    items_at,
    not_an_answer,
    parse_items,
    unwrapped,
)
from yarn_plugin.observe.fields import UnreadableItemError, as_list, objects_in
from yarn_plugin.observe.queue_tree import walk

Json = Any

FINISHED_STATES = frozenset({"FINISHED", "FAILED", "KILLED"})
APP_METRICS = (
    "appsSubmitted", "appsCompleted", "appsFailed", "appsKilled", "appsPending", "appsRunning", "containersAllocated",
    "containersPending", "allocatedMB", "allocatedVirtualCores", "pendingMB", "pendingVirtualCores",
)  # fmt: skip
NODE_METRICS = (
    "activeNodes", "lostNodes", "unhealthyNodes", "decommissionedNodes", "totalMB", "totalVirtualCores",
    "decommissioningNodes", "rebootedNodes", "shutdownNodes",
)  # fmt: skip
METRICS = (*APP_METRICS, *NODE_METRICS)
"""The cluster metrics that change when applications or nodes do."""


def apps(answer: Json, remembered: Remembered[YarnApp] | None = None) -> ParsedItems[YarnApp]:
    """The unfinished applications of /apps. `remembered`: those of the last answer (see `remembered_apps`).

    Raises:
        NotAManagerError: it is not such an answer.
    """
    return parse_items(items_at(answer, "apps", "app"), "id", _app, remembered)


def remembered_apps() -> Remembered[YarnApp]:
    """A memory of applications: most are as they were in the last answer, but for fields that count their time."""
    return Remembered(_READ)


def queues(answer: Json) -> ParsedItems[Queue]:
    """All queues of /scheduler by path; empty for a scheduler other than the CapacityScheduler.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    parsed = ParsedItems[Queue]()
    for path, queue in walk(answer, parsed.without_id.append):
        try:
            # The root has no absolute capacities; they default to 100%.
            guaranteed = fields.fraction(queue, "absoluteCapacity")
            parsed[path] = Queue(path, guaranteed, fields.fraction(queue, "absoluteMaxCapacity"))
        except UnreadableItemError as problem:
            parsed.unreadable[path] = str(problem)
    return parsed


def containers(answer: Json, master: str | None) -> tuple[Container, ...]:
    """The running containers of an application attempt; `master` is the application master's id.

    Unreadable containers are omitted, and thus never killed.
    """
    found = parse_items(as_list(unwrapped(answer, "containers").get("container")), "containerId", _running_container)
    return tuple(Container(one.id, one.node, one.resources, master=one.id == master) for one in found.values())


def attempts(answer: Json) -> list[tuple[str, str]]:
    """The attempts of an application, the latest last: their ids and the ids of their masters' containers.

    Raises:
        NotAManagerError: one is unreadable.
    """
    found = parse_items(as_list(unwrapped(answer, "appAttempts").get("appAttempt")), "appAttemptId", _master_of)
    if found.without_id or found.unreadable:
        raise not_an_answer("/appattempts")
    return list(found.items())


def metrics(answer: Json) -> dict[str, Json]:
    """The `METRICS` of /metrics.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    values = as_object(answer.get("clusterMetrics", answer), "/metrics")
    if not any(type(values.get(name)) is int for name in METRICS):
        raise not_an_answer("/metrics")
    return {name: values.get(name) for name in METRICS}


def info(answer: Json) -> dict[str, Json]:
    """The content of /info: `resourceManagerVersion`, and optionally `haState` and `startedOn` (ms), are valid.

    Raises:
        NotAManagerError: it contains no version, or an invalid value.
    """
    content = dict(as_object(answer.get("clusterInfo", answer), "/info"))
    if not isinstance(content.get("resourceManagerVersion"), str):
        raise not_an_answer("/info")
    if not isinstance(content.get("haState", "ACTIVE"), str):
        raise not_an_answer("/info")
    if not (type(content.get("startedOn", 0)) is int and 0 <= content.get("startedOn", 0) <= fields.MAX_AMOUNT):
        raise not_an_answer("/info")
    if "haState" in content:
        content["haState"] = fields.encodable(content["haState"])
    content["resourceManagerVersion"] = fields.encodable(content["resourceManagerVersion"])
    return content


def why_waiting(answer: Json) -> list[str]:
    """The reasons in /scheduler/app-activities (grouped by diagnostic), each once, with the hosts it applies to."""
    found: dict[str, set[str]] = {}
    activities = answer.get("appActivities")
    for allocation in objects_in((activities if isinstance(activities, dict) else answer).get("allocations")):
        for text, nodes in _reasons(allocation, 0):
            found.setdefault(text, set()).update(node.rsplit(":", 1)[0] for node in nodes)
    return [text + (f" (on {', '.join(sorted(hosts))})" if hosts else "") for text, hosts in found.items()]


def diagnostics(answer: Json) -> list[str]:
    """The diagnostics in /apps/ID, as one line; empty if there are none."""
    app = answer.get("app", answer)
    text = app.get("diagnostics") if isinstance(app, dict) else None
    line = " ".join(fields.encodable(text).split()) if isinstance(text, str) else ""
    return [line] if line else []


def _reasons(activity: Json, depth: int) -> Iterator[tuple[str, list[str]]]:
    text = activity.get("diagnostic")
    if isinstance(text, str) and text:
        nodes = as_list(activity.get("nodeIds")) or as_list(activity.get("nodeId"))
        yield fields.encodable(text), [node for node in nodes if isinstance(node, str)]
    if depth < MAX_DEPTH:
        for inner in objects_in(activity.get("children")):
            yield from _reasons(inner, depth + 1)


_READ = itemgetter(
    "state", "name", "user", "queue", "startedTime", "runningContainers", "allocatedMB", "allocatedVCores",
    "resourceInfo",
)  # fmt: skip
"""The fields of an application that `_app` reads, beside its id."""


def _app(app: dict[str, Json]) -> YarnApp | None:
    state = fields.text(app, "state")
    if state in FINISHED_STATES:
        return None
    usage = app.get("resourceInfo")
    if not isinstance(usage, dict | None):
        raise fields.invalid(app, "resourceInfo")
    partitions = as_list((usage or {}).get("resourceUsagesByPartition"))
    if not all(isinstance(one, dict) for one in partitions):
        raise fields.invalid(usage or {}, "resourceUsagesByPartition")
    used = total_of(fields.resources(one["used"]) for one in partitions if one.get("used") is not None)
    pending = total_of(fields.resources(one["pending"]) for one in partitions if one.get("pending") is not None)
    running = fields.amount(app, "runningContainers")
    if not used:
        used = Resources.of({MEMORY: fields.amount(app, "allocatedMB"), VCORES: fields.amount(app, "allocatedVCores")})
    return YarnApp(
        id=app["id"],
        name=fields.text(app, "name", ""),
        user=fields.text(app, "user", ""),
        queue=fields.text(app, "queue"),
        waiting=state != "RUNNING" and running == 0,
        started_at=fields.amount(app, "startedTime") / 1000.0,
        used=used,
        pending=pending,
        containers=running,
    )


def _running_container(container: dict[str, Json]) -> Container | None:
    if container.get("containerState", "RUNNING") not in ("RUNNING", "NEW"):
        return None
    allocated = container.get("allocatedResources")
    entries = as_list(allocated.get("entry")) if isinstance(allocated, dict) else []
    default = {MEMORY: fields.amount(container, "allocatedMB"), VCORES: fields.amount(container, "allocatedVCores")}
    node = fields.text(container, "nodeId", "") or fields.text(container, "assignedNodeId", "")
    return Container(
        id=container["containerId"],
        node=node,
        resources=fields.named_resources(entries, "key") if entries else Resources.of(default),
        master=False,
    )


def _master_of(attempt: dict[str, Json]) -> str:
    return fields.text(attempt, "containerId", "")
