"""The decisions of HiveD on a cluster of cells: where a gang goes, whom it evicts, or why it waits.

`decide` answers one request. What it changes: downgrades of lazy gangs, cancelled and begun preemptions, the order of
nodes. To ask without changing anything, roll back to a savepoint. A placement is made by `start`, a pod at a time, and
ended by `end`.

A gang is placed in its virtual cluster as if that were a private cluster (topology-aware: `node_view`,
`leaves_in_node`), and the virtual cells are then bound (`mapping`). Opportunistic gangs are placed on physical nodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from yarn_plugin.decide.mechanisms.buddy_cells.answers import Answer, Bind, Preempt, Reason, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cells import (
    MAX_PRIORITY,
    OPPORTUNISTIC,
    PhysicalCell,
    VirtualCell,
)
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import BoundPair, ChainState, Cluster, Pair, Partition
from yarn_plugin.decide.mechanisms.buddy_cells.errors import RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.health import bad_physical_nodes, bad_virtual_nodes
from yarn_plugin.decide.mechanisms.buddy_cells.leaves_in_node import available_leaves, closest
from yarn_plugin.decide.mechanisms.buddy_cells.mapping import map_to_physical
from yarn_plugin.decide.mechanisms.buddy_cells.node_view import Fit, NodeView, NoFit
from yarn_plugin.decide.mechanisms.buddy_cells.packing import pack
from yarn_plugin.spelling import must_be_one_of

CellT = TypeVar("CellT", PhysicalCell, VirtualCell)

WORK_LIMIT = 2000
"""Steps of the exact search for gangs of mixed pods."""

_REASONS = {NoFit.TOO_FEW: Reason.NO_ROOM, NoFit.BAD: Reason.BAD_NODE, NoFit.EXCLUDED: Reason.EXCLUDED_NODE}


@dataclass(frozen=True, slots=True)
class Call:
    """One request for a pod of a gang.

    `size`: leaves of the pod. `excluded`: nodes that should not be used. `reserves`: an answer `Preempt` takes effect,
    so that nobody else gets the leaves while the victims leave.
    """

    pod: str
    size: int
    request: Request
    excluded: frozenset[str] = frozenset()
    reserves: bool = True


class Allocator:
    """HiveD on one cluster. `work_limit`: of the exact search; 0 places greedily only, as the published scheduler."""

    def __init__(self, cluster: Cluster, work_limit: int = WORK_LIMIT) -> None:
        self.cluster = cluster
        self.work_limit = work_limit

    # Decisions

    def decide(self, call: Call) -> Answer:
        """Where a pod goes, whom its gang must evict first, or why it waits.

        Raises:
            RejectedError: the request names something that does not exist, or the gang has no place for the pod.
        """
        request = call.request
        self._check(call)
        gang = self.cluster.gangs.get(request.gang)
        if gang is not None and gang.stage is Stage.PREEMPTING and call.reserves and self._is_spoilt(gang, call):
            self.cancel(gang)
            gang = None
        if gang is None:
            return self._decide_anew(call)
        slot = gang.empty_slot(call.size)
        if slot is None:
            sizes = ", ".join(f"{number} of {size}" for number, size in gang.request.pods)
            raise RejectedError(f"gang {gang.name}: pod of", call.size, f"no place left; its pods: {sizes}")
        if gang.stage is not Stage.PREEMPTING:
            return Bind(gang.placement, slot)
        if call.pod not in gang.waiting:
            self.cluster.undo.set(gang, "waiting", gang.waiting | {call.pod})
        victims = _victims(gang.placement)
        return Preempt(gang.placement, victims) if victims else Bind(gang.placement, slot)

    def _is_spoilt(self, gang: Gang, call: Call) -> bool:
        """Whether a node of a placement has become bad or excluded."""
        nodes = {leaf.node for leaf in gang.placement.leaves() if leaf.node is not None}
        return any(node.bad or node.address in call.excluded for node in nodes)

    def _decide_anew(self, call: Call) -> Answer:
        found = self._place(call.request, frozenset() if call.request.ignores_exclusions else call.excluded)
        if isinstance(found, Wait):
            return found
        slot = next(slot for slot, leaves in enumerate(found.physical) if len(leaves) == call.size)
        victims = _victims(found)
        reservers = tuple({leaf.reserver.name: None for leaf in found.leaves() if leaf.reserver is not None})
        if not victims:
            return Bind(found, slot, reservers)
        if call.reserves:
            for name in reservers:
                self.cancel(self.cluster.gangs[name])
            self._reserve(call, found)
        return Preempt(found, victims)

    def _place(self, request: Request, excluded: frozenset[str]) -> Placement | Wait:
        tries: Iterator[Placement | Wait]
        if request.guaranteed:
            partitions = self.partitions_for(request)
            tries = (self._place_guaranteed(request, partition, excluded) for partition in partitions)
        else:
            tries = (self._place_low(request, state, excluded) for state in self.chains_for(request))
        wait = Wait(Reason.NEVER_FITS)
        for found in tries:
            if not isinstance(found, Wait):
                return found
            if wait.reason is Reason.NEVER_FITS or found.virtual_fit:
                wait = found
        return wait

    def partitions_for(self, request: Request) -> Iterator[Partition]:
        """The parts of the virtual cluster to try, in order."""
        virtual = self.cluster.virtual[request.cluster]
        if request.pinned:
            yield virtual.pins[request.pinned]
            return
        yield from (
            virtual.chains[state.chain.name] for state in self.chains_for(request) if state.chain.name in virtual.chains
        )

    def chains_for(self, request: Request) -> Iterator[ChainState]:
        """The chains to try, in order."""
        order = self.cluster.spec.chain_order
        for leaf_type in (request.leaf_type,) if request.leaf_type else order:
            yield from (self.cluster.chains[name] for name in order[leaf_type])

    def _place_guaranteed(self, request: Request, partition: Partition, excluded: frozenset[str]) -> Placement | Wait:
        """Place a gang in its virtual cluster and bind the cells; lazy gangs in its place are downgraded."""
        cluster = self.cluster
        shut = _shut_virtual(partition, excluded, cluster) if excluded else ()
        partition.nodes.refresh(bad_virtual_nodes(cluster, partition) if cluster.bad else (), shut)
        virtual = self._fit(partition.nodes, request.sizes, request.priority)
        if isinstance(virtual, NoFit):
            return Wait(_REASONS[virtual])
        before_downgrades = cluster.savepoint()
        for pod in virtual:
            for leaf in pod:
                physical = leaf.bound
                if physical is None or physical.reserver is not None:
                    continue
                if (holder := physical.holder) is not None and holder.request.lazy:
                    self.downgrade(holder)
        before_mapping = cluster.savepoint()
        chain = cluster.chains[partition.cells.chain.name]
        physical_pods = map_to_physical(virtual, chain.free, chain.quotas, excluded)
        cluster.rollback(before_mapping if physical_pods is not None else before_downgrades)
        if physical_pods is None:
            return Wait(Reason.UNUSABLE_CELLS, virtual_fit=True)
        return Placement(physical_pods, virtual)

    def _place_low(self, request: Request, state: ChainState, excluded: frozenset[str]) -> Placement | Wait:
        """Place a gang on physical nodes, away from guaranteed work."""
        shut = [node for node in _cells_of(self.cluster, excluded) if node.chain is state.chain]
        state.nodes.refresh(bad_physical_nodes(self.cluster, state.chain.name), shut)
        found = self._fit(state.nodes, request.sizes, OPPORTUNISTIC)
        return Wait(_REASONS[found]) if isinstance(found, NoFit) else Placement(found)

    def _fit(self, view: NodeView[CellT], sizes: Sequence[int], priority: int) -> tuple[tuple[CellT, ...], ...] | NoFit:
        """The leaves of each pod: without preempting anyone if possible."""
        priorities = (OPPORTUNISTIC, priority) if priority > OPPORTUNISTIC else (OPPORTUNISTIC,)
        fit: Fit[CellT] | NoFit = NoFit.TOO_FEW
        for tried in priorities:
            fit = view.next_fit(sizes, tried)
            if isinstance(fit, Fit):
                return _closest_leaves(fit.nodes, sizes, tried)
        if self.work_limit and sizes[0] != sizes[-1]:
            for tried in priorities:
                nodes = _pack(view, sizes, tried, self.work_limit)
                if nodes is not None:
                    return _closest_leaves(nodes, sizes, tried)
        assert isinstance(fit, NoFit)
        return fit

    def _check(self, call: Call) -> None:
        request, virtual = call.request, self.cluster.virtual
        field = f"gang {request.gang}:"
        if request.cluster not in virtual:
            raise RejectedError(f"{field} virtual cluster", request.cluster, must_be_one_of(virtual, request.cluster))
        if not OPPORTUNISTIC <= request.priority <= MAX_PRIORITY:
            raise RejectedError(
                f"{field} priority", request.priority, f"must be -1 (opportunistic) or from 0 to {MAX_PRIORITY:,}"
            )
        if any(number < 1 or size < 1 for number, size in request.pods) or not request.pods:
            pods = ",".join(f"{number}x{size}" for number, size in request.pods)
            raise RejectedError(f"{field} pods", pods, "must be at least one pod of at least one leaf")
        if call.size not in {size for _, size in request.pods}:
            sizes = ", ".join(str(size) for _, size in request.pods)
            raise RejectedError(f"{field} pod of", call.size, f"the gang has pods of {sizes}")
        if request.pinned:
            pins = virtual[request.cluster].pins
            if request.pinned not in pins:
                known = ", ".join(pins) or "none"
                raise RejectedError(f"{field} pinned", request.pinned, f"pinned cells of {request.cluster}: {known}")
            if not request.guaranteed:
                raise RejectedError(f"{field} priority", request.priority, "must be at least 0 on a pinned cell")
            return
        if request.leaf_type and request.leaf_type not in self.cluster.spec.chain_order:
            expected = must_be_one_of(self.cluster.spec.chain_order, request.leaf_type)
            raise RejectedError(f"{field} leaf type", request.leaf_type, expected)
        if request.leaf_type and request.guaranteed and not any(self.partitions_for(request)):
            expected = f"virtual cluster {request.cluster} has no cells of this type"
            raise RejectedError(f"{field} leaf type", request.leaf_type, expected)

    # Changes

    def start(self, call: Call, answer: Bind) -> Gang:
        """Start a pod as answered: with the first, its gang holds all its leaves."""
        cluster = self.cluster
        gang = cluster.gangs.get(call.request.gang)
        if gang is None:
            for name in answer.cancelled:
                self.cancel(cluster.gangs[name])
            gang = self._allocate(call.request, answer.placement)
        elif gang.stage is Stage.PREEMPTING:
            self._set_holder(gang.placement, gang)
            for leaf in gang.placement.leaves():
                cluster.undo.set(leaf, "reserver", None)
            cluster.undo.set(gang, "stage", Stage.ALLOCATED)
            cluster.undo.set(gang, "waiting", frozenset())
        self.fill(gang, answer.slot, call.pod)
        return gang

    def fill(self, gang: Gang, slot: int, pod: str | None) -> None:
        """Set the pod that runs in a place of a gang."""
        self.cluster.undo.set(gang, "slots", (*gang.slots[:slot], pod, *gang.slots[slot + 1 :]))
        self.cluster.touch(gang)

    def find_leaves(
        self, pods: Sequence[Sequence[VirtualCell]], excluded: frozenset[str]
    ) -> tuple[tuple[PhysicalCell, ...], ...] | None:
        """The leaves to bind virtual leaves of one chain to, which another scheduler has chosen; None if bad or
        excluded nodes leave none. Nothing changes."""
        cluster = self.cluster
        chain, before = cluster.chains[pods[0][0].chain.name], cluster.savepoint()
        found = map_to_physical(pods, chain.free, chain.quotas, excluded)
        cluster.rollback(before)
        return found

    def hold(self, request: Request, pair: BoundPair) -> tuple[str, ...]:
        """Let a gang of one leaf hold it, or reserve it until those who hold it have left, who are returned."""
        placement = Placement(((pair[0],),), ((pair[1],),))
        victims = _victims(placement)
        if victims:
            self._reserve(Call(request.gang, 1, request), placement)
        else:
            self.fill(self._allocate(request, placement), 0, request.gang)
        return victims

    def end(self, gang: Gang, pod: str) -> None:
        """A pod has ended. The gang's leaves stay held until its last pod ends."""
        self.fill(gang, gang.slots.index(pod), None)
        if not gang.pods:
            self.release(gang)

    def release(self, gang: Gang) -> None:
        """Give back all leaves of a gang. Those that another gang reserves are that gang's alone from now on."""
        self._set_holder(gang.placement, None)
        held = [pair for pair in gang.placement.pairs() if pair[0].reserver is None]
        self.cluster.vacate(held, gang.priority)
        self.cluster.remove(gang)

    def withdraw(self, gang: str, pod: str) -> None:
        """A waiting pod is gone. When the last one of a preempting gang goes, the preemption is cancelled."""
        waiting = self.cluster.gangs.get(gang)
        if waiting is None or waiting.stage is not Stage.PREEMPTING:
            return
        self.cluster.undo.set(waiting, "waiting", waiting.waiting - {pod})
        if not waiting.waiting:
            self.cancel(waiting)

    def cancel(self, gang: Gang) -> None:
        """Cancel a preemption: leaves that have not been left yet go back to their holders."""
        cluster = self.cluster
        for pair in gang.placement.pairs():
            leaf = pair[0]
            cluster.vacate([pair], gang.priority)
            cluster.undo.set(leaf, "reserver", None)
            if (holder := leaf.holder) is not None:
                cluster.occupy([_pair_of(holder, leaf)], holder.priority)
        self.cluster.remove(gang)

    def downgrade(self, gang: Gang) -> None:
        """Make a gang opportunistic: it leaves its virtual cells and goes on where it runs."""
        cluster = self.cluster
        if gang.placement.virtual is None:
            return
        held = [pair for pair in gang.placement.pairs() if pair[0].reserver is None]
        cluster.vacate(held, gang.priority)
        cluster.undo.set(gang, "downgraded", True)
        cluster.move(gang, Placement(gang.placement.physical))
        cluster.occupy([(leaf, None) for leaf, _ in held], OPPORTUNISTIC)

    def _allocate(self, request: Request, placement: Placement) -> Gang:
        gang = Gang(request, placement, Stage.ALLOCATED)
        self._set_holder(placement, gang)
        self.cluster.occupy(list(placement.pairs()), gang.priority)
        self.cluster.add(gang)
        return gang

    def _reserve(self, call: Call, placement: Placement) -> None:
        """Begin a preemption: the gang holds its leaves from now on, and their holders must leave."""
        gang = Gang(call.request, placement, Stage.PREEMPTING)
        pairs = list(placement.pairs())
        if all(leaf.holder is None or leaf.holder.placement.virtual is None for leaf, _ in pairs):
            self._reserve_low(gang, pairs)
        else:
            for pair in pairs:
                self.reserve_leaf(gang, pair)
        self.add_preempting(gang, call.pod)

    def _reserve_low(self, gang: Gang, pairs: Sequence[Pair]) -> None:
        """Reserve leaves that are free or held by opportunistic work, all at once."""
        cluster = self.cluster
        held: list[Pair] = []
        for leaf, _ in pairs:
            if (holder := leaf.holder) is not None:
                held.append((leaf, None))
                if holder.stage is not Stage.PREEMPTED:
                    cluster.undo.set(holder, "stage", Stage.PREEMPTED)
            cluster.undo.set(leaf, "reserver", gang)
        cluster.vacate(held, OPPORTUNISTIC)
        cluster.occupy(pairs, gang.priority)

    def reserve_leaf(self, gang: Gang, pair: Pair) -> None:
        """Let a preempting gang hold a leaf, also while its holder has not left yet."""
        cluster, leaf = self.cluster, pair[0]
        if (holder := leaf.holder) is not None:
            cluster.vacate([_pair_of(holder, leaf)], holder.priority)
            cluster.undo.set(holder, "stage", Stage.PREEMPTED)
        cluster.undo.set(leaf, "reserver", gang)
        cluster.occupy([pair], gang.priority)

    def add_preempting(self, gang: Gang, pod: str) -> None:
        """Remember a gang that has reserved its leaves, and the pod that waits."""
        gang.waiting = frozenset({pod})
        self.cluster.add(gang)

    def _set_holder(self, placement: Placement, gang: Gang | None) -> None:
        leaves = list(placement.leaves())
        before = [leaf.holder for leaf in leaves]
        for leaf in leaves:
            leaf.holder = gang
        self.cluster.undo.record(_restore_holders, leaves, before)


def _restore_holders(leaves: Sequence[PhysicalCell], holders: Sequence[Gang | None]) -> None:
    for leaf, holder in zip(leaves, holders, strict=True):
        leaf.holder = holder


def _victims(placement: Placement) -> tuple[str, ...]:
    """The gangs that hold a leaf of a placement."""
    return tuple({leaf.holder.name: None for leaf in placement.leaves() if leaf.holder is not None})


def _pair_of(holder: Gang, leaf: PhysicalCell) -> Pair:
    """A leaf of a gang, with the virtual leaf that it serves there."""
    return next(pair for pair in holder.placement.pairs() if pair[0] is leaf)


def _cells_of(cluster: Cluster, nodes: frozenset[str]) -> Iterator[PhysicalCell]:
    return (cell for node in sorted(nodes) for cell in cluster.forest.nodes.get(node, ()))


def _shut_virtual(partition: Partition, excluded: frozenset[str], cluster: Cluster) -> list[VirtualCell]:
    """The nodes of a virtual cluster that are bound to excluded nodes."""
    shut: list[VirtualCell] = []
    for node in _cells_of(cluster, excluded):
        cells = [node]
        while cells:
            cell = cells.pop()
            virtual = cell.bound
            if virtual is not None and virtual.place is not None and virtual.place.view is partition.nodes:
                shut.append(virtual)
            cells += cell.children
    return shut


def _closest_leaves(nodes: Sequence[CellT], sizes: Sequence[int], priority: int) -> tuple[tuple[CellT, ...], ...]:
    available: dict[CellT, list[CellT]] = {}
    pods: list[tuple[CellT, ...]] = []
    for node, size in zip(nodes, sizes, strict=True):
        if node not in available:
            available[node] = available_leaves(node, priority)
        chosen = closest(available[node], size)
        pods.append(tuple(chosen))
        available[node] = [leaf for leaf in available[node] if leaf not in chosen]
    return tuple(pods)


def _pack(view: NodeView[CellT], sizes: Sequence[int], priority: int, work_limit: int) -> list[CellT] | None:
    """An exact search for the node of each pod, in the order of the sizes."""
    rooms = pack(view.rooms(priority), sizes, work_limit)
    if rooms is None:
        return None
    by_room: dict[int, list[CellT]] = {}
    for node, room in view.in_order(priority):
        by_room.setdefault(room, []).append(node)
    chosen: list[CellT] = []
    for room, size in zip(rooms, sorted(sizes, reverse=True), strict=True):
        node = by_room[room].pop(0)
        by_room.setdefault(room - size, []).append(node)
        chosen.append(node)
    return chosen[::-1]
