"""The ResourceManager's queues as /scheduler shows them: how each is set up, and its use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from yarn_plugin.model.resources import MEMORY, VCORES, Resources
from yarn_plugin.observe.resource_manager import EXPECTED, NotAManagerError

WEIGHT, PERCENT, ABSOLUTE = "weight", "percentage", "absolute"


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A queue as it is now.

    `mode`: how its own capacity is given; `weight` counts in weight mode, `percent` (of its parent) in percentage
    mode. `guaranteed`, `maximum`, `used`: fractions of the cluster. `dynamic`: made by a submission, not by the
    configuration. `makes_leaves`: a submission below it makes a leaf queue with the properties in `leaf_template`.
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

    @property
    def parent(self) -> str:
        """The path of the queue that this one lies in; empty for the root."""
        return self.path.rpartition(".")[0]


def queue_tree(answer: Any) -> dict[str, QueueReport]:
    """All queues by path, each parent before its children; empty where it is not the CapacityScheduler that answers.

    Raises:
        NotAManagerError: what answers is no scheduler, or says what cannot be read.
    """
    try:
        scheduler = answer.get("scheduler", answer)["schedulerInfo"]
        if scheduler["type"] != "capacityScheduler":
            return {}
        return {report.path: report for report in _reports(scheduler, "")}
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise NotAManagerError(f"the answer to /scheduler is not a ResourceManager's; {EXPECTED}") from None


def _reports(queue: Mapping[str, Any], parent: str) -> Iterator[QueueReport]:
    report = _report(queue, parent)
    yield report
    for child in _each((queue.get("queues") or {}).get("queue")):
        yield from _reports(child, report.path)


def _report(queue: Mapping[str, Any], parent: str) -> QueueReport:
    name = queue.get("queueName", "root")
    is_root = not parent
    weight = float(queue.get("weight", -1.0))
    return QueueReport(
        path=queue.get("queuePath") or (f"{parent}.{name}" if parent else name),
        state=queue.get("state", "RUNNING" if is_root else ""),
        mode=queue.get("mode") or (WEIGHT if weight >= 0 else PERCENT),
        weight=max(weight, 0.0),
        percent=float(queue.get("capacity", 0.0)),
        # The root has no absolute values of its own: it is everything.
        guaranteed=float(queue.get("absoluteCapacity", 100.0)) / 100.0,
        maximum=float(queue.get("absoluteMaxCapacity", 100.0)) / 100.0,
        used=float(queue.get("absoluteUsedCapacity", queue.get("usedCapacity", 0.0))) / 100.0,
        held=_held(queue.get("resourcesUsed")),
        apps=int(queue.get("numApplications", 0)),
        pending=int(queue.get("pendingContainers", 0)),
        dynamic=str(queue.get("creationMethod", "static")).startswith("dynamic"),
        makes_leaves=queue.get("autoCreationEligibility") == "flexible",
        leaf_template=_properties(queue.get("autoQueueLeafTemplateProperties")),
        preemption_disabled=bool(queue.get("preemptionDisabled", False)),
    )


def _held(written: Mapping[str, Any] | None) -> Resources:
    entries = _each(((written or {}).get("resourceInformations") or {}).get("resourceInformation"))
    if entries:
        return Resources.of({entry["name"]: max(int(entry["value"]), 0) for entry in entries})
    return Resources.of({MEMORY: int((written or {}).get("memory", 0)), VCORES: int((written or {}).get("vCores", 0))})


def _properties(written: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((entry["name"], entry["value"]) for entry in _each((written or {}).get("property"))))


def _each(value: Any) -> list[Any]:
    """A list; one object where the ResourceManager writes a list of one without brackets."""
    return value if isinstance(value, list) else [] if value is None else [value]
