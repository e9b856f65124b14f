"""The life of a lease: it waits, starts, is kept, revoked, reclassed, and ends."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import Freed, Started, Vacated
from yarn_plugin.decide.allocators.plan import Holding, Keep
from yarn_plugin.decide.leases.book import NO_CHANGES, Changes
from yarn_plugin.decide.leases.occupancy import Occupancy, passing
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.decide.leases.told import granted, told, told_cells
from yarn_plugin.decide.pools.commands import CancelRevoke, Downgrade, Grant, LeaseEnded, Renew, Revoke
from yarn_plugin.model.causes import Cause, LeasePlaced, LeaseReplaced, LeaseWon
from yarn_plugin.model.share import LeaseClass


def numbered(entry: Entry) -> tuple[Entry, str]:
    """A lease about which one more command is issued, and the command's id."""
    entry = replace(entry, said=entry.said + 1)
    return entry, f"{entry.id}.{entry.said}"


# Changes that its allocator wants.


def revoke(entry: Entry, some: Collection[str], cause: Cause, at: float, grace_s: float) -> Changes:
    """Revoke these cells of a lease that has started (empty: all): its holder has the grace period to vacate them."""
    leased = entry.leased
    leaving = tuple([cell for cell in leased.cells if not some or cell in some or cell in leased.leaving])
    if leaving == leased.leaving:
        return NO_CHANGES
    said, by = entry.said + 1, at + grace_s
    some_told = () if len(leaving) == len(leased.holdings) else told_cells(entry, leaving)
    command = Revoke(f"{entry.id}.{said}", entry.app, entry.id, by, cause, some_told)
    leased = replace(leased, leaving=leaving, by=by)
    # One command is open for each lease: the new one names all that is to be vacated.
    entry = replace(entry, leased=leased, said=said, revoke=command, revoked_at=at, lists_tell=None, still_used=None)
    return Changes({entry.key: entry}, (command,))


def keep(entry: Entry, kept: Keep) -> Changes:
    """Change the end of a lease, and cancel its revocation."""
    leased, commands = replace(entry.leased, until=kept.until), list[CancelRevoke | Renew]()
    if leased.leaving and not kept.is_revoked_still:
        entry, id = numbered(entry)
        commands.append(CancelRevoke(id, entry.app, entry.id))
        leased = replace(leased, leaving=(), by=None)
        entry = replace(entry, revoke=None, revoked_at=None, released=())
    if entry.is_started:
        entry, id = numbered(entry)
        commands.append(Renew(id, entry.app, entry.id, kept.until, kept.cause))
    return Changes({entry.key: replace(entry, leased=leased)}, tuple(commands))


def reclass(entry: Entry, kind: LeaseClass, cause: Cause | None) -> Changes:
    """Change the class of a lease."""
    return announce(replace(entry, leased=replace(entry.leased, kind=kind)), kind, cause, None)


def announce(entry: Entry, kind: LeaseClass, cause: Cause | None, at: float | None) -> Changes:
    """Tell the holder of a lease that has started about its class, from a time on."""
    if not entry.is_started:
        return Changes({entry.key: entry})
    entry, id = numbered(entry)
    return Changes({entry.key: entry}, (Downgrade(id, entry.app, entry.id, kind, cause, at),))


# The end.


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a lease without some of its cells: `entry`, None if it is over; and who is told what."""

    entry: Entry | None
    commands: tuple[LeaseEnded, ...]
    freed: Freed

    def changes(self) -> Changes:
        """The same as changes, without an event."""
        return Changes({self.freed.key: self.entry}, self.commands)


def cut(entry: Entry, lost: Iterable[str], cause: Cause) -> Cut:
    """End a lease on these of its cells at once: they are free, or their next holder's."""
    leased, gone = entry.leased, set(lost)
    rest = tuple([holding for holding in leased.holdings if holding.cell not in gone])
    mine = tuple([cell for cell in leased.cells if cell in gone])
    freed = Freed(entry.key, leased.claim, mine, is_over=not rest)
    leaving = tuple([cell for cell in leased.leaving if cell not in gone])
    commands: tuple[LeaseEnded, ...] = ()
    if entry.is_started:
        id = f"{entry.id}.{entry.said + 1}"
        commands = (LeaseEnded(id, entry.app, entry.id, told_cells(entry, mine) if rest else (), cause),)
    if not rest:
        return Cut(None, commands, freed)
    by = leased.by if leaving else None
    released = tuple([cell for cell in entry.released if cell not in gone])
    leased = replace(leased, holdings=rest, leaving=leaving, by=by)
    entry = replace(entry, leased=leased, said=entry.said + len(commands), released=released)
    return Cut(entry if leaving else replace(entry, revoke=None, revoked_at=None), commands, freed)


def end_all(entries: Iterable[Entry], cause: Cause) -> Changes:
    """End these leases at once."""
    changes = NO_CHANGES
    for entry in entries:
        changes += cut(entry, entry.leased.cells, cause).changes()
    return changes


# The start.


def start_vacated(leases: Mapping[str, Entry], occupancy: Occupancy, at: float, grace_s: float) -> Changes:
    """Start the leases, or gangs, whose cells are all vacated, in the order in which they were placed."""
    gangs: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted((leases[key] for key in occupancy.waiting), key=lambda one: (one.leased.placed_at, one.key)):
        gang = entry.leased.gang
        gangs.setdefault(("lease", entry.key) if gang is None else ("gang", gang), []).append(entry)
    passed = {name: _passing(gang, leases, occupancy.cells) for name, gang in gangs.items()}
    starting = occupancy.which_can_start([(gang, passed[name]) for name, gang in gangs.items()])
    if not any(starting):
        return NO_CHANGES
    started = [name for name, can_start in zip(gangs, starting, strict=True) if can_start]
    entries = [entry for name in started for entry in gangs[name]]
    passing_over = {key: held for name in started for key, held in passed[name].items()}
    return _start(entries, passing_over, leases, occupancy.cells, at, grace_s)


Passing = dict[str, list[Holding]]
"""What leases pass over to those that replace them, by their keys."""


def _passing(gang: Sequence[Entry], leases: Mapping[str, Entry], cells: Cells) -> Passing:
    replaced = ((entry, leases.get(entry.leased.replaces or "")) for entry in gang)
    return {old.key: passing(old.leased.holdings, entry, cells) for entry, old in replaced if old is not None}


def _start(
    entries: Sequence[Entry], passed: Passing, leases: Mapping[str, Entry], cells: Cells, at: float, grace_s: float
) -> Changes:
    passed_over, revoked, freed = NO_CHANGES, NO_CHANGES, []
    for key, holdings in passed.items():
        old: Entry | None = leases[key]
        assert old is not None
        if holdings:
            part = cut(old, [holding.cell for holding in holdings], LeaseReplaced())
            passed_over, old = passed_over + part.changes(), part.entry
            freed.append(part.freed)
        if old is not None:
            # After the grant: its holder learns first where it may move to.
            revoked += revoke(old, (), LeaseReplaced(), at, grace_s)
    grants: dict[tuple[str, LeaseWon | str, float], list[Entry]] = {}
    for entry in entries:
        waited = round(at - entry.leased.placed_at, 6)
        leased = replace(entry.leased, started_at=at, replaces=None)
        succeeds = entry.leased.replaces in leases
        started = replace(entry, leased=leased, succeeds=succeeds, granted=granted(entry, cells))
        grants.setdefault((entry.app, entry.leased.won or entry.leased.note, waited), []).append(started)
    begun: dict[str, Entry | None] = {}
    commands = []
    for (app, why, waited), mine in grants.items():
        first, id = numbered(mine[0])
        mine[0] = first
        begun |= {entry.key: entry for entry in mine}
        cause: Cause = (
            LeasePlaced(why, waited)
            if isinstance(why, str)
            else replace(why, gpus=sum(len(entry.gpus) for entry in mine), waited_s=waited)
        )
        commands.append(Grant(id, app, tuple(told(entry, cells) for entry in mine), cause))
    vacated = (Vacated(tuple(freed)),) if freed else ()
    return passed_over + Changes(begun, tuple(commands), (*vacated, Started(tuple(begun)))) + revoked
