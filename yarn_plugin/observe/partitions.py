"""The partitions of a cluster: YARN's node labels, each of which splits off the nodes that have it."""

from typing import Any

from yarn_plugin.observe.answers import as_object, unwrapped
from yarn_plugin.observe.fields import objects_in
from yarn_plugin.observe.resource_manager import ResourceManager

PATH = "/get-node-labels"


def read(manager: ResourceManager) -> dict[str, bool]:
    """The partitions by name, without the default one; whether each is exclusive. Empty if node labels are off.

    Raises:
        ManagerError: they cannot be read.
    """
    return parse(manager.get(PATH))


def parse(answer: Any) -> dict[str, bool]:
    """The partitions in an answer; unreadable ones are left out.

    Raises:
        NotAManagerError: it is not such an answer.
    """
    entries = objects_in(unwrapped(as_object(answer, PATH), "nodeLabelsInfo").get("nodeLabelInfo"))
    return {
        entry["name"]: str(entry.get("exclusivity", "true")).lower() == "true"
        for entry in entries
        if isinstance(entry.get("name"), str) and entry["name"]
    }
