"""The machines of a pool as AlloX matches them: GPUs, and slots of cores of nodes."""

from collections.abc import Callable
from dataclasses import dataclass

from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.allox.state import AlloxState
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, SLOT_KIND
from yarn_plugin.model.resources import MEMORY, VCORES
from yarn_plugin.model.topology import NODE


@dataclass(frozen=True, slots=True)
class Machines:
    """`cells`: the cell of each machine, by kind. `free_in`: in how many seconds it is free."""

    cells: tuple[tuple[str, ...], ...]
    free_in: tuple[tuple[float, ...], ...]

    def without(self, lacks_room: Callable[[int, str], bool]) -> "Machines":
        """Without those free machines for which this holds, given their kind and cell."""
        kept = [
            [(cell, wait) for cell, wait in zip(cells, waits, strict=True) if wait > 0 or not lacks_room(kind, cell)]
            for kind, (cells, waits) in enumerate(zip(self.cells, self.free_in, strict=True))
        ]
        return Machines(
            tuple(tuple(cell for cell, _ in of_kind) for of_kind in kept),
            tuple(tuple(wait for _, wait in of_kind) for of_kind in kept),
        )


def machines(settings: AlloxSettings, state: AlloxState, seen: Seen) -> Machines:
    """The usable machines: free ones, and those of running jobs."""
    cells: tuple[list[str], list[str]] = ([], [])
    waits: tuple[list[float], list[float]] = ([], [])
    busy: dict[str, int] = {}
    for key, job in state.running.items():
        lease = seen.leases.get(key)
        if lease is not None:
            cell = lease.holdings[0].cell
            cells[job.kind].append(cell)
            # A job that should have ended: any moment now.
            waits[job.kind].append(max(job.ends_at - seen.at, 1.0))
            busy[cell] = busy.get(cell, 0) + 1
    for key, lease in seen.leases.items():
        if lease.kind == "sample":
            cell = lease.holdings[0].cell
            kind = GPU_KIND if cell in seen.cells.gpus else SLOT_KIND
            cells[kind].append(cell)
            # One that is done is about to be vacated.
            until = state.samples.open[key].until if key in state.samples.open else seen.at
            waits[kind].append(max(until - seen.at, 1.0))
    vcores: dict[str, int] = {}
    for gpu in seen.cells.gpus:
        if gpu not in busy and seen.room.is_free(gpu) and _take_vcores(settings, seen, gpu, vcores):
            cells[GPU_KIND].append(gpu)
            waits[GPU_KIND].append(0.0)
    for node in seen.cells.at(NODE) if settings.cpu_slot else ():
        for _ in range(_free_slots(settings, seen, node.id)):
            cells[SLOT_KIND].append(node.id)
            waits[SLOT_KIND].append(0.0)
    return Machines(tuple(map(tuple, cells)), tuple(map(tuple, waits)))


def _take_vcores(settings: AlloxSettings, seen: Seen, gpu: str, left: dict[str, int]) -> bool:
    """Take those of a GPU's job from what is left of its node, if there are as many."""
    node, needed = seen.cells.node_of(gpu), settings.gpu_vcores
    if not needed or node is None:
        return not needed
    # By earlier rules, each GPU was looked at as if it were the only free one: jobs on two could exceed their node.
    free = left.get(node) if seen.rules > 5 else None
    if free is None:
        free = seen.room.left(node)[VCORES]
    left[node] = free - needed
    return free >= needed


def _free_slots(settings: AlloxSettings, seen: Seen, node: str) -> int:
    """How many slots fit on a node, beside the vcores of its free GPUs."""
    left = seen.room.left(node)
    kept = settings.gpu_vcores * sum(1 for _ in seen.room.free_in(node))
    by_vcores = max(left[VCORES] - kept, 0) // settings.cpu_slot[VCORES]
    return min(by_vcores, left[MEMORY] // settings.cpu_slot[MEMORY])
