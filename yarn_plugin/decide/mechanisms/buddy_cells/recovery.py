"""Gangs that run already, after a restart or in a new configuration.

Of a running gang, the nodes, the leaves and the type of the cell of the quota that each leaf came from are known, not
the virtual cells. The first free ones in configuration order are taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC, PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement, Request, Stage


class UnservableError(Exception):
    """A leaf can serve no cell of a gang's virtual cluster."""


@dataclass(frozen=True, slots=True)
class RunningPod:
    """The node and leaves (addresses in the node) of a pod.

    `quota_types`: for each leaf, the type of the cell of the quota that it came from; empty for opportunistic work.
    """

    node: str
    leaves: tuple[str, ...]
    quota_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang that runs: its pods' places in the order of `Request.sizes`, all in one chain."""

    request: Request
    chain: str
    pods: tuple[RunningPod, ...]

    @property
    def is_guaranteed(self) -> bool:
        """Whether it holds cells of its virtual cluster now."""
        return self.request.guaranteed and any(pod.quota_types for pod in self.pods)


def record_of(gang: Gang) -> RunningGang:
    """What `recover` needs to know about a gang, as it is now: a downgraded one comes back as opportunistic."""
    virtual = gang.placement.virtual
    pods = tuple(
        _record_of_pod(leaves, () if virtual is None else virtual[slot])
        for slot, leaves in enumerate(gang.placement.physical)
    )
    return RunningGang(gang.request, next(gang.placement.leaves()).chain.name, pods)


def _record_of_pod(leaves: Sequence[PhysicalCell], virtual: Sequence[VirtualCell]) -> RunningPod:
    """A pod; without a node if all its leaves were lost in an earlier change of the configuration."""
    node = leaves[0].node if leaves else None
    return RunningPod(
        "" if node is None else node.address,
        tuple(leaf.address for leaf in leaves),
        tuple(leaf.root.type for leaf in virtual),
    )


def recover(allocator: Allocator, running: RunningGang, makes_room: bool = True) -> Gang | None:
    """Let a running gang hold its leaves again.

    Leaves that no longer exist are ignored: the gang runs on without them; None if none exists. Where its virtual cells
    are gone or taken at its priority or a higher one, or where other quotas could not be served any more, the gang is
    downgraded as a whole. Gangs of a lower priority in its cells are downgraded, unless `makes_room` is false.

    A leaf that another gang holds is ignored too.
    """
    cluster = allocator.cluster
    placed = _Placed(allocator, running, makes_room)
    slots: list[tuple[PhysicalCell, ...]] = []
    virtual_slots: list[tuple[VirtualCell, ...]] = []
    for pod in running.pods:
        pairs = [placed.leaf(pod, index) for index in range(len(pod.leaves))]
        slots.append(tuple(pair[0] for pair in pairs if pair is not None))
        virtual_slots.append(tuple(pair[1] for pair in pairs if pair is not None and pair[1] is not None))
    if not any(slots):
        return None
    gang = Gang(running.request, Placement(tuple(slots), tuple(virtual_slots)), Stage.ALLOCATED)
    spans_chains = len({leaf.chain.name for leaf in gang.placement.leaves()}) > 1
    if placed.is_downgraded or spans_chains or not running.is_guaranteed:
        cluster.rollback(placed.savepoint)
        gang.placement = Placement(gang.placement.physical)
        gang.downgraded = running.request.guaranteed
        cluster.occupy(list(gang.placement.pairs()), gang.priority)
    for leaf in gang.placement.leaves():
        cluster.undo.set(leaf, "holder", gang)
    cluster.add(gang)
    return gang


def reserve_running(allocator: Allocator, running: RunningGang, pod_name: str) -> None:
    """Let a gang that preempts elsewhere by another scheduler's decision reserve the leaves that it is waiting for."""
    placed = _Placed(allocator, running)
    gang = Gang(running.request, Placement((), ()), Stage.PREEMPTING)
    pods: list[list[tuple[PhysicalCell, VirtualCell]]] = []
    for pod in running.pods:
        pods.append([])
        for address, quota_type in zip(pod.leaves, pod.quota_types, strict=True):
            pair = placed.pair(pod, address, quota_type)
            allocator.reserve_leaf(gang, pair)
            pods[-1].append(pair)
    gang.placement = Placement(
        tuple(tuple(leaf for leaf, _ in pod) for pod in pods), tuple(tuple(leaf for _, leaf in pod) for pod in pods)
    )
    gang.slots = (None,) * len(pods)
    allocator.add_preempting(gang, pod_name)


class _Placed:
    """A gang whose leaves are found one after the other."""

    def __init__(self, allocator: Allocator, running: RunningGang, makes_room: bool = True) -> None:
        self._allocator, self._running, self._makes_room = allocator, running, makes_room
        self._cluster: Cluster = allocator.cluster
        self.savepoint = self._cluster.savepoint()
        self._taken: set[PhysicalCell] = set()
        self.is_downgraded = False

    def leaf(self, pod: RunningPod, index: int) -> tuple[PhysicalCell, VirtualCell | None] | None:
        """The physical leaf of a pod, and the virtual leaf that it serves from now on."""
        physical = self._physical(pod, pod.leaves[index])
        if physical is None or physical.holder is not None or physical in self._taken:
            return None
        self._taken.add(physical)
        if not self._running.request.guaranteed or self.is_downgraded:
            return physical, None
        virtual = self._virtual(physical, pod.quota_types[index] if pod.quota_types else "")
        if virtual is None:
            self.is_downgraded = True
            return physical, None
        self._cluster.occupy([(physical, virtual)], self._running.request.priority)
        state = self._cluster.chains[physical.chain.name]
        self.is_downgraded = state.quotas.shortage(state.counts()) is not None
        return physical, virtual

    def pair(self, pod: RunningPod, address: str, quota_type: str) -> tuple[PhysicalCell, VirtualCell]:
        """A physical leaf, whoever holds it, and the virtual leaf that it can serve."""
        physical = self._physical(pod, address)
        virtual = None if physical is None else self._virtual(physical, quota_type)
        if physical is None or virtual is None:
            raise UnservableError(f"leaf {address} of {pod.node} cannot serve gang {self._running.request.gang}")
        return physical, virtual

    def _physical(self, pod: RunningPod, address: str) -> PhysicalCell | None:
        forest = self._cluster.forest
        chains = (self._running.chain, *(node.chain.name for node in forest.nodes.get(pod.node, ())))
        found = (forest.leaf.get((chain, pod.node, address)) for chain in chains)
        return next((leaf for leaf in found if leaf is not None), None)

    def _virtual(self, physical: PhysicalCell, quota_type: str) -> VirtualCell | None:
        """The virtual leaf for a physical one: that which it is bound to, or the first free one."""
        request, cluster = self._running.request, self._cluster
        virtual = cluster.virtual.get(request.cluster)
        parts = {} if virtual is None else virtual.pins if request.pinned else virtual.chains
        partition = parts.get(request.pinned or physical.chain.name)
        level = physical.chain.level_of(quota_type)
        if partition is None or level is None:
            return None
        path = [physical]
        while path[-1].bound is None and path[-1].level < level:
            parent = path[-1].parent
            if parent is None:
                return None
            path.append(parent)
        top = path.pop()
        if top.bound is not None:
            root = top.bound.root
            found = top.bound if (root.cluster, root.pinned) == (request.cluster, request.pinned) else None
        elif self._cluster.chains[physical.chain.name].free.containing(top) is None:
            return None
        else:
            found = self._claim(partition.cells.roots_at(level))
        for _ in path:
            if found is not None:
                found = self._claim(found.children)
        return found

    def _claim(self, cells: Sequence[VirtualCell]) -> VirtualCell | None:
        """The first free cell, or else that with the lowest priority below the gang's, whose gangs are downgraded."""
        free = next((cell for cell in cells if not cell.used and not cell.pinned), None)
        if free is not None:
            return free
        lowest = min(cells, key=lambda cell: cell.highest_priority, default=None)
        below = self._running.request.priority if self._makes_room else OPPORTUNISTIC
        if lowest is None or lowest.highest_priority >= below:
            return None
        for gang in _gangs_in(lowest):
            self._allocator.downgrade(gang)
        return lowest


def _gangs_in(virtual: VirtualCell) -> list[Gang]:
    """The gangs that hold leaves in a virtual cell."""
    return list(dict.fromkeys(leaf.bound.holder for leaf in _leaves_of(virtual) if leaf.bound and leaf.bound.holder))


def _leaves_of(cell: VirtualCell) -> Iterator[VirtualCell]:
    if cell.level == 1:
        yield cell
    for child in cell.children:
        yield from _leaves_of(child)
