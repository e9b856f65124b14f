"""The CapacityScheduler's configuration over REST, /scheduler-conf: how it is read, changed, and what its names mean.

Reading and writing are one room, beside the client, as neither is right without the other: the ResourceManager says
"successfully applied" to changes that it drops, so that a write is done when it was read back (`has`). Whose queues may
be written at all is for those to say who write: `act` and `queues`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yarn_plugin.observe import fields
from yarn_plugin.observe.answers import as_object, each, not_an_answer
from yarn_plugin.observe.resource_manager import ResourceManager

PATH = "/scheduler-conf"
PREFIX = "yarn.scheduler.capacity"
CAPACITY = "capacity"
QUEUES = "queues"

Settings = Mapping[str, str]
"""Values of a queue's properties, by their names below the queue's path."""


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """What is configured: values by the whole names of properties.

    Of a queue that a submission made, and of one that is not there at all any more, only what was written for it.
    """

    properties: Mapping[str, str]

    def get(self, queue: str, name: str) -> str | None:
        """A property of a queue; None where it is not set."""
        return self.properties.get(property_name(queue, name))

    def of_scheduler(self, name: str) -> str | None:
        """A property of the scheduler as a whole; None where it is not set."""
        return self.properties.get(f"{PREFIX}.{name}")

    def has(self, queue: str, name: str, value: str) -> bool:
        """Whether a property has what was written, or what means the same. An empty value takes a property away."""
        return same(self.get(queue, name) or "", value)

    def children(self, queue: str) -> tuple[str, ...]:
        """The paths of the queues directly below one that the configuration itself defines: static ones."""
        names = (self.get(queue, QUEUES) or "").split(",")
        return tuple(f"{queue}.{name.strip()}" for name in names if name.strip())

    def capacities_below(self, parent: str) -> Iterator[tuple[str, str]]:
        """The queues directly below one that have a capacity, static or not, and that capacity."""
        start, end = f"{PREFIX}.{parent}.", f".{CAPACITY}"
        for name, value in self.properties.items():
            leaf = name[len(start) : -len(end)]
            if name.startswith(start) and name.endswith(end) and leaf and "." not in leaf:
                yield f"{parent}.{leaf}", value


def read(manager: ResourceManager) -> SchedulerConfiguration:
    """What is configured now.

    Raises:
        ManagerError: it is not shown.
    """
    return parse(manager.get(PATH))


def parse(answer: Any) -> SchedulerConfiguration:
    """What an answer says.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    held = as_object(answer.get("sched-conf", answer), PATH)
    entries = each(held.get("property"))
    if "property" not in held or not all(isinstance(entry, dict) for entry in entries):
        raise not_an_answer(PATH)
    found = [(entry.get("name"), entry.get("value")) for entry in entries]
    if not all(isinstance(name, str) and isinstance(value, str | None) for name, value in found):
        raise not_an_answer(PATH)
    return SchedulerConfiguration({fields.cleaned(name): fields.cleaned(value or "") for name, value in found})


def write(
    manager: ResourceManager,
    update: Mapping[str, Settings],
    add: Mapping[str, Settings] | None = None,
    remove: Sequence[str] = (),
) -> None:
    """Change queues, by their paths, in one request: all of it is done or nothing, or nothing is and it says yes.

    The body is bare: wrapped in "sched-conf", as answers are, the ResourceManager answers 200 and changes nothing.

    Raises:
        ManagerError: it refused.
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
    """The whole name of a queue's property."""
    return f"{PREFIX}.{queue}.{name}"


def weight_of(capacity: str) -> float | None:
    """33.3 of "33.3w"; None of any other kind of capacity ("50", "[memory=1024]", "")."""
    text = capacity.strip()
    try:
        weight = float(text[:-1]) if text.endswith("w") else math.nan
    except ValueError:
        return None
    return weight if math.isfinite(weight) and weight >= 0 else None


def same(one: str | None, other: str | None) -> bool:
    """Whether two values of a property mean the same: `8w` and `8.0w`, `true` and `TRUE`."""
    if one is None or other is None:
        return one is other
    return _meaning(one) == _meaning(other)


def _meaning(value: str) -> tuple[float, str] | str:
    digits = value.strip()
    unit = "w" if digits.endswith("w") else ""
    try:
        return float(digits.removesuffix("w")), unit
    except ValueError:
        return value.lower() if value.lower() in ("true", "false") else value
