"""Cells that break or go, and claims that leave: their leases end at once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import Broken, ClaimKey, Freed, Vacated
from yarn_plugin.decide.leases.book import NO_CHANGES, Changes
from yarn_plugin.decide.leases.lifetime import cut
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import Rules
from yarn_plugin.decide.leases.state import Entry, KnownNode
from yarn_plugin.model.causes import AppEnded, Cause, NodeLost
from yarn_plugin.model.topology import NODE


def known_nodes(cells: Cells) -> dict[str, KnownNode]:
    """The nodes of a pool as its allocator will know them."""
    broken: dict[str, list[str]] = {}
    for cell in cells.broken:
        node = cells.node_of(cell)
        if node is not None:
            broken.setdefault(node, []).append(cell)
    usable = Counter(place.machine for gpu, place in cells.gpus.items() if gpu not in cells.broken)
    return {
        node.id: KnownNode(node.parent, node.capacity, usable[node.id], tuple(sorted(broken.get(node.id, ()))))
        for node in cells.at(NODE)
    }


def changed_nodes(known: Mapping[str, KnownNode], nodes: Mapping[str, KnownNode]) -> tuple[str, ...]:
    """The nodes that are new, gone or different."""
    return tuple(sorted(name for name in {**known, **nodes} if known.get(name) != nodes.get(name)))


def break_cells(
    leases: Mapping[str, Entry], occupancy: Occupancy, changed: Iterable[str], cells: Cells, rules: Rules
) -> Changes:
    """End leases of cells that are broken or gone, or that their node has no longer the capacity for.

    `occupancy`: with the cells as they were, if that is known. `changed`: the nodes that are different. The latest
    leases of a node whose capacity has shrunk lose theirs. A lease that waits is over as soon as one of its cells is;
    so is its gang.
    """
    if occupancy.cells is cells:
        # What there was before is not known: all leases are looked at.
        keys = set(leases)
    else:
        keys = {key for node in changed for key in occupancy.in_or_around(node)}
    affected = [leases[key] for key in sorted(keys)]
    lost: dict[str, list[str]] = {}
    for entry in affected:
        gone = [cell for cell in entry.leased.cells if cell not in cells or cell in cells.broken]
        if gone:
            lost[entry.key] = gone
    for key, cell in _beyond(affected, lost, cells, rules):
        lost.setdefault(key, []).append(cell)
    entries = with_gangs([leases[key] for key in lost], leases, occupancy)
    changes, freed = NO_CHANGES, []
    for entry in entries:
        where = lost.get(entry.key, [entry.leased.cells[0]])[0]
        ended = cut(entry, lost[entry.key] if entry.is_started else entry.leased.cells, _lost(where))
        changes += ended.changes()
        freed.append(ended.freed)
    return changes + Changes(happened=(Broken(tuple(freed)),)) if freed else NO_CHANGES


def _lost(cell: str) -> Cause:
    return NodeLost(cell.partition("/")[0] or cell)


def _beyond(
    entries: Sequence[Entry], lost: Mapping[str, Sequence[str]], cells: Cells, rules: Rules
) -> list[tuple[str, str]]:
    """The holdings of these leases for which their nodes have too little capacity, the latest leases first. `lost`: the
    cells of each that are broken or gone."""
    order = sorted(entries, key=lambda one: (not one.is_started, one.leased.placed_at, one.key))
    found = []
    alone = Occupancy(cells, {})
    for entry in order:
        gone = lost.get(entry.key, ())
        if gone and (not entry.is_started or rules < 6):
            # It is over; by earlier rules, what is left of a lease was not counted.
            continue
        tally = alone.now if entry.is_started else alone.later
        for holding in [one for one in entry.leased.holdings if one.cell not in gone]:
            if tally.refusal(cells, holding) is None:
                tally.add(cells, [holding])
            else:
                found.append((entry.key, holding.cell))
    return found


def with_gangs(entries: Sequence[Entry], leases: Mapping[str, Entry], occupancy: Occupancy) -> list[Entry]:
    """These leases, and the others that wait in the gangs of those of them that wait."""
    gangs = {one.leased.gang for one in entries if not one.is_started and one.leased.gang is not None}
    keys = {one.key for one in entries}
    waiting = [leases[key] for key in sorted(occupancy.waiting)] if gangs else []
    return [*entries, *(one for one in waiting if one.leased.gang in gangs and one.key not in keys)]


def end_gone(leases: Mapping[str, Entry], occupancy: Occupancy, gone: Iterable[ClaimKey]) -> Changes:
    """End all leases of claims that are gone."""
    changes, freed = NO_CHANGES, list[Freed]()
    for claim in gone:
        for key in sorted(occupancy.by_app.get(claim[0], ())):
            if leases[key].leased.claim == claim:
                ended = cut(leases[key], leases[key].leased.cells, AppEnded(claim[0]))
                changes += ended.changes()
                freed.append(ended.freed)
    return changes + Changes(happened=(Vacated(tuple(freed)),)) if freed else NO_CHANGES
