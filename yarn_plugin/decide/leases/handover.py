"""Hand-overs: cells become free when their holder has vacated them, and when YARN places nothing on them.

What runs where is known from container lists. They have numbers of GPUs of a node, not which ones, and are a little
older than what runs: where the holder goes on with other GPUs of the node, one of those may have become idle. So
revoked GPUs are vacated when their holder says which ones are and as many fewer are listed; or, if all that it leases
of the node was in use, when nothing is listed there any more. Otherwise, and without any listed container (it is not in
YARN, or YARN does not answer), it is taken to have vacated at the end of its grace period. So it is for holdings
without whole GPUs: lists do not tell slots or shares of a GPU from what else an application runs there.

Two things could mislead. A list that was asked for before the revocation may miss a container that has started since:
containers are listed again. And GPUs that the holder was leased since may be idle still, so that fewer are in use than
are leased although the revoked ones are not vacated: so containers that ran at the revocation are counted apart.

Nor is it known which GPUs YARN placed no containers on, if it placed some on the node: such GPUs are revoked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import Unplaced, Vacated
from yarn_plugin.decide.allocators.plan import Holding
from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.leases.book import NO_CHANGES, Changes
from yarn_plugin.decide.leases.lifetime import cut, revoke
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.decide.leases.told import told_cells
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.decide.use import use_of
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import Cause, LeaseReleased, LeaseVacated, NotPlaced, UseAsked
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.topology import Topology

InUse = Mapping[str, Mapping[str, int]]
"""The GPUs in use by application and node; an application is missing if no container of it is listed."""


def gpus_in_use(use: Sequence[Use], topology: Topology) -> InUse:
    """The GPUs in use, from the use on each node."""
    found: dict[str, dict[str, int]] = {}
    for one in use:
        node = cell_of_node(topology, one.node) or one.node
        on = found.setdefault(one.app, {})
        on[node] = on.get(node, 0) + one.held[GPU]
    return found


def gpus_on_nodes(holdings: Sequence[Holding], cells: Cells) -> dict[str, int]:
    """How many whole GPUs of each node these are."""
    found: dict[str, int] = {}
    for holding in holdings:
        for gpu in () if holding.amounts else cells.gpus_in(holding.cell):
            node = cells.gpus[gpu].machine
            found[node] = found.get(node, 0) + 1
    return found


def containers_of(use: Sequence[Use], app: str) -> tuple[str, ...]:
    """The containers of an application that were last listed."""
    return tuple([container for one in use if one.app == app for container in one.containers])


def note_listed(
    leases: Mapping[str, Entry], occupancy: Occupancy, found: ContainersListed, topology: Topology, yarn_app: str
) -> Changes:
    """Count what still runs of the containers that an application had when its cells were revoked.

    A list that may have been read before the revocation does not tell: the containers are listed again.
    """
    changed: dict[str, Entry | None] = {}
    is_too_old = False
    for entry in (leases[key] for key in sorted(occupancy.leaving & occupancy.by_app.get(found.app, set()))):
        if entry.running is None or entry.revoked_at is None:
            continue
        if found.asked_at is not None and found.asked_at < entry.revoked_at:
            is_too_old = True
            continue
        still = [container for container in found.containers if container.id in entry.running]
        used = gpus_in_use(use_of(found.app, still), topology).get(found.app, {})
        if used != entry.still_used:
            changed[entry.key] = replace(entry, still_used=used)
    return Changes(changed, (ListContainers(found.app, yarn_app, UseAsked(found.app)),) if is_too_old else ())


def overstayed(entry: Entry, leases: Mapping[str, Entry], occupancy: Occupancy, node: str, used: int) -> int:
    """How many GPUs of a node containers use on revoked cells of a lease, that ran there when these were revoked.

    `used`: all GPUs that the application uses there.
    """
    if entry.running is None:
        return 0
    others = (leases[key] for key in occupancy.by_app[entry.app])
    since = [one for one in others if one.key != entry.key and not one.succeeds and _started_since(one, entry)]
    not_its_own = [*entry.leased.revoked, *(holding for one in since for holding in one.leased.holdings)]
    kept = occupancy.gpus_on(entry.app, node) - gpus_on_nodes(not_its_own, occupancy.cells).get(node, 0)
    return max((used if entry.still_used is None else entry.still_used.get(node, 0)) - kept, 0)


def _started_since(entry: Entry, revoked: Entry) -> bool:
    started, since = entry.leased.started_at, revoked.revoked_at
    return started is not None and since is not None and started >= since


def end_vacated(
    entry: Entry, leases: Mapping[str, Entry], occupancy: Occupancy, in_use: InUse, use: Sequence[Use] | None, at: float
) -> Changes:
    """End a lease on those of its revoked cells that are vacated. `use`: None by rules that do not look at single
    containers."""
    leased, cells, used = entry.leased, occupancy.cells, in_use.get(entry.app)
    leaving = leased.revoked
    counts = gpus_on_nodes(leaving, cells)
    here = {node: occupancy.gpus_on(entry.app, node) for node in counts}
    before = entry
    if entry.lists_tell is None:
        # Revoked in this call.
        tells = bool(counts) and used is not None and all(used.get(node, 0) >= here[node] for node in counts)
        entry = replace(entry, lists_tell=tells, running=None if use is None else containers_of(use, entry.app))
    is_over, is_listed = entry.is_overdue(at), entry.running is None or entry.still_used is not None
    released = gpus_on_nodes([holding for holding in leaving if holding.cell in entry.released], cells)

    def has_left(holding: Holding, gone: Mapping[str, int]) -> bool:
        """Whether so many fewer GPUs are listed on each of its nodes than are leased there."""
        nodes = gpus_on_nodes([holding], cells)
        return used is not None and all(used.get(node, 0) <= here[node] - gone.get(node, 0) for node in nodes)

    def overstays(holding: Holding, used: Mapping[str, int]) -> bool:
        """Whether what ran on its nodes before still does, and only other GPUs there are idle."""
        nodes = gpus_on_nodes([holding], cells)
        return any(overstayed(entry, leases, occupancy, node, used.get(node, 0)) for node in nodes)

    vacated = []
    for holding in leaving:
        is_told = bool(gpus_on_nodes([holding], cells)) and entry.lists_tell is True and is_listed
        if (
            (is_told and has_left(holding, here))
            or (is_over and (used is None or (has_left(holding, counts) and not overstays(holding, used))))
            or (holding.cell in entry.released and has_left(holding, released))
        ):
            vacated.append(holding.cell)
    if not vacated:
        return NO_CHANGES if entry is before else Changes({entry.key: entry})
    after = round(at - (entry.revoked_at if entry.revoked_at is not None else at), 6)
    return _given_back(entry, vacated, LeaseVacated(after))[0]


def release(
    leases: Mapping[str, Entry], occupancy: Occupancy, in_use: InUse, app: str, what: Release, at: float, grace_s: float
) -> Changes:
    """An application gives cells back: revoked ones that it has vacated, or others before the end of their lease."""
    entry = leases.get(occupancy.by_id.get(what.lease, ""))
    if entry is None or entry.app != app or not entry.is_started:
        return NO_CHANGES
    cells, used = occupancy.cells, in_use.get(app)
    given = [
        holding
        for holding in entry.leased.holdings
        if not what.gpus or set(told_cells(entry, [holding.cell])) <= set(what.gpus)
    ]
    listed = [
        holding.cell
        for holding in given
        if used is not None
        and any(
            used.get(node, 0) > occupancy.gpus_on(app, node) - gpus_on_nodes(given, cells)[node]
            for node in gpus_on_nodes([holding], cells)
        )
    ]
    changes, cause = NO_CHANGES, LeaseReleased(app)
    vacated = [holding.cell for holding in given if holding.cell not in listed]
    left: Entry | None = entry
    if vacated:
        changes, left = _given_back(entry, vacated, cause)
    if listed and left is not None:
        # Its containers are still listed: their end decides, not its word alone.
        revoked = revoke(left, listed, cause, at, grace_s)
        again = revoked.leases.get(left.key) or left
        known = {*listed, *again.released}
        released = tuple([cell for cell in again.leased.leaving if cell in known])
        changes += replace(revoked, leases={left.key: replace(again, released=released)})
    return changes


def _given_back(entry: Entry, vacated: Sequence[str], cause: Cause) -> tuple[Changes, Entry | None]:
    """End a lease on vacated cells; and what is left of it. The allocator hears if they were revoked as unplaced."""
    is_unplaced = entry.revoke is not None and isinstance(entry.revoke.cause, NotPlaced)
    ended = cut(entry, vacated, cause)
    freed = (ended.freed,)
    return ended.changes() + Changes(happened=(Unplaced(freed) if is_unplaced else Vacated(freed),)), ended.entry


@dataclass(frozen=True, slots=True)
class Steering:
    """Whether this arbiter may act on YARN, and the YARN id of each application that has one."""

    is_steering: bool
    yarn_apps: Mapping[str, str]


def take_back(
    leases: Mapping[str, Entry],
    key: str,
    occupancy: Occupancy,
    in_use: InUse,
    steering: Steering,
    listed: str | None,
    at: float,
    settings: LedgerSettings,
) -> Changes:
    """Take back what is not in use `place_within_s` after its lease started: YARN could not place its containers.

    The known list may be older than the containers, so they are listed once more before, when the ResourceManager
    answers. What is on nodes where nothing runs is free at once. Where something does, it may be on these very cells:
    their holder has the grace period to vacate them. `listed`: the application whose containers have just been.
    """
    entry, cells, within = leases[key], occupancy.cells, settings.place_within_s
    started, app = entry.leased.started_at, entry.app
    if entry.is_placed or started is None or started + within > at:
        return NO_CHANGES
    if not entry.leased.staying and settings.rules > 4:
        # Nothing is left to judge; but the revocation may be cancelled.
        return NO_CHANGES
    counts = gpus_on_nodes(entry.leased.staying, cells)
    on = in_use.get(app, {})
    missing = {node: occupancy.gpus_on(app, node) - on.get(node, 0) for node in counts}
    if not _not_in_use(entry, missing, cells):
        return Changes({key: replace(entry, is_placed=True)})
    # Revoked ones may be those that are not in use.
    leaving = _leaving(leases, occupancy, app) if settings.rules > 2 else {}
    back = _not_in_use(entry, {node: count - leaving.get(node, 0) for node, count in missing.items()}, cells)
    if not back or app not in steering.yarn_apps or not steering.is_steering:
        return NO_CHANGES
    if entry.listed_at is not None and listed == app:
        node = next(node for node in counts if missing[node] > 0)
        cause = NotPlaced(node, occupancy.gpus_on(app, node), on.get(node, 0), within)
        running = on if settings.rules > 2 else {}
        return _unplaced(replace(entry, is_placed=True), back, running, cells, cause, at, settings.grace_s)
    if entry.listed_at is None or entry.listed_at + within <= at:
        # Again if there was no answer: the ResourceManager was away, or this arbiter.
        command = ListContainers(app, steering.yarn_apps[app], UseAsked(app))
        return Changes({key: replace(entry, listed_at=at)}, (command,))
    return NO_CHANGES


def _leaving(leases: Mapping[str, Entry], occupancy: Occupancy, app: str) -> dict[str, int]:
    """How many whole GPUs of each node an application has to vacate."""
    keys = occupancy.leaving & occupancy.by_app[app]
    return gpus_on_nodes([holding for key in keys for holding in leases[key].leased.revoked], occupancy.cells)


def _unplaced(
    entry: Entry, back: Sequence[str], on: Mapping[str, int], cells: Cells, cause: NotPlaced, at: float, grace_s: float
) -> Changes:
    """End a lease on those of these cells on whose nodes nothing runs, and revoke the others."""
    unused = [cell for cell in back if not any(on.get(cells.gpus[gpu].machine) for gpu in cells.gpus_in(cell))]
    changes, left = NO_CHANGES, entry
    if unused:
        ended = cut(entry, unused, cause)
        changes = ended.changes() + Changes(happened=(Unplaced((ended.freed,)),))
        left = ended.entry or entry
    doubtful = [cell for cell in back if cell not in unused]
    return changes + revoke(left, doubtful, cause, at, grace_s) if doubtful else changes


def _not_in_use(entry: Entry, missing: Mapping[str, int], cells: Cells) -> list[str]:
    """The last of a lease's cells whose nodes lack so many GPUs in use; larger cells if none of theirs is in use."""
    left, found = dict(missing), []
    for holding in reversed(entry.leased.staying):
        counts = gpus_on_nodes([holding], cells)
        if counts and all(left[node] >= count for node, count in counts.items()):
            found.append(holding.cell)
            for node, count in counts.items():
                left[node] -= count
    return found[::-1]
