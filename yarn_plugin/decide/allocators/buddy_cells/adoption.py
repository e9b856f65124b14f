"""Leasing running gangs the GPUs that their applications have records of, after the journal was lost.

It is not recorded from which cells of the quota their leaves came. The lowest levels that are as large as the pods are
tried first, then higher ones. If the quota has no such cells, or Theorem 1's invariant would no longer hold with them,
the gang goes on as opportunistic work. A pod without a record counts as one that has given its cells back.
"""

from collections.abc import Iterator, Mapping, Sequence

from yarn_plugin.decide.allocators.buddy_cells.gangs import Gangs
from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.allocators.placed_gangs import Placed
from yarn_plugin.decide.allocators.plan import ADOPTED, Holding, Place
from yarn_plugin.decide.allocators.pods import match
from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Request
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, RunningPod, recover
from yarn_plugin.model.share import LeaseClass, LeaseRecord


def adopt(gangs: Gangs, request: Request, claim: ClaimKey, leases: Sequence[LeaseRecord]) -> None:
    """Lease a gang what it has records of."""
    leaf_of = {gpu: leaf for leaf, gpu in gangs.gpus.items() if leaf.holder is None and leaf.reserver is None}
    usable = [lease for lease in leases if all(gpu in leaf_of for gpu in lease.gpus)]
    pods = match(dict(enumerate(request.sizes)), usable, gangs.seen.cells)
    if not pods:
        return
    places = {slot: tuple([leaf_of[gpu] for gpu in gpus]) for slot, gpus in pods.items()}
    gang = _recovered(gangs, request, places)
    gangs.counter += 1
    kind: LeaseClass = "opportunistic" if gang.placement.virtual is None else "guaranteed"
    keys = tuple(f"{gangs.counter}.{slot}" if slot in pods else None for slot in range(len(request.sizes)))
    for slot, key in enumerate(keys):
        if key is not None:
            gangs.mechanism.fill(gang, slot, key)
            holdings = tuple(map(Holding, pods[slot]))
            gangs.place.append(Place(key, claim, holdings, member=slot, kind=kind, note=ADOPTED))
    over = frozenset(slot for slot, key in enumerate(keys) if key is None)
    gangs.placed[request.gang] = Placed(claim, keys, kind, given_back=over)


def _recovered(gangs: Gangs, request: Request, places: Mapping[int, Sequence[PhysicalCell]]) -> Gang:
    chain = next(iter(places.values()))[0].chain.name
    for quota_types in (*_quota_types(gangs.cluster, request, chain), {}):
        before = gangs.cluster.savepoint()
        pods = [_pod(places.get(slot, ()), quota_types.get(slot)) for slot in range(len(request.sizes))]
        gang = recover(gangs.mechanism, RunningGang(request, chain, tuple(pods)), makes_room=False)
        assert gang is not None, "its leaves are there, and free"
        if not quota_types or gang.placement.virtual is not None:
            return gang
        gangs.cluster.rollback(before)
    raise AssertionError("opportunistic work needs no cells of a quota")


def _quota_types(cluster: Cluster, request: Request, chain: str) -> Iterator[dict[int, str]]:
    """The types of the cells of the quota that the pods may come from, by slot."""
    virtual = cluster.virtual.get(request.cluster)
    parts = {} if virtual is None else virtual.pins if request.pinned else virtual.chains
    partition = parts.get(request.pinned or chain)
    if partition is None or not request.guaranteed:
        return
    sizes = partition.cells.chain.sizes
    levels = [level for level in range(1, len(sizes) + 1) if partition.cells.roots_at(level)]
    for lowest in levels:
        found = {}
        for slot, size in enumerate(request.sizes):
            fitting = [level for level in levels if level >= lowest and sizes[level - 1] >= size]
            if fitting:
                found[slot] = partition.cells.chain.types[fitting[0] - 1]
        if len(found) == len(request.sizes):
            yield found


def _pod(leaves: Sequence[PhysicalCell], quota_type: str | None) -> RunningPod:
    node = leaves[0].node if leaves else None
    types = () if quota_type is None else (quota_type,) * len(leaves)
    return RunningPod("" if node is None else node.address, tuple(leaf.address for leaf in leaves), types)
