"""GPUs that cannot be leased now, although nobody leases them: containers beyond all leases use GPUs of their node, or
it has too little memory or too few vcores free for the tasks that would use them.

Where GPUs are no partition of their own in YARN, applications of other pools run on their nodes too. Those of the pool
that are not registered, or that an arbiter which lost its journal knows no leases of, use GPUs of it. A lease there
would stay without containers, or would share its GPUs with them, so such GPUs are not free until there is room. Of a
node, it is known how many they use, not which; at first none of its GPUs are free (see `settings.RECORDS_S`).

Containers of other pools are not listed. How many GPUs they use follows from what is used of a node, within bounds (see
`strangers`).
"""

from collections.abc import Callable, Iterable, Mapping

from yarn_plugin.decide.leases.handover import InUse
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.state import Strangers
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Claim


def crowded(
    occupancy: Occupancy,
    node_used: Mapping[str, Resources],
    beyond: Mapping[str, int],
    strangers: Mapping[str, Strangers],
    is_any_unlisted: bool,
    are_records_due: bool,
    settings: LedgerSettings,
) -> tuple[str, ...]:
    """The GPUs in no lease that cannot be leased, sorted.

    `node_used`: what all containers use of each node. `beyond`, `is_any_unlisted`, `strangers`: see the functions.
    `are_records_due`: applications may still register again.
    """
    cells = occupancy.cells
    room = {
        node: settings.gpus_with_room(cells[node].capacity, used)
        for name, used in (node_used.items() if settings.has_task_size else ())
        if (node := cell_of_node(cells.topology, name)) is not None
    }
    if are_records_due:
        room |= dict.fromkeys([node for node in beyond if node in cells], 0)
    if settings.rules > 3 and is_any_unlisted:
        room = dict.fromkeys([place.machine for place in cells.gpus.values()], 0)
    found: list[str] = []
    for node in {*room, *beyond}:
        gpus = [gpu for gpu in cells.gpus_in(node) if gpu not in cells.broken]
        free = [gpu for gpu in gpus if not occupancy.is_kept(gpu)]
        # Leased GPUs come first: their tasks run, or are about to start and need room too.
        leased = len(gpus) - len(free)
        others = beyond.get(node, 0) + (strangers[node].gpus if node in strangers else 0)
        may = max(room.get(node, len(gpus)) - leased - others, 0)
        if may < len(free) and settings.rules > 5:
            # Those that are being vacated are in use until then: whoever is leased one waits.
            free.sort(key=lambda gpu: not occupancy.is_held(gpu))
        found += free[may:]
    return tuple(sorted(found))


def beyond_leases(in_use: InUse, leased_on: Callable[[str, str], int]) -> dict[str, int]:
    """How many GPUs of each node are used beyond leases. `leased_on`: how many an application leases of a node."""
    found: dict[str, int] = {}
    for app, on in in_use.items():
        for node, used in on.items():
            if (more := used - leased_on(app, node)) > 0:
                found[node] = found.get(node, 0) + more
    return found


def strangers(
    before: Mapping[str, Strangers],
    node_used: Mapping[str, int],
    beyond: Mapping[str, int],
    listed: Mapping[str, int],
    leased_on: Callable[[str], int],
) -> dict[str, Strangers]:
    """How many GPUs of each node applications of other pools use; `node_used`: by all containers.

    What is used of a node is known before the containers of the pool's applications are listed. So it may be theirs up
    to what they lease there, and is theirs for certain as far as it is listed. Between these bounds, as many count as
    before: neither does a lease that begins beside strangers hide them, nor does a task that ends.

    A surplus counts if it is there at the next call too. One poll makes several: an application may have ended whose
    node is known to be idle only after that.

    `beyond`: beyond leases. `listed`: see `completely_listed`. `leased_on`: how many are leased of a node.
    """
    found: dict[str, Strangers] = {}
    for node, used in node_used.items():
        surplus = max(used - leased_on(node) - beyond.get(node, 0), 0)
        last = before.get(node, Strangers())
        gpus = min(max(last.gpus, min(surplus, last.surplus)), max(used - listed.get(node, 0), 0))
        if gpus or surplus:
            found[node] = Strangers(gpus, surplus)
    return found


def completely_listed(claims: Iterable[Claim], in_use: InUse) -> dict[str, int]:
    """How many GPUs of each node those applications use of which all containers with GPUs are listed."""
    found: dict[str, int] = {}
    held = {one.app: one.held[GPU] for one in claims}
    for app, on in in_use.items():
        if sum(on.values()) == held.get(app):
            for node, used in on.items():
                found[node] = found.get(node, 0) + used
    return found


def is_any_unlisted(claims: Iterable[Claim], in_use: InUse) -> bool:
    """Whether an application that is not registered uses GPUs, and its containers were never listed: they may be on
    any node."""
    return any(not one.is_registered and one.app not in in_use and one.held[GPU] for one in claims)
