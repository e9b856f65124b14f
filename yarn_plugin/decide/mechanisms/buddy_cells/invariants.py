"""What must hold after every step.

`check_quick` is cheap enough to run live: Theorem 1's invariant for every chain. `validate` checks the whole state.
"""

from collections.abc import Iterable, Iterator
from itertools import chain as concatenate

from yarn_plugin.decide.mechanisms.buddy_cells.cells import FREE, OPPORTUNISTIC, PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import ChainState, Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Stage


class InvariantError(AssertionError):
    """The state contradicts itself."""


def check_quick(cluster: Cluster) -> None:
    """Check that everything the virtual clusters may still claim can be served.

    Raises:
        InvariantError: it cannot.
    """
    for state in cluster.chains.values():
        if (missing := state.quotas.shortage(state.counts())) is not None:
            raise InvariantError(f"chain {state.chain.name}: {missing}")


def validate(cluster: Cluster) -> None:
    """Check the whole state, in time linear in the number of cells.

    Raises:
        InvariantError: with everything that is wrong.
    """
    check_quick(cluster)
    problems = list(
        concatenate(
            *(_free_lists(state, cluster) for state in cluster.chains.values()),
            _bindings(cluster),
            _counts(cluster),
            _leaves(cluster),
            *(_gang(gang) for gang in cluster.gangs.values()),
            _low(cluster),
            _quotas(cluster),
        )
    )
    if problems:
        raise InvariantError("; ".join(problems[:10]))


def _physical(cluster: Cluster) -> Iterator[PhysicalCell]:
    return (cell for levels in cluster.forest.levels.values() for cells in levels for cell in cells)


def _virtual(cluster: Cluster) -> Iterator[VirtualCell]:
    return (
        cell
        for virtual in cluster.virtual.values()
        for partition in virtual.partitions()
        for cells in partition.cells.levels
        for cell in cells
    )


def _free_lists(state: ChainState, cluster: Cluster) -> Iterator[str]:
    """Each leaf lies in exactly one cell that is free or serves a cell of a quota."""
    for level, cells in enumerate(state.free.levels, 1):
        yield from (f"{cell} is in the free list of level {level}" for cell in cells.cells if cell.level != level)
        if list(cells.by_low()) != sorted(cells.cells, key=lambda cell: cell.low):
            yield f"free list of level {level} is not sorted by opportunistic work"
    for leaf in cluster.forest.levels[state.chain.name][0]:
        owners = [
            cell for cell in _up(leaf) if cell.slot >= 0 or (cell.bound is not None and cell.bound.parent is None)
        ]
        if len(owners) != 1:
            yield f"{leaf} lies in {owners}, not in exactly one free or bound cell"
    for cell in _physical(cluster):
        if cell.chain is not state.chain:
            continue
        if cell.split and (cell.slot >= 0 or cell.bound is not None):
            yield f"{cell} is split, and free or bound"
        if cell.split and all(child.slot >= 0 for child in cell.children):
            yield f"the children of {cell} are free but not merged"


def _up(cell: PhysicalCell) -> Iterator[PhysicalCell]:
    above: PhysicalCell | None = cell
    while above is not None:
        yield above
        above = above.parent


def _bindings(cluster: Cluster) -> Iterator[str]:
    """Bindings are mutual, level by level, and exist where leaves are held or a cell is pinned."""
    for cell in _virtual(cluster):
        physical = cell.bound
        if (physical is not None) != bool(cell.used or cell.pinned):
            yield f"{cell} has {cell.used} held leaves and is bound to {physical}"
        if physical is None:
            continue
        if physical.bound is not cell or physical.level != cell.level or physical.chain is not cell.chain:
            yield f"{cell} is bound to {physical}, which is bound to {physical.bound}"
        if cell.parent is not None and cell.parent.bound is not physical.parent:
            yield f"{cell} is bound to {physical}, outside {cell.parent.bound}"
    for served in _physical(cluster):
        if served.bound is not None and served.bound.bound is not served:
            yield f"{served} is bound to {served.bound}, which is bound to {served.bound.bound}"


def _counts(cluster: Cluster) -> Iterator[str]:
    for cell in _physical(cluster):
        used = int(cell.priority != FREE) if cell.level == 1 else sum(child.used for child in cell.children)
        low = int(cell.priority == OPPORTUNISTIC) if cell.level == 1 else sum(child.low for child in cell.children)
        if (cell.used, cell.low) != (used, low):
            yield f"{cell} counts {cell.used} held and {cell.low} opportunistic leaves, not {used} and {low}"
    for virtual in _virtual(cluster):
        if virtual.level == 1:
            used = int(virtual.priority != FREE)
        else:
            used = sum(child.used for child in virtual.children)
            if virtual.place is not None and sum(virtual.profile.values()) != used:
                yield f"{virtual} counts {virtual.profile}, not {used} leaves"
        if virtual.used != used:
            yield f"{virtual} counts {virtual.used} held leaves, not {used}"


def _leaves(cluster: Cluster) -> Iterator[str]:
    """A leaf is held by the gangs that say so, at their priority."""
    holders: dict[PhysicalCell, list[Gang]] = {}
    reservers: dict[PhysicalCell, list[Gang]] = {}
    for gang in cluster.gangs.values():
        of = reservers if gang.stage is Stage.PREEMPTING else holders
        for leaf in gang.placement.leaves():
            of.setdefault(leaf, []).append(gang)
    for leaf in _all_leaves(cluster):
        held, reserved = holders.get(leaf, []), reservers.get(leaf, [])
        if held != _single(leaf.holder) or reserved != _single(leaf.reserver):
            yield f"{leaf} has holder {leaf.holder} and reserver {leaf.reserver}, not {held} and {reserved}"
        owner = leaf.reserver or leaf.holder
        if leaf.priority != (FREE if owner is None else owner.priority):
            yield f"{leaf} has priority {leaf.priority}, held by {owner}"
        if leaf.bound is None or not leaf.bound.pinned:
            serves = leaf.bound is not None
            if serves != (leaf.priority >= 0):
                yield f"{leaf} has priority {leaf.priority} and serves {leaf.bound}"


def _all_leaves(cluster: Cluster) -> Iterable[PhysicalCell]:
    return (leaf for levels in cluster.forest.levels.values() for leaf in levels[0])


def _single(gang: Gang | None) -> list[Gang]:
    return [] if gang is None else [gang]


def _gang(gang: Gang) -> Iterator[str]:
    """Each pod is on one node; guaranteed work lies in one chain, on leaves that serve its own virtual leaves."""
    placement = gang.placement
    if placement.virtual is not None and len({leaf.chain.name for leaf in placement.leaves()}) > 1:
        yield f"{gang} lies in several chains"
    for leaves in placement.physical:
        if len({leaf.node.address for leaf in leaves if leaf.node is not None}) > 1:
            yield f"a pod of {gang} lies on several nodes"
    for physical, virtual in placement.pairs():
        if virtual is None:
            continue
        if virtual.cluster != gang.request.cluster:
            yield f"{gang} holds {virtual} of another virtual cluster"
        holds = gang.stage is Stage.PREEMPTING or physical.reserver is None
        if holds and (virtual.bound is not physical or virtual.priority != gang.priority):
            yield f"{gang} holds {physical}, which does not serve {virtual}"


def _low(cluster: Cluster) -> Iterator[str]:
    low = {name for name, gang in cluster.gangs.items() if gang.placement.virtual is None}
    if cluster.low != low:
        yield f"opportunistic are {sorted(low)}, not {sorted(cluster.low)}"


def _quotas(cluster: Cluster) -> Iterator[str]:
    for virtual in cluster.virtual.values():
        for name, state in cluster.chains.items():
            partition = virtual.chains.get(name)
            for level in range(1, state.chain.top + 1):
                roots = partition.cells.roots_at(level) if partition else []
                unbound = sum(1 for root in roots if root.bound is None)
                if state.quotas.of[virtual.name][level - 1] != unbound:
                    yield f"{virtual.name} in {name}: level {level} counts other than {unbound} unbound cells"
