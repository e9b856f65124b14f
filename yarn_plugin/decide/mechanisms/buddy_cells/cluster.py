"""The state of a cluster of cells: who holds which leaf, what is bound to what, and how that changes.

`Cluster` offers the changes; `allocator` decides on them. All are recorded for `rollback`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.buddy_cells.cells import FREE, OPPORTUNISTIC, PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.forest import (
    PhysicalForest,
    VirtualCells,
    check_pins,
    grow_physical,
    grow_virtual,
    nodes_of,
    quota_numbers,
)
from yarn_plugin.decide.mechanisms.buddy_cells.free_cells import FreeCells
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement
from yarn_plugin.decide.mechanisms.buddy_cells.node_view import PhysicalNodes, VirtualNodes
from yarn_plugin.decide.mechanisms.buddy_cells.quotas import Quotas, check_feasible
from yarn_plugin.decide.mechanisms.buddy_cells.specification import Chain, ClusterSpec
from yarn_plugin.decide.mechanisms.buddy_cells.undo import UndoLog

Pair = tuple[PhysicalCell, VirtualCell | None]
"""A physical leaf, and the virtual leaf that it serves; None for opportunistic work."""

BoundPair = tuple[PhysicalCell, VirtualCell]


@dataclass(slots=True)
class ChainState:
    """What is free in a chain, what may still be claimed of it, and its nodes for opportunistic work."""

    chain: Chain
    free: FreeCells
    quotas: Quotas
    nodes: PhysicalNodes

    def counts(self) -> list[int]:
        """How many cells of each level are free."""
        return [len(cells) for cells in self.free.levels]


@dataclass(slots=True)
class Partition:
    """The cells of a virtual cluster in one chain, or of one pinned cell, and their nodes."""

    cells: VirtualCells
    nodes: VirtualNodes


@dataclass(slots=True)
class VirtualCluster:
    """A virtual cluster: its cells by chain and by pinned cell."""

    name: str
    chains: dict[str, Partition]
    pins: dict[str, Partition]

    def partitions(self) -> Iterator[Partition]:
        """All its partitions."""
        yield from self.chains.values()
        yield from self.pins.values()


class Cluster:
    """A cluster without work, or with whatever was placed on it since.

    Raises:
        CellFileError: the specification is contradictory, or its quotas cannot be served.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.undo = UndoLog()
        self.gangs: dict[str, Gang] = {}
        self.low: set[str] = set()
        """The opportunistic ones."""
        self.changed: set[str] = set()
        """The gangs that came, left, or are placed otherwise, since a reader of them last cleared this set."""
        self.bad: dict[str, set[PhysicalCell]] = {}
        """The bad nodes of each chain that has any."""
        self.forest: PhysicalForest = grow_physical(spec)
        check_pins(dict(spec.clusters), list(self.forest.pinned))
        numbers = {name: quota_numbers(name, each, self.forest) for name, each in spec.clusters.items()}
        self.chains = {
            name: ChainState(
                chain,
                FreeCells(self.forest.tops(name), chain.top, self.undo),
                Quotas(chain, {cluster: by_chain[name] for cluster, by_chain in numbers.items()}, self.undo),
                PhysicalNodes(self.forest.levels[name][chain.node_level - 1], self.undo),
            )
            for name, chain in self.forest.chains.items()
        }
        for pinned in self.forest.pinned.values():
            self.chains[pinned.chain.name].free.take(pinned)
        # Before quotas are grown: there may be no end of cells in one that cannot be served.
        for state in self.chains.values():
            check_feasible(state.quotas, state.counts())
        grown = {name: grow_virtual(name, each, self.forest) for name, each in spec.clusters.items()}
        self.virtual = {
            name: VirtualCluster(name, self._partitions(by_chain), self._partitions(by_pin))
            for name, (by_chain, by_pin) in grown.items()
        }
        for name, cell in self.forest.pinned.items():
            self._bind_pinned(name, cell)
        self.undo.commit()

    def _partitions(self, cells: dict[str, VirtualCells]) -> dict[str, Partition]:
        return {name: Partition(each, VirtualNodes(nodes_of(each), self.undo)) for name, each in cells.items()}

    def _bind_pinned(self, name: str, cell: PhysicalCell) -> None:
        for cluster in self.virtual.values():
            if name in cluster.pins:
                root = cluster.pins[name].cells.roots[0]
                root.bound, cell.bound = cell, root

    # Gangs

    def add(self, gang: Gang) -> None:
        """Remember a gang that holds its leaves, or has reserved them."""
        self.gangs[gang.name] = gang
        self.undo.record(self.gangs.pop, gang.name)
        self._set_low(gang.name, gang.placement.virtual is None)
        self.touch(gang)

    def move(self, gang: Gang, placement: Placement) -> None:
        """Note that a gang serves other virtual leaves, or none."""
        self.undo.set(gang, "placement", placement)
        self._set_low(gang.name, placement.virtual is None)
        self.touch(gang)

    def remove(self, gang: Gang) -> None:
        """Forget a gang whose leaves were given back."""
        del self.gangs[gang.name]
        self.undo.record(self.gangs.__setitem__, gang.name, gang)
        self._set_low(gang.name, False)
        self.touch(gang)

    def touch(self, gang: Gang) -> None:
        """Note that a gang has changed; it has again where this is undone."""
        self.changed.add(gang.name)
        self.undo.record(self.changed.add, gang.name)

    def _set_low(self, name: str, is_low: bool) -> None:
        if (name in self.low) != is_low:
            change, undo = (self.low.add, self.low.discard) if is_low else (self.low.discard, self.low.add)
            change(name)
            self.undo.record(undo, name)

    # Leaves

    def occupy(self, pairs: Sequence[Pair], priority: int) -> None:
        """Hold free leaves at a priority, binding the virtual cells that they serve."""
        bound: list[BoundPair] = []
        self.undo.record(_forget_bindings, bound)
        for physical, virtual in pairs:
            if virtual is not None and physical.bound is None:
                self._bind(physical, virtual, bound)
        self.book(pairs, priority, 1)
        self.undo.record(self.book, pairs, priority, -1)

    def vacate(self, pairs: Sequence[Pair], priority: int) -> None:
        """Give leaves back that are held at a priority. A cell of the quota without held leaves becomes free."""
        self.book(pairs, priority, -1)
        self.undo.record(self.book, pairs, priority, 1)
        unbound: list[BoundPair] = []
        self.undo.record(_renew_bindings, unbound)
        freed: dict[VirtualCell, PhysicalCell] = {}
        for physical, virtual in pairs:
            if virtual is not None:
                root = virtual.root
                if not root.used and not root.pinned:
                    # Cells become free in the order in which their last leaves were given back: it breaks ties.
                    freed[root] = root.bound or freed.pop(root)
                _unbind(physical, virtual, unbound)
        for root, physical in freed.items():
            self.chains[physical.chain.name].free.give(physical)
            self._claim(root, 1)

    def _bind(self, physical: PhysicalCell, virtual: VirtualCell, bound: list[BoundPair]) -> None:
        """Bind a leaf and the cells above it, up to one that is bound."""
        while physical.bound is None:
            bound.append((physical, virtual))
            physical.bound, virtual.bound = virtual, physical
            above, virtual_above = physical.parent, virtual.parent
            if virtual_above is None:
                self.chains[physical.chain.name].free.take(physical)
                self._claim(virtual, -1)
                return
            assert above is not None
            if above.openings is not None:
                above.openings.remove(physical)
            physical, virtual = above, virtual_above

    def _claim(self, root: VirtualCell, number: int) -> None:
        self.chains[root.chain.name].quotas.change(root.cluster, root.level, number)

    def book(self, pairs: Iterable[Pair], priority: int, sign: int) -> None:
        """Count leaves in (1) or out (-1), at the cells that contain them; bindings stay. Its own inverse."""
        set_to, used = (priority, 1) if sign > 0 else (FREE, 0)
        are_low = priority == OPPORTUNISTIC
        physical_above: dict[PhysicalCell, int] = {}
        virtual_above: dict[VirtualCell, int] = {}
        for leaf, served in pairs:
            leaf.priority, leaf.used = set_to, used
            if are_low:
                self._change_low(leaf, sign)
            parent = leaf.parent
            assert parent is not None
            physical_above[parent] = physical_above.get(parent, 0) + sign
            if served is not None:
                served.priority, served.used = set_to, used
                if (above := served.parent) is not None:
                    virtual_above[above] = virtual_above.get(above, 0) + sign
                if served.place is not None:
                    served.place.view.touch(served)
        self._count_physical(physical_above, are_low)
        _count_virtual(virtual_above, priority)

    def _count_physical(self, held: dict[PhysicalCell, int], are_low: bool) -> None:
        while held:
            above: dict[PhysicalCell, int] = {}
            for cell, number in held.items():
                cell.used += number
                if are_low:
                    self._change_low(cell, number)
                if cell.place is not None:
                    cell.place.view.touch(cell)
                if (parent := cell.parent) is not None:
                    above[parent] = above.get(parent, 0) + number
            held = above

    def _change_low(self, cell: PhysicalCell, number: int) -> None:
        before = cell.low
        cell.low = before + number
        if cell.slot >= 0:
            self.chains[cell.chain.name].free.at(cell.level).reindex(cell, before)
        elif cell.bound is None and cell.parent is not None and cell.parent.openings is not None:
            cell.parent.openings.reindex(cell, before)

    # Nodes

    def bad_hosts(self) -> list[str]:
        """The host names of the bad nodes, sorted."""
        return sorted({node.address for nodes in self.bad.values() for node in nodes})

    def set_bad(self, node: str, is_bad: bool) -> None:
        """Note that a node is bad or healthy again. Bindings and free lists stay as they are."""
        for cell in self.forest.nodes.get(node, ()):
            if bool(cell.bad) != is_bad:
                self._mark(cell, 1 if is_bad else -1)
                self.undo.record(self._mark, cell, -1 if is_bad else 1)

    def _mark(self, node: PhysicalCell, change: int) -> None:
        cell: PhysicalCell | None = node
        while cell is not None:
            cell.bad += change
            cell = cell.parent
        bad = self.bad.setdefault(node.chain.name, set())
        (bad.add if change > 0 else bad.discard)(node)
        if not bad:
            del self.bad[node.chain.name]

    # Undo

    def savepoint(self) -> int:
        """A savepoint to `rollback` to."""
        return self.undo.savepoint()

    def rollback(self, savepoint: int) -> None:
        """Undo every change since the savepoint."""
        self.undo.rollback(savepoint)

    def commit(self) -> None:
        """Discard all savepoints."""
        self.undo.commit()


def _unbind(physical: PhysicalCell, virtual: VirtualCell, unbound: list[BoundPair]) -> None:
    """Unbind a leaf and the cells above it that no held leaf is in."""
    while virtual.bound is not None and not virtual.used and not virtual.pinned:
        unbound.append((physical, virtual))
        physical.bound = virtual.bound = None
        physical.openings = None
        above, virtual_above = physical.parent, virtual.parent
        if virtual_above is None:
            return
        assert above is not None
        if above.openings is not None:
            above.openings.add(physical)
        physical, virtual = above, virtual_above


def _forget_bindings(bound: Iterable[BoundPair]) -> None:
    for physical, virtual in bound:
        physical.bound = virtual.bound = None
        physical.openings = None
        if physical.parent is not None:
            physical.parent.openings = None


def _renew_bindings(unbound: Iterable[BoundPair]) -> None:
    for physical, virtual in unbound:
        physical.bound, virtual.bound = virtual, physical
        if physical.parent is not None:
            physical.parent.openings = None


def _count_virtual(held: dict[VirtualCell, int], priority: int) -> None:
    while held:
        above: dict[VirtualCell, int] = {}
        for cell, number in held.items():
            cell.used += number
            if (place := cell.place) is not None:
                profile = cell.profile
                profile[priority] = profile.get(priority, 0) + number
                if not profile[priority]:
                    del profile[priority]
                place.view.touch(cell)
            if (parent := cell.parent) is not None:
                above[parent] = above.get(parent, 0) + number
        held = above
