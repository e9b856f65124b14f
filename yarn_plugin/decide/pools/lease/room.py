"""GPUs without room: their machine has too little memory or too few vcores free for the tasks that would use them.

Where GPUs are no partition of their own in YARN, applications of other pools run on their machines too. A lease there
would stay without containers, so such GPUs are not offered until there is room.
"""

from collections.abc import Iterator

from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.topology import cell_of_node

ROOM = "room"
NO_ROOM = "no memory or vcores free"


def update_crowded(turn: Turn) -> None:
    """Note which GPUs in no lease lack room. Those that have room again open a round."""
    found = tuple(_crowded(turn))
    before = turn.state.crowded
    if found == before:
        return
    turn.change(crowded=found)
    turn.freed(set(before) - set(found), ROOM)


def idle(turn: Turn) -> tuple[tuple[str, int], ...]:
    """How many GPUs were not offered for want of room, as a reason of idle GPUs."""
    return ((NO_ROOM, len(turn.state.crowded)),) if turn.state.crowded else ()


def _crowded(turn: Turn) -> Iterator[str]:
    if not (turn.view.node_used and turn.settings.has_task_size):
        return
    free: dict[str, list[str]] = {}
    for gpu in turn.free():
        free.setdefault(turn.inventory.places[gpu].machine, []).append(gpu)
    gpus = dict(turn.inventory.by_machine)
    for node, used in turn.view.node_used.items():
        machine = cell_of_node(turn.view.topology, node)
        if machine is None or machine not in free:
            continue
        usable = turn.settings.gpus_with_room(turn.view.topology.cells[machine].capacity, used)
        # Leased GPUs come first: their tasks run, or are about to start and need room too.
        leased = gpus[machine] - len(free[machine])
        yield from sorted(free[machine])[max(usable - leased, 0) :]
