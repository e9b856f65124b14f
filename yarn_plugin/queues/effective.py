"""What queues effectively have, compared with what is configured. Pure.

The ResourceManager stores a change and may go on with an earlier capacity: in Hadoop 3.5.0 a parent of dynamic leaf
queues that changes from a weight to a percentage keeps the part that its weight gave it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.observe.queue_tree import PERCENT, WEIGHT, QueueReport
from yarn_plugin.observe.scheduler_configuration import CAPACITY
from yarn_plugin.queues.specification import QueueSpec

TOLERANCE = 0.002
"""Of the cluster: YARN keeps capacities as 32-bit numbers, and the percentages of siblings may add up to 99.9."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A queue that has another part of the cluster than its configuration gives it; both are fractions."""

    path: str
    configured: float
    effective: float

    def __str__(self) -> str:
        return f"{self.path} has {self.effective:.1%} of the cluster, not {self.configured:.1%} as configured"


def deviations(specs: Sequence[QueueSpec], tree: Mapping[str, QueueReport]) -> tuple[Deviation, ...]:
    """The queues of a file whose capacities are not in effect."""
    return tuple(_deviations(specs, tree))


def _deviations(specs: Sequence[QueueSpec], tree: Mapping[str, QueueReport]) -> Iterator[Deviation]:
    for spec in specs:
        queue = tree.get(spec.path)
        if queue is None or spec.remove or spec.get(CAPACITY) is None:
            continue
        configured = _configured(queue, tree)
        if configured is not None and abs(configured - queue.guaranteed) > TOLERANCE:
            yield Deviation(queue.path, configured, queue.guaranteed)


def _configured(queue: QueueReport, tree: Mapping[str, QueueReport]) -> float | None:
    """Its part of the cluster, given its parent's; None if that follows from neither percentages nor weights alone."""
    parent = tree.get(queue.parent)
    if parent is None:
        return None
    if queue.mode == PERCENT:
        return parent.guaranteed * queue.percent / 100.0
    siblings = [one for one in tree.values() if one.parent == queue.parent]
    total = sum(one.weight for one in siblings)
    if total <= 0 or any(one.mode != WEIGHT or one.state != "RUNNING" for one in siblings):
        return None
    return parent.guaranteed * queue.weight / total
