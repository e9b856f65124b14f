"""A map of a cluster of cells: a line for each node, a letter for each GPU."""

from collections.abc import Iterator
from string import ascii_uppercase

from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC, PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.quantities import count

FREE, BAD, OTHER = ".", "!", "?"
"""A free GPU; one on a bad node; one that work holds whose virtual cluster has no letter."""


def map_lines(cluster: Cluster) -> Iterator[str]:
    """The map, what its letters mean, and how fragmented each chain is."""
    letters = dict(zip(cluster.virtual, ascii_uppercase, strict=False))
    for name, levels in cluster.forest.levels.items():
        chain = cluster.chains[name].chain
        nodes = levels[chain.node_level - 1]
        width = max(len(node.address) for node in nodes)
        blocked = sum(any(map(_is_guaranteed, node.leaves)) for node in nodes)
        yield (
            f"chain {name}: {blocked:,} of {count(len(nodes), 'node')} cannot take a guaranteed pod of all their GPUs, "
            "as guaranteed work holds some"
        )
        for node in nodes:
            yield f"  {node.address:{width}}  {''.join(_letter(leaf, node, letters) for leaf in node.leaves)}"
    known = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    yield f"{known}; lower case: opportunistic work; {FREE} free; {BAD} free, on a bad node"


def _is_guaranteed(leaf: PhysicalCell) -> bool:
    return any(gang is not None and gang.priority > OPPORTUNISTIC for gang in (leaf.holder, leaf.reserver))


def _letter(leaf: PhysicalCell, node: PhysicalCell, letters: dict[str, str]) -> str:
    if leaf.holder is None:
        return BAD if node.bad else FREE
    letter = letters.get(leaf.holder.request.cluster, OTHER)
    return letter if leaf.holder.priority > OPPORTUNISTIC else letter.lower()
