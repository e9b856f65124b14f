"""The ResourceManager's JSON, as nouns. Accepts it wrapped (3.5) and bare, and empty lists in all their forms."""

from collections.abc import Iterator
from typing import Any

from yarn_plugin.model.cluster import Container, Node, Queue, YarnApp
from yarn_plugin.model.resources import MEMORY, VCORES, Resources

Json = Any


def nodes(answer: Json) -> dict[str, Node]:
    """The nodes that take containers, of /nodes."""
    usable = (node for node in _listed(answer, "nodes", "node") if node.get("state") == "RUNNING")
    return {node["id"]: Node(node["id"], node.get("rack", ""), _node_capacity(node)) for node in usable}


def apps(answer: Json) -> dict[str, YarnApp]:
    """The applications of /apps (which was asked for unfinished ones)."""
    return {app["id"]: _app(app) for app in _listed(answer, "apps", "app")}


def queues(answer: Json) -> dict[str, Queue]:
    """All queues of /scheduler by path; empty where the scheduler is not the CapacityScheduler."""
    scheduler = answer.get("scheduler", answer).get("schedulerInfo", {})
    if scheduler.get("type") != "capacityScheduler":
        return {}
    return {queue.path: queue for queue in _queues(scheduler, "")}


def containers(answer: Json, master: str | None) -> tuple[Container, ...]:
    """The running containers of an application attempt; `master` is the application master's id."""
    return tuple(
        Container(
            id=one["containerId"],
            node=one.get("nodeId") or one.get("assignedNodeId", ""),
            resources=_container_resources(one),
            master=one["containerId"] == master,
        )
        for one in _listed(answer, "containers", "container")
        if one.get("containerState", "RUNNING") in ("RUNNING", "NEW")
    )


def attempts(answer: Json) -> list[tuple[str, str]]:
    """The attempts of an application: their ids and their masters' containers, the last one last."""
    found = _listed(answer, "appAttempts", "appAttempt")
    return [(one["appAttemptId"], one.get("containerId", "")) for one in found if "appAttemptId" in one]


def metrics(answer: Json) -> dict[str, Json]:
    """The figures of /metrics."""
    return dict(answer.get("clusterMetrics", answer))


def info(answer: Json) -> dict[str, Json]:
    """What /info says."""
    return dict(answer.get("clusterInfo", answer))


def configuration(answer: Json) -> dict[str, str]:
    """The scheduler's configuration, of /scheduler-conf, by property."""
    return {entry["name"]: entry["value"] for entry in _listed(answer, "sched-conf", "property")}


def why_waiting(answer: Json) -> list[str]:
    """What /scheduler/app-activities says (grouped by diagnostic), each reason once, with the hosts it is true of."""
    found: dict[str, set[str]] = {}
    activities = answer.get("appActivities", answer)
    for allocation in _each(activities.get("allocations")):
        for text, nodes in _reasons(allocation):
            found.setdefault(text, set()).update(node.rsplit(":", 1)[0] for node in nodes)
    return [text + (f" (on {', '.join(sorted(hosts))})" if hosts else "") for text, hosts in found.items()]


def diagnostics(answer: Json) -> list[str]:
    """What /apps/ID says of itself, in one line; nothing where it says nothing."""
    said = " ".join(str(answer.get("app", answer).get("diagnostics") or "").split())
    return [said] if said else []


def _reasons(activity: Json) -> Iterator[tuple[str, list[str]]]:
    if activity.get("diagnostic"):
        single = [activity["nodeId"]] if activity.get("nodeId") else []
        yield activity["diagnostic"], _each(activity.get("nodeIds")) or single
    for inner in _each(activity.get("children")):
        yield from _reasons(inner)


def _listed(answer: Json, outer: str, inner: str) -> list[Json]:
    """A list at answer[outer][inner], at answer[inner], or one that is empty and therefore left out."""
    held = answer.get(outer, answer) or {}
    return _each(held.get(inner) if isinstance(held, dict) else held)


def _each(value: Json) -> list[Json]:
    """A list; one object where the RM writes a list of one without brackets."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _node_capacity(node: Json) -> Resources:
    total = node.get("totalResource")
    if total:
        return _resources(total)
    memory = node.get("usedMemoryMB", 0) + node.get("availMemoryMB", 0)
    return Resources.of(
        {MEMORY: memory, VCORES: node.get("usedVirtualCores", 0) + node.get("availableVirtualCores", 0)}
    )


def _app(app: Json) -> YarnApp:
    partitions = _each((app.get("resourceInfo") or {}).get("resourceUsagesByPartition"))
    used = sum((_resources(one["used"]) for one in partitions if "used" in one), Resources())
    pending = sum((_resources(one["pending"]) for one in partitions if "pending" in one), Resources())
    held = max(app.get("runningContainers", 0), 0)
    if not used:
        amounts = {MEMORY: app.get("allocatedMB", 0), VCORES: app.get("allocatedVCores", 0)}
        used = Resources.of({name: amount for name, amount in amounts.items() if amount > 0})
    return YarnApp(
        id=app["id"],
        name=app.get("name", ""),
        user=app.get("user", ""),
        queue=app.get("queue", ""),
        waiting=app.get("state") != "RUNNING" and held == 0,
        started_at=app.get("startedTime", 0) / 1000.0,
        used=used,
        pending=pending,
        containers=held,
    )


def _resources(written: Json) -> Resources:
    """`resourceInformations` where the RM sends it, else memory and vCores."""
    entries = _each((written.get("resourceInformations") or {}).get("resourceInformation"))
    if entries:
        return Resources.of({entry["name"]: max(int(entry["value"]), 0) for entry in entries})
    return Resources.of({MEMORY: max(written.get("memory", 0), 0), VCORES: max(written.get("vCores", 0), 0)})


def _container_resources(container: Json) -> Resources:
    entries = _each((container.get("allocatedResources") or {}).get("entry"))
    if entries:
        return Resources.of({entry["key"]: int(entry["value"]) for entry in entries})
    return Resources.of({MEMORY: container.get("allocatedMB", 0), VCORES: container.get("allocatedVCores", 0)})


def _queues(queue: Json, parent: str) -> Iterator[Queue]:
    name = queue.get("queueName", "root")
    path = queue.get("queuePath") or (f"{parent}.{name}" if parent else name)
    # The root has no absolute values of its own: it is everything.
    guaranteed = queue.get("absoluteCapacity", 100.0)
    maximum = queue.get("absoluteMaxCapacity", 100.0)
    yield Queue(path, guaranteed / 100.0, maximum / 100.0)
    for child in _listed(queue, "queues", "queue"):
        if child is not queue:
            yield from _queues(child, path)
