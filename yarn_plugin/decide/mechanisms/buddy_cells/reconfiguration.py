"""What a new configuration would mean for the work that runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.promotion import promote_all
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, recover
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The cluster in the new configuration. `unleased`: gangs that run on leaves that are no longer part of it."""

    allocator: Allocator
    downgraded: tuple[str, ...]
    unleased: tuple[str, ...]


def reconfigure(spec: ClusterSpec, running: Sequence[RunningGang], bad_nodes: Sequence[str] = ()) -> Reconfigured:
    """Build a cluster and let the running gangs hold their leaves, in this order.

    A gang whose cells are no longer in the quota keeps its guarantee if the quota has other cells for it.

    Raises:
        CellFileError: the specification is contradictory, or its quotas cannot be served.
    """
    allocator = Allocator(Cluster(spec))
    for node in bad_nodes:
        allocator.cluster.set_bad(node, True)
    unleased: list[str] = []
    for gang in running:
        if recover(allocator, gang) is None:
            unleased.append(gang.request.gang)
    gangs = allocator.cluster.gangs
    guaranteed = [gang.request.gang for gang in running if gang.is_guaranteed and gang.request.gang in gangs]
    promote_all(allocator, [name for name in guaranteed if gangs[name].downgraded])
    downgraded = tuple(name for name in guaranteed if gangs[name].downgraded)
    allocator.cluster.commit()
    return Reconfigured(allocator, downgraded, tuple(unleased))
