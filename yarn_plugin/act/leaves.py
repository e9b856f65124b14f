"""What the scheduler's configuration has for the queues directly below the pools'."""

import math
from collections.abc import Collection, Iterator, Mapping

from yarn_plugin.decide.events import LeavesSeen
from yarn_plugin.observe import translate
from yarn_plugin.observe.resource_manager import ResourceManager

CONF = "/scheduler-conf"
PREFIX = "yarn.scheduler.capacity"
CAPACITY = "capacity"


def read_configuration(manager: ResourceManager) -> dict[str, str]:
    """The scheduler's configuration by property.

    Raises:
        ManagerError: it is not shown.
    """
    return translate.configuration(manager.get(CONF))


def property_name(queue: str, name: str) -> str:
    """The whole name of a queue's property."""
    return f"{PREFIX}.{queue}.{name}"


def leaves_in(configuration: Mapping[str, str], parents: Collection[str]) -> LeavesSeen:
    """The queues directly below the parents: static ones, and the weights of others.

    A queue that YARN made for a submission, and one that is not there at all any more, is in the configuration only
    with what was written for it.
    """
    static = static_queues(configuration, parents)
    weights = (
        (queue, weight)
        for parent in parents
        for queue, value in _capacities(configuration, parent)
        if queue not in static and (weight := weight_of(value)) is not None
    )
    return LeavesSeen(tuple(sorted(static)), tuple(sorted(weights)))


def static_queues(configuration: Mapping[str, str], parents: Collection[str]) -> frozenset[str]:
    """The queues directly below the parents that the configuration itself defines."""
    return frozenset(
        f"{parent}.{name.strip()}"
        for parent in parents
        for name in configuration.get(property_name(parent, "queues"), "").split(",")
        if name.strip()
    )


def weight_of(capacity: str) -> float | None:
    """33.3 of "33.3w"; None of any other kind of capacity ("50", "[memory=1024]", "")."""
    text = capacity.strip()
    try:
        weight = float(text[:-1]) if text.endswith("w") else math.nan
    except ValueError:
        return None
    return weight if math.isfinite(weight) and weight >= 0 else None


def _capacities(configuration: Mapping[str, str], parent: str) -> Iterator[tuple[str, str]]:
    start, end = f"{PREFIX}.{parent}.", f".{CAPACITY}"
    for name, value in configuration.items():
        leaf = name[len(start) : -len(end)]
        if name.startswith(start) and name.endswith(end) and leaf and "." not in leaf:
            yield f"{parent}.{leaf}", value
