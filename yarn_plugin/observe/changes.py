"""What is different between what is known and what was seen, and how much of that to believe. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from yarn_plugin.decide.events import AppsChanged, NodesChanged, QueuesChanged
from yarn_plugin.model.cluster import ClusterView, Node, Queue, YarnApp

Item = TypeVar("Item")
Observation = NodesChanged | AppsChanged | QueuesChanged


@dataclass(frozen=True, slots=True)
class Broken:
    """A node that is seen, and takes no containers."""

    node: Node


@dataclass(frozen=True, slots=True)
class Doubt:
    """What was missing in one look although too much of it at once to be believed; `since` when."""

    missing: frozenset[str] = frozenset()
    since: float = 0.0


def is_mass(known: int, missing: int) -> bool:
    """Whether so many of the known things disappear at once that it must be seen twice."""
    return (missing == known and missing >= 2) or (missing > known / 2 and missing >= 3)


def confirm_gone(
    known: Collection[str], missing: Collection[str], doubt: Doubt, now: float, after: float, wary: bool
) -> tuple[frozenset[str], Doubt]:
    """Which of the missing are gone, and what is still in doubt.

    A few are gone at once, unless `wary`. A mass (`is_mass`) is gone as far as it is missing again, `after` seconds
    later or more; between those two looks nothing of it is.
    """
    lasting = doubt.missing.intersection(missing)
    if lasting and now < doubt.since + after:
        gone, waiting = frozenset[str](), replace(doubt, missing=lasting)
    else:
        gone, waiting = lasting, Doubt()
    fresh = frozenset(missing) - doubt.missing
    if not (wary or is_mass(len(known) - len(lasting), len(fresh))):
        return gone | fresh, waiting
    if waiting.missing:
        # One doubt at a time: these are new again in the look that settles it.
        return gone, waiting
    return gone, Doubt(fresh, now) if fresh else waiting


def differing(known: Mapping[str, Item], seen: Mapping[str, Item]) -> dict[str, Item]:
    """What came or changed."""
    return {name: item for name, item in seen.items() if known.get(name) != item}


def is_out_of_sight(known: ClusterView, seen: YarnApp) -> bool:
    """Whether an application shows no containers because the nodes that run them have not reported again yet."""
    before = known.apps.get(seen.id)
    return before is not None and before.containers > 0 and seen.containers == 0


def nodes_changed(present: tuple[Node | Broken, ...], gone: tuple[str, ...]) -> NodesChanged:
    """The event that nodes came, changed, broke, or went."""
    well = tuple(one for one in present if isinstance(one, Node))
    return NodesChanged(well, gone, tuple(one.node for one in present if isinstance(one, Broken)))


def newly_broken(known: ClusterView, seen: Mapping[str, Node], gone: Collection[str]) -> dict[str, Broken]:
    """The broken nodes that came or changed. One that takes containers as far as is known, and is not believed to be
    `gone`, is not among them."""
    believed = {name: node for name, node in seen.items() if name not in known.nodes or name in gone}
    return {name: Broken(node) for name, node in differing(known.broken, believed).items()}


def is_of_something(event: Observation) -> bool:
    """Whether an observation is of anything at all."""
    return bool(event.present or event.gone or (isinstance(event, NodesChanged) and event.broken))


def halves(event: Observation) -> tuple[Observation, ...]:
    """An observation in two parts; none where it is of a single thing."""
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


def the_one(event: Observation) -> tuple[str, object]:
    """The id of the only thing that an observation is of, and what was seen of it; None where it is gone."""
    if event.gone:
        return event.gone[0], None
    if isinstance(event, NodesChanged) and event.broken:
        return event.broken[0].id, Broken(event.broken[0])
    (item,) = event.present
    return item.path if isinstance(item, Queue) else item.id, item
