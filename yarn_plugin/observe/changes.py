"""What is different between what is known and what was seen. Pure."""

from collections.abc import Mapping
from typing import TypeVar

from yarn_plugin.decide.events import AppsChanged, Event, NodesChanged, QueuesChanged
from yarn_plugin.model.cluster import ClusterView, Node, Queue, YarnApp

Item = TypeVar("Item")


def nodes_changed(known: ClusterView, seen: Mapping[str, Node], still_expected: bool) -> list[Event]:
    """The nodes that came, changed or went; `still_expected`: those not seen may only not have reported yet."""
    present, gone = _difference(known.nodes, seen)
    gone = () if still_expected else gone
    return [NodesChanged(present, gone)] if present or gone else []


def apps_changed(known: ClusterView, seen: Mapping[str, YarnApp]) -> list[Event]:
    """The applications that came, changed or ended."""
    present, gone = _difference(known.apps, seen)
    return [AppsChanged(present, gone)] if present or gone else []


def queues_changed(known: ClusterView, seen: Mapping[str, Queue]) -> list[Event]:
    """The queues that came, changed or went."""
    present, gone = _difference(known.queues, seen)
    return [QueuesChanged(present, gone)] if present or gone else []


def _difference(known: Mapping[str, Item], seen: Mapping[str, Item]) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    present = tuple(item for key, item in seen.items() if known.get(key) != item)
    return present, tuple(key for key in known if key not in seen)
