"""The difference between the known and the polled items, and which part of it is confirmed. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from yarn_plugin.decide.events import AppsChanged, NodesChanged, QueuesChanged
from yarn_plugin.model.cluster import ClusterView, Node, Queue, YarnApp

Item = TypeVar("Item")
Observation = NodesChanged | AppsChanged | QueuesChanged


@dataclass(frozen=True, slots=True)
class Broken:
    """A node that is listed and takes no containers."""

    node: Node


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Items that disappeared together: a second poll must confirm it. `since`: when they were first missing."""

    missing: frozenset[str] = frozenset()
    since: float = 0.0


def is_mass_disappearance(known: int, missing: int) -> bool:
    """Whether so many of the known items are missing at once that a second poll must confirm it."""
    return (missing == known and missing >= 2) or (missing > known / 2 and missing >= 3)


def confirm_gone(
    known: Collection[str],
    missing: Collection[str],
    unconfirmed: Unconfirmed,
    now: float,
    delay: float,
    confirm_all: bool,
) -> tuple[frozenset[str], Unconfirmed]:
    """Which of the missing items are gone, and which are still unconfirmed.

    A few missing items are gone at once, unless `confirm_all`. Of a mass disappearance, those are gone that are missing
    again at least `delay` seconds later; until then none is.
    """
    still_missing = unconfirmed.missing.intersection(missing)
    if still_missing and now < unconfirmed.since + delay:
        gone, waiting = frozenset[str](), replace(unconfirmed, missing=still_missing)
    else:
        gone, waiting = still_missing, Unconfirmed()
    fresh = frozenset(missing) - unconfirmed.missing
    if not (confirm_all or is_mass_disappearance(len(known) - len(still_missing), len(fresh))):
        return gone | fresh, waiting
    if waiting.missing:
        # One confirmation at a time: these count as new again in the poll that completes it.
        return gone, waiting
    return gone, Unconfirmed(fresh, now) if fresh else waiting


def changed_items(known: Mapping[str, Item], polled: Mapping[str, Item]) -> dict[str, Item]:
    """The items that are new or have changed."""
    return {
        name: item
        for name, item in polled.items()
        # Most are the same object, which need not be compared.
        if (before := known.get(name)) is not item and before != item
    }


def is_awaiting_nodes(known: ClusterView, polled: YarnApp) -> bool:
    """Whether an application shows no containers only because its nodes have not registered again yet."""
    before = known.apps.get(polled.id)
    return before is not None and before.containers > 0 and polled.containers == 0


def nodes_changed(present: tuple[Node | Broken, ...], gone: tuple[str, ...]) -> NodesChanged:
    """The event that nodes are new, have changed, are broken or gone."""
    healthy = tuple(one for one in present if isinstance(one, Node))
    return NodesChanged(healthy, gone, tuple(one.node for one in present if isinstance(one, Broken)))


def newly_broken(known: ClusterView, polled: Mapping[str, Node], gone: Collection[str]) -> dict[str, Broken]:
    """The broken nodes that are new or have changed, except known healthy ones that are not confirmed `gone`."""
    confirmed = {name: node for name, node in polled.items() if name not in known.nodes or name in gone}
    return {name: Broken(node) for name, node in changed_items(known.broken, confirmed).items()}


def has_content(event: Observation) -> bool:
    """Whether an observation contains at least one item."""
    return bool(event.present or event.gone or (isinstance(event, NodesChanged) and event.broken))


def split_in_two(event: Observation) -> tuple[Observation, ...]:
    """An observation in two parts; empty if it contains a single item."""
    part: Callable[[Any, Any], Observation] = type(event)
    present, gone = event.present, event.gone
    if isinstance(event, NodesChanged) and event.broken:
        if present or gone:
            return part(present, gone), NodesChanged((), (), event.broken)
        part, present = lambda some, _: NodesChanged((), (), some), event.broken
    if len(present) + len(gone) < 2:
        return ()
    if present and gone:
        return part(present, ()), part((), gone)
    middle = (len(present) + len(gone)) // 2
    return part(present[:middle], gone[:middle]), part(present[middle:], gone[middle:])


def single_item(event: Observation) -> tuple[str, object]:
    """The id and the value of an observation's only item; the value is None if it is gone."""
    if event.gone:
        return event.gone[0], None
    if isinstance(event, NodesChanged) and event.broken:
        return event.broken[0].id, Broken(event.broken[0])
    (item,) = event.present
    return item.path if isinstance(item, Queue) else item.id, item
