"""The CapacityScheduler's configuration over REST (/scheduler-conf): reading and changing it.

The ResourceManager answers "successfully applied" to changes that it drops, so callers read their
changes back (`has_value`). Callers (`act`, `queues`) check which queues they may change.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yarn_plugin.observe import fields
from yarn_plugin.observe.answers import as_object, not_an_answer
from yarn_plugin.observe.fields import as_list
from yarn_plugin.observe.resource_manager import ResourceManager

PATH = "/scheduler-conf"
PREFIX = "yarn.scheduler.capacity"
CAPACITY = "capacity"
QUEUES = "queues"

Settings = Mapping[str, str]
"""Values of a queue's properties, by their names relative to the queue."""


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """The configured properties, by their full names.

    For a dynamic queue and for a deleted one, only the properties that were written explicitly.
    """

    properties: Mapping[str, str]

    def get(self, queue: str, name: str) -> str | None:
        """A property of a queue; None if it is not set."""
        return self.properties.get(property_name(queue, name))

    def global_property(self, name: str) -> str | None:
        """A global property of the scheduler; None if it is not set."""
        return self.properties.get(f"{PREFIX}.{name}")

    def has_value(self, queue: str, name: str, value: str) -> bool:
        """Whether a property has this value or an equivalent one; empty means not set."""
        return is_equivalent(self.get(queue, name) or "", value)

    def children(self, queue: str) -> tuple[str, ...]:
        """The paths of the static child queues."""
        names = (self.get(queue, QUEUES) or "").split(",")
        return tuple(f"{queue}.{name.strip()}" for name in names if name.strip())

    def capacities_below(self, parent: str) -> Iterator[tuple[str, str]]:
        """The child queues with an explicit capacity, static and dynamic, and that capacity."""
        start, end = f"{PREFIX}.{parent}.", f".{CAPACITY}"
        for name, value in self.properties.items():
            leaf = name[len(start) : -len(end)]
            if name.startswith(start) and name.endswith(end) and leaf and "." not in leaf:
                yield f"{parent}.{leaf}", value


def read(manager: ResourceManager) -> SchedulerConfiguration:
    """The current configuration.

    Raises:
        ManagerError: it cannot be read.
    """
    return parse(manager.get(PATH))


def parse(answer: Any) -> SchedulerConfiguration:
    """The configuration in an answer.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    content = as_object(answer.get("sched-conf", answer), PATH)
    entries = as_list(content.get("property"))
    if "property" not in content or not all(isinstance(entry, dict) for entry in entries):
        raise not_an_answer(PATH)
    found = [(entry.get("name"), entry.get("value")) for entry in entries]
    if not all(isinstance(name, str) and isinstance(value, str | None) for name, value in found):
        raise not_an_answer(PATH)
    return SchedulerConfiguration({fields.encodable(name): fields.encodable(value or "") for name, value in found})


def write(
    manager: ResourceManager,
    update: Mapping[str, Settings],
    add: Mapping[str, Settings] | None = None,
    remove: Sequence[str] = (),
) -> None:
    """Change queues, by their paths, in one atomic request. The ResourceManager may accept it and change nothing.

    The body is not wrapped in "sched-conf" as answers are: the ResourceManager would answer 200 and change nothing.

    Raises:
        ManagerError: it refused the request.
    """
    parts: dict[str, list[Any]] = {
        "add-queue": [_settings(queue, settings) for queue, settings in (add or {}).items()],
        "update-queue": [_settings(queue, settings) for queue, settings in update.items()],
        "remove-queue": list(remove),
    }
    manager.put(PATH, {name: part for name, part in parts.items() if part})


def _settings(queue: str, settings: Settings) -> dict[str, Any]:
    entries = [{"key": name, "value": value} for name, value in settings.items()]
    return {"queue-name": queue, "params": {"entry": entries}}


def property_name(queue: str, name: str) -> str:
    """The full name of a queue's property."""
    return f"{PREFIX}.{queue}.{name}"


def weight_of(capacity: str) -> float | None:
    """33.3 for "33.3w"; None for any other kind of capacity ("50", "[memory=1024]", "")."""
    text = capacity.strip()
    try:
        weight = float(text[:-1]) if text.endswith("w") else math.nan
    except ValueError:
        return None
    return weight if math.isfinite(weight) and weight >= 0 else None


def is_equivalent(one: str | None, other: str | None) -> bool:
    """Whether two values of a property are equivalent: `8w` and `8.0w`, `true` and `TRUE`."""
    if one is None or other is None:
        return one is other
    return _normalized(one) == _normalized(other)


def _normalized(value: str) -> tuple[float, str] | str:
    digits = value.strip()
    unit = "w" if digits.endswith("w") else ""
    try:
        return float(digits.removesuffix("w")), unit
    except ValueError:
        return value.lower() if value.lower() in ("true", "false") else value
