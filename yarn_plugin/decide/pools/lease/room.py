"""GPUs that cannot be offered, although nobody leases them (see `yarn_plugin.decide.leases.room`)."""

from collections.abc import Iterator

from yarn_plugin.decide.leases.room import beyond_leases, is_any_unlisted
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
    settings, cells = turn.settings, turn.view.topology.cells
    room = {
        machine: settings.gpus_with_room(cells[machine].capacity, used)
        for node, used in (turn.view.node_used.items() if settings.has_task_size else ())
        if (machine := cell_of_node(turn.view.topology, node)) is not None
    }
    beyond = beyond_leases(turn.in_use(), turn.index.on_machine) if settings.rules > 3 else {}
    gpus = dict(turn.inventory.by_machine)
    if settings.rules > 3 and is_any_unlisted(turn.view.claims, turn.in_use()):
        room = dict.fromkeys(gpus, 0)
    if not (room or beyond):
        return
    free: dict[str, list[str]] = {}
    for gpu in turn.free():
        free.setdefault(turn.inventory.places[gpu].machine, []).append(gpu)
    # In one order, so that the state is the same in every process.
    for machine in dict.fromkeys([*room, *beyond]):
        if machine not in free:
            continue
        # Leased GPUs come first: their tasks run, or are about to start and need room too.
        leased = gpus[machine] - len(free[machine])
        yield from sorted(free[machine])[max(room.get(machine, gpus[machine]) - leased - beyond.get(machine, 0), 0) :]
