"""GPUs without room: their node has too little memory or too few vcores free for the tasks that would use them.

Where GPUs are no partition of their own in YARN, applications of other pools run on their nodes too. A lease there
would stay without containers, so such GPUs are not free until there is room.
"""

from collections.abc import Mapping

from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.resources import Resources


def crowded(occupancy: Occupancy, node_used: Mapping[str, Resources], settings: LedgerSettings) -> tuple[str, ...]:
    """The GPUs in no lease that lack room for tasks, sorted. `node_used`: what all containers use of each node."""
    cells, found = occupancy.cells, list[str]()
    for name, used in node_used.items() if settings.has_task_size else ():
        node = cell_of_node(cells.topology, name)
        if node is None:
            continue
        gpus = [gpu for gpu in cells.gpus_in(node) if gpu not in cells.broken]
        free = [gpu for gpu in gpus if gpu in occupancy.crowded or occupancy.is_free(gpu)]
        # Leased GPUs come first: their tasks run, or are about to start and need room too.
        leased = len(gpus) - len(free)
        found += free[max(settings.gpus_with_room(cells[node].capacity, used) - leased, 0) :]
    return tuple(sorted(found))
