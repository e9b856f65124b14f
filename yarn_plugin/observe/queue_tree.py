"""The queues of /scheduler: their configuration and usage."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from yarn_plugin.model.resources import Resources
from yarn_plugin.observe import fields
from yarn_plugin.observe.answers import MAX_DEPTH, as_object, not_an_answer
from yarn_plugin.observe.fields import UnreadableItemError, as_list

Json = Any

PATH = "/scheduler"
WEIGHT, PERCENT, ABSOLUTE = "weight", "percentage", "absolute"


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The state of a queue.

    `mode`: how its capacity is configured; `weight` applies in weight mode, `percent` (of its parent) in percentage
    mode. `guaranteed`, `maximum`, `used`: fractions of the cluster. `held`: allocated resources. `dynamic`: created by
    a submission, not by the configuration. `makes_leaves`: a submission below it creates a leaf queue with the
    properties in `leaf_template`. `partitions`: its maximum fraction of each partition (node label) of which it has a
    part. `default_partition`: of containers whose request names neither a node nor a label; empty for the nodes
    without label.
    """

    path: str
    state: str
    mode: str
    weight: float
    percent: float
    guaranteed: float
    maximum: float
    used: float
    held: Resources
    apps: int
    pending: int
    dynamic: bool
    makes_leaves: bool
    leaf_template: tuple[tuple[str, str], ...]
    preemption_disabled: bool
    partitions: tuple[tuple[str, float], ...] = ()
    default_partition: str = ""

    @property
    def parent(self) -> str:
        """The path of its parent; empty for the root."""
        return self.path.rpartition(".")[0]


def walk(answer: Json, refuse: Callable[[str], object]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Every queue of the CapacityScheduler with its path, parents first; empty for another scheduler.

    `refuse`: called with the error of each queue without a path, which is skipped with its children.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    scheduler = as_object(as_object(answer.get("scheduler", answer), PATH).get("schedulerInfo"), PATH)
    if not isinstance(scheduler.get("type"), str):
        raise not_an_answer(PATH)
    waiting: list[tuple[Json, str, int]] = [(scheduler, "", 0)] if scheduler["type"] == "capacityScheduler" else []
    while waiting:
        queue, parent, depth = waiting.pop()
        if not isinstance(queue, dict) or depth > MAX_DEPTH:
            refuse(f"{fields.shortened(queue)} is not a queue")
            continue
        try:
            path = _path(queue, parent)
        except UnreadableItemError as problem:
            refuse(str(problem))
            continue
        yield path, queue
        if inner := queue.get("queues"):
            children = as_list(inner.get("queue")) if isinstance(inner, dict) else as_list(inner)
            waiting += [(child, path, depth + 1) for child in reversed(children)]


def _path(queue: dict[str, Json], parent: str) -> str:
    if queue.get("queuePath"):
        return fields.identifier(queue, "queuePath")
    name = fields.identifier(queue, "queueName") if parent or "queueName" in queue else "root"
    return f"{parent}.{name}" if parent else name


def queue_tree(answer: Json) -> dict[str, QueueReport]:
    """All queues of the CapacityScheduler by path, parents first; empty for another scheduler.

    Raises:
        NotAManagerError: it is not such an answer, or one of its queues is unreadable.
    """
    try:
        return {path: _report(path, queue) for path, queue in walk(answer, _refuse)}
    except UnreadableItemError as problem:
        raise not_an_answer(PATH, str(problem)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise not_an_answer(PATH) from None


def _refuse(problem: str) -> None:
    raise UnreadableItemError(problem)


def _report(path: str, queue: Mapping[str, Json]) -> QueueReport:
    allocated = queue.get("resourcesUsed")
    weight = _number(path, queue, "weight", -1.0)
    return QueueReport(
        path=path,
        state=queue.get("state", "" if "." in path else "RUNNING"),
        mode=queue.get("mode") or (WEIGHT if weight >= 0 else PERCENT),
        weight=max(weight, 0.0),
        percent=_number(path, queue, "capacity", 0.0),
        # The root has no absolute capacities; they default to 100%.
        guaranteed=_number(path, queue, "absoluteCapacity", 100.0) / 100.0,
        maximum=_number(path, queue, "absoluteMaxCapacity", 100.0) / 100.0,
        used=_number(path, queue, "absoluteUsedCapacity", _number(path, queue, "usedCapacity", 0.0)) / 100.0,
        held=fields.resources(allocated, clamped=True) if allocated else Resources(),
        apps=int(queue.get("numApplications", 0)),
        pending=int(queue.get("pendingContainers", 0)),
        dynamic=str(queue.get("creationMethod", "static")).startswith("dynamic"),
        makes_leaves=queue.get("autoCreationEligibility") == "flexible",
        leaf_template=_properties(queue.get("autoQueueLeafTemplateProperties")),
        preemption_disabled=bool(queue.get("preemptionDisabled", False)),
        partitions=_partitions(queue.get("capacities")),
        default_partition=queue.get("defaultNodeLabelExpression") or "",
    )


def _number(path: str, queue: Mapping[str, Json], field: str, default: float) -> float:
    value = queue.get(field, default)
    if type(value) not in (int, float) or not math.isfinite(value):
        raise UnreadableItemError(f"queue {path}: {field} is {fields.shortened(value)}")
    return float(value)


def _partitions(capacities: Mapping[str, Json] | None) -> tuple[tuple[str, float], ...]:
    entries = as_list((capacities or {}).get("queueCapacitiesByPartition"))
    maxima = ((entry.get("partitionName"), float(entry.get("absoluteMaxCapacity", 0.0))) for entry in entries)
    return tuple(sorted((name, maximum / 100.0) for name, maximum in maxima if name))


def _properties(value: Mapping[str, Json] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((entry["name"], entry["value"]) for entry in as_list((value or {}).get("property"))))
