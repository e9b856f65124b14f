"""The allocator of virtual clusters: what happens to whom, and what is kept between calls to save time."""

from collections.abc import Iterable, Mapping

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.buddy_cells.inside import allocator_of
from yarn_plugin.decide.allocators.buddy_cells.settings import BuddyCellsSettings
from yarn_plugin.decide.allocators.buddy_cells.state import BuddyCellsState, number_of
from yarn_plugin.decide.allocators.buddy_cells.turn import RECONFIGURE, Turn
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.cells_report import CellsReport, Reports
from yarn_plugin.decide.allocators.happenings import (
    Began,
    Broken,
    Changed,
    Due,
    Reconfigured,
    Recorded,
    Restarted,
    Started,
    Unplaced,
    Vacated,
    What,
)
from yarn_plugin.decide.allocators.placed_gangs import PlacedGangs
from yarn_plugin.decide.allocators.plan import Plan
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.allocators.virtual_pool import VirtualPool, broken_nodes, virtual_pool
from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import check_quick
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState


class BuddyCells:
    """See the package."""

    def __init__(self, settings: BuddyCellsSettings, kinds: Mapping[str, AllocatorKind]) -> None:
        settings.check_inside(kinds)
        self._settings = settings
        self._inside = {name: allocator_of(scheduler, settings, kinds) for name, scheduler in settings.inside.items()}
        self._pools: dict[str, tuple[Cluster, frozenset[str], VirtualPool]] = {}
        self._gpus: tuple[Cells, Cluster, dict[PhysicalCell, str]] | None = None
        self._placed: PlacedGangs | None = None
        self._reports = Reports()

    def initial_state(self) -> BuddyCellsState:
        """An empty cluster."""
        return BuddyCellsState(CellsState(Cluster(self._settings.cells)))

    def report(self, state: BuddyCellsState) -> CellsReport:
        """Who holds which leaves, for other threads."""
        return self._reports.of(state.cells.cluster, lambda name: number_of(state.placed.get(name)))

    def propose(self, state: BuddyCellsState, seen: Seen, what: What) -> tuple[BuddyCellsState, Plan]:
        """Learn what happened, then place whatever fits."""
        if isinstance(what, Began):
            state = self.initial_state()
        # An exception leaves none behind: they may have been changed in part.
        placed, self._placed = self._placed, None
        if placed is None or placed.frozen() is not state.placed:
            placed = PlacedGangs(state.placed)
        turn = Turn(self._settings, state, seen, self._leaf_gpus(state, seen), placed)
        match what:
            case Began() | Restarted():
                turn.learn_health(turn.cluster.forest.nodes)
            case Reconfigured():
                turn.take_configuration(is_due=False)
            case Recorded():
                turn.adopt(what)
                check_quick(turn.cluster)
                self._placed = placed
                return turn.state(), turn.plan()
            case Due(key) if key == RECONFIGURE:
                turn.take_configuration(is_due=True)
            case Changed(claims, cells):
                turn.learn_health(_hosts(seen.cells, cells, turn.cluster))
                turn.revise(claims)
            case Started(keys) if not turn.start(keys) and not self._inside:
                # Nothing has become free since the last call.
                self._placed = placed
                return state, Plan()
            case Vacated(freed):
                turn.free(freed)
            case Unplaced(freed):
                turn.free(freed, is_unplaced=True)
            case Broken(freed):
                turn.free(freed, is_broken=True)
            case Due(gang):
                turn.resting.pop(gang, None)
        if turn.cluster is not state.cells.cluster:
            turn.gangs.gpus = self._leaf_gpus(turn.state(), seen)
            turn.learn_health(turn.cluster.forest.nodes)
        turn.guests.open(self._inside, self._pool)
        turn.guests.tell(what)
        turn.serve()
        check_quick(turn.cluster)
        self._placed = placed
        return turn.state(), turn.plan()

    def _pool(self, cluster: Cluster, name: str) -> VirtualPool:
        """A virtual cluster as a pool. Kept while neither the cluster nor what is broken changes."""
        broken, known = broken_nodes(cluster, name), self._pools.get(name)
        if known is None or known[0] is not cluster or known[1] != broken:
            known = self._pools[name] = cluster, broken, virtual_pool(cluster, name, broken)
        return known[2]

    def _leaf_gpus(self, state: BuddyCellsState, seen: Seen) -> dict[PhysicalCell, str]:
        """The GPU of each leaf whose node is there with all its GPUs. Kept while neither changes."""
        cluster = state.cells.cluster
        if self._gpus is None or self._gpus[0] is not seen.cells or self._gpus[1] is not cluster:
            self._gpus = (seen.cells, cluster, _leaf_gpus(seen.cells, cluster))
        return self._gpus[2]


def _leaf_gpus(cells: Cells, cluster: Cluster) -> dict[PhysicalCell, str]:
    """The GPU of each leaf: a node's leaves are its GPUs, in the order of their numbers."""
    of_host: dict[str, list[str]] = {}
    for gpu, place in cells.gpus.items():
        of_host.setdefault(place.host, []).append(gpu)
    found: dict[PhysicalCell, str] = {}
    for host, nodes in cluster.forest.nodes.items():
        leaves = [leaf for node in nodes for leaf in node.leaves]
        gpus = of_host.get(host, [])
        if len(gpus) >= len(leaves):
            found |= dict(zip(leaves, gpus, strict=False))
    return found


def _hosts(cells: Cells, changed: Iterable[str], cluster: Cluster) -> list[str]:
    """The nodes, by host name, that these cells are, lie in or contain; all, if one of them is gone."""
    hosts: dict[str, None] = {}
    for cell in changed:
        node = cells.node_of(cell) if cell in cells else None
        if node is None:
            return list(cluster.forest.nodes)
        hosts[cells[node].host or node] = None
    return list(hosts)
