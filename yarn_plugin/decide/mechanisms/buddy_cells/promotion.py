"""Opportunistic work that becomes guaranteed where it runs, when its virtual cluster has room.

The papers leave the rule open. Ours: a gang is promoted if cells of its virtual cluster's quota that nobody uses can be
bound to the very leaves that it holds, with nobody evicted or downgraded, and everybody else's quota still served
(Theorem 1). The smallest cells of the quota that do are taken. Gangs that were guaranteed before come first, then those
with the higher priority, then the older ones.
"""

from collections.abc import Iterable
from dataclasses import replace

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, record_of, recover


def promote_all(allocator: Allocator, oldest_first: Iterable[str]) -> list[str]:
    """Promote whatever gangs can be promoted; their names."""
    gangs = [allocator.cluster.gangs[name] for name in oldest_first if name in allocator.cluster.gangs]
    in_order = sorted(gangs, key=lambda gang: (not gang.downgraded, -gang.request.priority))
    return [gang.name for gang in in_order if promote(allocator, gang)]


def promote(allocator: Allocator, gang: Gang) -> bool:
    """Make an opportunistic gang guaranteed, at its own priority or else 0; false, and no change, if there is no room.

    The cluster then has a new `Gang` of the same name, with the same leaves and pods.
    """
    if gang.priority != OPPORTUNISTIC or gang.stage is not Stage.ALLOCATED:
        return False
    cluster = allocator.cluster
    record = record_of(gang)
    request = replace(gang.request, priority=max(0, gang.request.priority))
    virtual = cluster.virtual.get(request.cluster)
    if virtual is None:  # The quotas have changed, and no longer have it.
        return False
    partition = virtual.pins.get(request.pinned) if request.pinned else virtual.chains.get(record.chain)
    if partition is None:
        return False
    slots = gang.slots
    levels = sorted({root.level for root in partition.cells.roots})
    for level in levels:
        before = cluster.savepoint()
        allocator.release(gang)
        again = recover(allocator, _on_cells(replace(record, request=request), level, allocator), makes_room=False)
        if again is not None and again.placement.virtual is not None:
            cluster.undo.set(again, "slots", slots)
            return True
        cluster.rollback(before)
    return False


def _on_cells(record: RunningGang, level: int, allocator: Allocator) -> RunningGang:
    """The gang as if its leaves came from cells of one level of the quota."""
    quota_type = allocator.cluster.chains[record.chain].chain.types[level - 1]
    pods = tuple(replace(pod, quota_types=(quota_type,) * len(pod.leaves)) for pod in record.pods)
    return replace(record, pods=pods)
