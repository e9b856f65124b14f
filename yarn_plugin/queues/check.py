"""Check that the queues are consistent after a change. Pure.

The ResourceManager itself accepts much of this with "successfully applied": a queue without a parent, settings of a
queue that does not exist, and the removal of a running queue whose state is set to STOPPED in the same request.
"""

from collections.abc import Iterator, Sequence

from yarn_plugin.observe.scheduler_configuration import CAPACITY
from yarn_plugin.quantities import count
from yarn_plugin.queues.live import LiveQueues
from yarn_plugin.queues.specification import (
    DYNAMIC_LEAVES,
    LEAF_TEMPLATE,
    MAXIMUM_CAPACITY,
    PARTITIONS,
    ROOT,
    Problem,
    QueueSpec,
    partitions_in,
)

_FULL_PERCENT = 100.0
_TOLERANCE = 0.1
"""Tolerance of the sum of siblings in percent, so that three times 33.3 is accepted."""


def find_problems(specs: Sequence[QueueSpec], live: LiveQueues) -> list[Problem]:
    """All problems of these queues together with the existing ones."""
    by_path = {spec.path: spec for spec in specs}
    problems: list[Problem] = []
    for spec in specs:
        if spec.remove:
            problems += _problems_of_removed(spec, by_path, live)
        else:
            problems += _problems_of_present(spec, by_path, live)
            problems += _problems_of_partitions(spec, by_path, live)
    for parent in dict.fromkeys(spec.parent for spec in specs if spec.path != ROOT and _affects_siblings(spec, live)):
        problems += _problems_of_siblings(parent, by_path, live)
    return problems


def _problems_of_removed(spec: QueueSpec, by_path: dict[str, QueueSpec], live: LiveQueues) -> Iterator[Problem]:
    queue = live.tree.get(spec.path)
    if queue is None:
        return
    field = f"queue {spec.path}: remove"
    if queue.dynamic:
        yield Problem(field, None, "a dynamic queue; the ResourceManager removes it once it is empty")
    elif queue.state != "STOPPED" or queue.apps:
        apps = f" with {count(queue.apps, 'application')}" if queue.apps else ""
        yield Problem(
            field,
            None,
            f'is {queue.state}{apps}; first apply state = "STOPPED", wait until it is empty, then remove it',
        )
    remaining = [child for child in live.children(spec.path) if not (child in by_path and by_path[child].remove)]
    if remaining:
        yield Problem(field, None, f"has child queues {', '.join(remaining)}; remove those too")


def _problems_of_present(spec: QueueSpec, by_path: dict[str, QueueSpec], live: LiveQueues) -> Iterator[Problem]:
    if live.has(spec.path) and live.tree[spec.path].dynamic:
        yield Problem("path", spec.path, "a dynamic queue; set its parent's leaf_template instead")
        return
    if not live.has(spec.path):
        yield from _problems_of_new(spec, by_path, live)
    if any(name.startswith(LEAF_TEMPLATE) for name, _ in spec.properties) and not _has_dynamic_leaves(spec, live):
        yield Problem(f"queue {spec.path}: leaf_template", None, "set dynamic_leaves = true, or it has no effect")
    capacity, maximum = _new_value(spec, CAPACITY, live), _new_value(spec, MAXIMUM_CAPACITY, live)
    if _mode(capacity) == "percent" and _is_number(maximum) and float(maximum or 0) < float(capacity or 0):
        expected = f"must be at least its capacity, {capacity}"
        yield Problem(f"queue {spec.path}: maximum_capacity", float(maximum or 0), expected)


def _problems_of_new(spec: QueueSpec, by_path: dict[str, QueueSpec], live: LiveQueues) -> Iterator[Problem]:
    parent = by_path.get(spec.parent)
    if parent is not None and parent.remove:
        yield Problem("path", spec.path, f"its parent {spec.parent} is being removed")
    elif parent is None and not live.is_configured(spec.parent):
        yield Problem("path", spec.path, f"its parent {spec.parent} does not exist; add a [[queue]] for it")
    if spec.get(CAPACITY) is None:
        yield Problem(f"queue {spec.path}: weight", None, "required for a new queue, or a capacity in percent")


def _problems_of_partitions(spec: QueueSpec, by_path: dict[str, QueueSpec], live: LiveQueues) -> Iterator[Problem]:
    """YARN accepts all of this, and then schedules nothing on the nodes of the partition."""
    for name in spec.partitions:
        field = f"queue {spec.path}: partition {name}"
        if live.partitions is not None and name not in live.partitions:
            expected = (
                "is no node label of the ResourceManager; set yarn.node-labels.enabled=true and "
                f"yarn.node-labels.fs-store.root-dir there, then: yarn rmadmin -addToClusterNodeLabels '{name}'"
            )
            yield Problem(field, None, expected)
        above = by_path.get(spec.parent)
        of_parent = live.get(spec.parent, PARTITIONS) if above is None else _new_value(above, PARTITIONS, live)
        if spec.path != ROOT and not {name, "*"} & set(partitions_in(of_parent)):
            yield Problem(field, None, f"its parent has none; add a [queue.partition.{name}] to {spec.parent}")
        if _has_dynamic_leaves(spec, live):
            expected = "set dynamic_leaves = false: YARN gives dynamic leaf queues nothing of a partition"
            yield Problem(field, None, expected)


def _affects_siblings(spec: QueueSpec, live: LiveQueues) -> bool:
    return (spec.remove and live.has(spec.path)) or spec.get(CAPACITY) is not None


def _problems_of_siblings(parent: str, by_path: dict[str, QueueSpec], live: LiveQueues) -> Iterator[Problem]:
    """In legacy mode siblings all have weights, or percentages that add up to 100; otherwise the sum is at most 100."""
    capacities = {path: value for path, value in _siblings(parent, by_path, live).items() if value is not None}
    modes = {path: _mode(value) for path, value in capacities.items()}
    if live.is_legacy and len(set(modes.values())) > 1:
        shown = ", ".join(f"{path} has {capacities[path]}" for path in capacities)
        yield Problem(
            f"queues in {parent}",
            None,
            f"must all have a weight, or all a capacity ({shown}); add a [[queue]] for the others",
        )
        return
    percents = [float(value) for path, value in capacities.items() if modes[path] == "percent"]
    total = sum(percents)
    if total > _FULL_PERCENT + _TOLERANCE or (live.is_legacy and 0 < total < _FULL_PERCENT - _TOLERANCE):
        shown = ", ".join(f"{path} {capacities[path]}" for path in capacities)
        limit = "" if live.is_legacy else "at most "
        yield Problem(f"capacities in {parent}", total, f"must add up to {limit}100 percent ({shown})")


def _siblings(parent: str, by_path: dict[str, QueueSpec], live: LiveQueues) -> dict[str, str | None]:
    """The capacity of each configured queue in `parent` after the change."""
    remaining = [path for path in live.children(parent) if not (path in by_path and by_path[path].remove)]
    new = [spec.path for spec in by_path.values() if spec.parent == parent and not spec.remove]
    return {
        path: _new_value(by_path[path], CAPACITY, live) if path in by_path else live.get(path, CAPACITY)
        for path in dict.fromkeys([*remaining, *new])
        if path != ROOT
    }


def _new_value(spec: QueueSpec, name: str, live: LiveQueues) -> str | None:
    given = spec.get(name)
    return live.get(spec.path, name) if given is None else given


def _has_dynamic_leaves(spec: QueueSpec, live: LiveQueues) -> bool:
    return (_new_value(spec, DYNAMIC_LEAVES, live) or "false").lower() == "true"


def _mode(capacity: str | None) -> str:
    if capacity is None:
        return "none"
    return "weight" if capacity.endswith("w") else "percent" if _is_number(capacity) else "absolute"


def _is_number(value: str | None) -> bool:
    try:
        float(value or "")
    except ValueError:
        return False
    return True
