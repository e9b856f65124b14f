"""The pods that a claim asks for, and nodes that have room for them."""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import ClaimKey, Recorded
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Claim, LeaseRecord

Node = TypeVar("Node")


def pods_by_size(claim: Claim, node_size: int) -> tuple[tuple[int, int], ...]:
    """The pods of a claim: (number, GPUs of each); none if it uses no GPUs.

    A claim without a gang is one of as few pods as its GPUs fill: whole nodes of `node_size`, and one with the rest.
    """
    if claim.gang is not None:
        return tuple((pods.number, pods.cells_each) for pods in claim.gang.pods)
    alternatives = claim.demand.alternatives if claim.demand is not None else ()
    gpus = next((count for count in (each[GPU] for each in alternatives) if count), 0)
    nodes, rest = divmod(gpus, node_size)
    return (*([(nodes, node_size)] if nodes else []), *([(1, rest)] if rest else []))


def pods_of(claim: Claim, node_size: int) -> list[int]:
    """The GPUs of each pod, in the order of their numbers: the small ones first."""
    return sorted(size for number, size in pods_by_size(claim, node_size) for _ in range(number))


def recorded(what: Recorded, claims: Collection[ClaimKey]) -> dict[ClaimKey, list[LeaseRecord]]:
    """The records of leases by the claims that they are of: a job's own, or that of the whole application."""
    found: dict[ClaimKey, list[LeaseRecord]] = {}
    for lease in what.leases:
        for key in ((what.app, lease.job), (what.app, "")):
            if key in claims:
                found.setdefault(key, []).append(lease)
                break
    return found


def match(sizes: Mapping[int, int], leases: Iterable[LeaseRecord], cells: Cells) -> dict[int, tuple[str, ...]]:
    """The GPUs of the pods that these leases are of, by member. `sizes`: of all pods.

    A lease of several nodes, or of a size that no other pod has, is none of a pod.
    """
    left, found = dict(sizes), dict[int, tuple[str, ...]]()
    for lease in leases:
        nodes = {cells.gpus[gpu].machine for gpu in lease.gpus}
        member = next((member for member, size in left.items() if size == len(lease.gpus)), None)
        if member is not None and len(nodes) == 1:
            found[member] = lease.gpus
            del left[member]
    return found


def fit(sizes: Iterable[int], free: Mapping[Node, int]) -> list[Node] | None:
    """The node of each pod, in the order of `sizes` (GPUs): the fullest that has room. None: they do not all fit.

    Args:
        free: how many GPUs of each node are free.
    """
    left, chosen = dict(free), []
    for gpus in sizes:
        fitting = [node for node, count in left.items() if count >= gpus]
        if not fitting:
            return None
        node = min(fitting, key=left.__getitem__)
        left[node] -= gpus
        chosen.append(node)
    return chosen
