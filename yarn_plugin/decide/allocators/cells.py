"""The cells of a pool, from racks down to single GPUs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from yarn_plugin.model.gpus import GpuPlace
from yarn_plugin.model.resources import GPU, GPU_MEMORY, GPU_MILLI, Resources, total_of
from yarn_plugin.model.topology import NODE, RACK, Cell, Topology

GPU_LEVEL = "gpu"
"""The level of GPUs that the topology does not describe one by one."""

_ONE = Resources.of({GPU: 1})


@dataclass(frozen=True, slots=True)
class Cells:
    """`topology`: of the pool's cells alone, down to single GPUs, parents before their children. Of each cell: `inside`
    (its children; None: the top), `paths` (itself and the cells that contain it, the smallest first).

    `gpus`: where each GPU is, in the order of nodes and ordinals. `broken`: cells that are broken or in a broken one.
    """

    topology: Topology = field(default_factory=Topology)
    inside: Mapping[str | None, tuple[str, ...]] = field(default_factory=dict)
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gpus: Mapping[str, GpuPlace] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    def __contains__(self, cell: str) -> bool:
        return cell in self.paths

    def __getitem__(self, cell: str) -> Cell:
        return self.topology.cells[cell]

    def at(self, level: str) -> Iterator[Cell]:
        """The cells of one level."""
        return self.topology.at(level)

    def gpus_in(self, cell: str) -> Iterator[str]:
        """The GPUs of a cell, broken ones included; a GPU is its own."""
        if cell in self.gpus:
            yield cell
            return
        for part in self.inside.get(cell, ()):
            yield from self.gpus_in(part)

    def node_of(self, cell: str) -> str | None:
        """The node that a cell is or lies in; None for those above nodes."""
        return next((above for above in self.paths[cell] if self[above].level == NODE), None)


def cells_of(known: Topology, usable: Callable[[Cell], int | None], gpu_memory_mb: int | None = None) -> Cells:
    """The cells of a pool's nodes. `usable`: how many GPUs of a node can be leased; None: it is not the pool's.

    `gpu_memory_mb`: of each GPU, where GPUs may be shared; else None. A GPU that the topology does not describe is a
    number in the smallest described cell, such as `node-1/3`. GPUs beyond the usable ones of a node count as broken.
    """
    inside: dict[str | None, list[Cell]] = {}
    for cell in known.cells.values():
        inside.setdefault(cell.parent, []).append(cell)
    shared = Resources() if gpu_memory_mb is None else Resources.of({GPU_MILLI: 1000, GPU_MEMORY: gpu_memory_mb})
    below: dict[str, Cell] = {}
    above: dict[str, list[Resources]] = {}
    gpus: dict[str, GpuPlace] = {}
    for node in sorted(known.at(NODE), key=lambda cell: cell.id):
        count = usable(node)
        if count is not None:
            cells, mine = _node_cells(known, node, count, inside, shared)
            below |= cells
            gpus |= mine
            for parent in known.ancestors(node.id):
                above.setdefault(parent.id, []).append(cells[node.id].capacity)
    racks = {name: replace(known.cells[name], capacity=total_of(above[name])) for name in known.cells if name in above}
    levels = known.levels if GPU_LEVEL in known.levels else (*known.levels, GPU_LEVEL)
    return _indexed(Topology(levels, racks | below), gpus)


def _node_cells(
    known: Topology, node: Cell, usable: int, inside: Mapping[str | None, list[Cell]], shared: Resources
) -> tuple[dict[str, Cell], dict[str, GpuPlace]]:
    """The cells of a node, and the places of its GPUs."""
    cells = {cell.id: cell for cell in _down_to_gpus(node, inside, False)}
    parents = {cell.parent for cell in cells.values() if cell.capacity[GPU]}
    gpus = [cell for cell in cells.values() if cell.capacity[GPU] and cell.id not in parents]
    for gpu in [gpu for gpu in gpus if not gpu.broken][usable:]:
        cells[gpu.id] = replace(gpu, broken=True)
    for gpu in gpus if shared else ():
        part: str | None = gpu.id
        while part in cells:
            cells[part] = replace(cells[part], capacity=cells[part].capacity + shared)
            part = cells[part].parent
    up = list(known.ancestors(node.id))
    rack = next((cell.id for cell in up if cell.level == RACK), up[0].id if up else "")
    return cells, {
        gpu.id: GpuPlace(node.host or node.id, rack, node.id, gpu.parent or node.id, ordinal, node.gpu_model)
        for ordinal, gpu in enumerate(gpus)
    }


def _down_to_gpus(cell: Cell, inside: Mapping[str | None, list[Cell]], is_broken: bool) -> Iterator[Cell]:
    """A cell and those in it, parents first; those in a broken one are broken too."""
    is_broken = is_broken or cell.broken
    yield replace(cell, broken=True) if is_broken and not cell.broken else cell
    parts = inside.get(cell.id, ())
    for part in parts:
        yield from _down_to_gpus(part, inside, is_broken)
    count = cell.capacity[GPU]
    if count and not any(part.capacity[GPU] for part in parts) and (count > 1 or cell.level == NODE):
        for ordinal in range(count):
            yield Cell(f"{cell.id}/{ordinal}", GPU_LEVEL, cell.id, _ONE, is_broken)


def _indexed(topology: Topology, gpus: Mapping[str, GpuPlace]) -> Cells:
    inside: dict[str | None, list[str]] = {}
    paths: dict[str, tuple[str, ...]] = {}
    broken = set[str]()
    for cell in topology.cells.values():
        inside.setdefault(cell.parent, []).append(cell.id)
        paths[cell.id] = (cell.id,) if cell.parent is None else (cell.id, *paths[cell.parent])
        if cell.broken or cell.parent in broken:
            broken.add(cell.id)
    return Cells(topology, {cell: tuple(parts) for cell, parts in inside.items()}, paths, gpus, frozenset(broken))
