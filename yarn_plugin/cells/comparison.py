"""A placement compared with a recorded one: leaf by leaf, or by shape."""

from collections import Counter
from collections.abc import Iterable, Mapping

from yarn_plugin.cells.cases import Pods, Shape
from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Placement

PodPlace = tuple[str, tuple[str, ...]]
"""A node, and leaf addresses in it, sorted."""


def places(placement: Placement) -> Counter[PodPlace]:
    """The places of the pods of a placement."""
    return Counter(place_of(leaves) for leaves in placement.physical if leaves)


def place_of(leaves: Iterable[PhysicalCell]) -> PodPlace:
    """The node and leaves of a pod."""
    nodes, addresses = zip(*((leaf.node, leaf.address) for leaf in leaves), strict=True)
    return nodes[0].address, _in_order(addresses)


def recorded_places(group: Mapping[str, Pods]) -> Counter[PodPlace]:
    """The places of the pods of a recorded placement."""
    return Counter(recorded_place(node, leaves) for pods in group.values() for node, leaves in pods)


def recorded_place(node: str, leaves: Iterable[int | str]) -> PodPlace:
    """The node and leaves of a recorded pod."""
    return node, _in_order(str(leaf) for leaf in leaves)


def _in_order(addresses: Iterable[str]) -> tuple[str, ...]:
    """Addresses with numbers in numeric order."""
    return tuple(sorted(addresses, key=lambda address: (len(address), address)))


def shape_of(placement: Placement) -> Shape:
    """The shape of a placement."""
    levels: dict[str, list[int]] = {}
    for leaves in placement.physical:
        levels.setdefault(str(len(leaves)), []).append(common_level(leaves))
    per_node = Counter(leaf.node for leaf in placement.leaves())
    return Shape(
        chain=placement.physical[0][0].chain.name,
        pod_levels={size: sorted(each) for size, each in levels.items()},
        per_node=sorted(per_node.values(), reverse=True),
        span=common_level(list(placement.leaves())),
    )


def is_same_shape(shape: Shape, recorded: Shape) -> bool:
    """Whether two shapes are equal, whatever the order of equal pods."""
    expected = {size: sorted(levels) for size, levels in recorded.pod_levels.items()}
    return (shape.chain, shape.pod_levels, shape.per_node, shape.span) == (
        recorded.chain,
        expected,
        recorded.per_node,
        recorded.span,
    )


def common_level(leaves: Iterable[PhysicalCell]) -> int:
    """The level of the lowest common ancestor; one above the top if there is none."""
    above: set[PhysicalCell | None] = set(leaves)
    level = 1
    while len(above) > 1:
        above = {cell.parent if cell is not None else None for cell in above}
        level += 1
    return level
