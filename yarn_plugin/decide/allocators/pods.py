"""The pods that a claim asks for, and nodes that have room for them."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Claim

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
