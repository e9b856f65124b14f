"""What must hold of a ledger of leases after every call, by a bookkeeping of its own.

Who holds what follows from the plans, from what the allocator hears, and from what applications are told: the three
agree with each other and with the ledger. What is due at a time happens in the call of that time, neither before nor
after it. What fits where is counted by `holds`, which compares every holding with every other one.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from tests.chaos.checks import require
from tests.chaos.holds import Holds, later, leased_on, passes, whole_gpus
from yarn_plugin.decide.allocators import happenings
from yarn_plugin.decide.allocators.cells import cells_of
from yarn_plugin.decide.allocators.plan import Holding
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import ContainersListed, Registered
from yarn_plugin.decide.leases.validity import InvalidLedgerError, validate
from yarn_plugin.decide.pools.commands import (
    Ask,
    CancelRevoke,
    Downgrade,
    Grant,
    LeaseEnded,
    Offer,
    Refuse,
    Renew,
    Revoke,
    SetTimer,
    Solve,
)
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Restarted, TimerDue
from yarn_plugin.decide.pools.ledger import NEXT, WAKE
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.auction import Bid, Estimate, Release
from yarn_plugin.model.causes import (
    AppEnded,
    BeyondLease,
    LeaseDropped,
    LeaseLapsed,
    LeasePlaced,
    LeaseReleased,
    LeaseReplaced,
    LeaseVacated,
    LeaseWon,
    NodeLost,
    NotPlaced,
    UseAsked,
)
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources


@dataclass
class Told:
    """What an application knows of a lease. `names`: by cell, what it knows the cell by; `leaving`: cells to vacate.

    `since`, `running`, `was_full`: when they were revoked, the containers that were listed then, and whether all that
    the application leased of their nodes was in use; `listed`: the last list that was asked for since.
    """

    key: str
    app: str
    names: dict
    until: float | None
    kind: str
    leaving: tuple = ()
    by: float | None = None
    revoke: Revoke | None = None
    since: float = 0.0
    running: frozenset = frozenset()
    was_full: bool = False
    listed: tuple | None = None
    released: set = field(default_factory=set)

    def cells_of(self, named):
        """The cells that have these names; all, if there are none."""
        if not named:
            return tuple(self.names)
        return tuple(cell for cell, names in self.names.items() if set(names) <= set(named))


@dataclass
class Call:
    """One call of the controller. `before`, `after`: the entries of the leases by key."""

    view: object
    at: float
    what: object
    ledger: object
    before: dict
    after: dict
    out: tuple
    heard: list
    cells: object
    occupancy: object
    last: float

    def of(self, *kinds):
        return [one for one in self.out if isinstance(one, kinds)]

    def events(self, *kinds):
        return [what for what, _, _ in self.heard if isinstance(what, kinds)]

    def freed(self):
        return [
            one for event in self.events(happenings.Vacated, happenings.Unplaced, happenings.Broken)
            for one in event.freed
        ]  # fmt: skip

    def used(self, app):
        """The GPUs of each node in use by an application, by its last list; None if no container is listed."""
        mine = [one for one in self.view.use if one.app == app]
        found = Counter()
        for one in mine:
            found[cell_of_node(self.view.topology, one.node) or one.node] += one.held[GPU]
        return found if mine else None

    def leased(self, app, leases=None):
        return leased_on(self.cells, [one.leased for one in (leases or self.after).values()], app)


class LedgerChecks:
    """See the module."""

    def __init__(self, world):
        self.world, self.cells = world, None
        self.own, self.told, self.placed, self.by_member = {}, {}, {}, {}
        self.ids, self.asked, self.problems, self.wakes, self.idle = set(), {}, {}, {}, {}
        self.claims, self.told_ends, self.beyond, self.placing = (), {}, {}, {}
        self.last, self.nodes = 0.0, {}
        self.strangers, self.surplus = Counter(), Counter()
        self.records_due, self.records_until = world.settings.records_s > 0, None

    def take(self, view, at, what, before, after, out, heard, occupancy):
        cells = cells_of(view.topology, self._usable, self.world.settings.gpu_memory_mb)
        require(occupancy.cells == cells, "the cells are not those of the pool's nodes")
        self.cells = cells
        call = Call(
            view, at, what, after.ledger, before.ledger.leases, after.ledger.leases, out, heard, cells, occupancy,
            self.last,
        )  # fmt: skip
        validate(after.ledger, cells, occupancy)
        self._check_claims(call)
        if not view.steering:
            self.records_until = None
        elif self.records_due and self.records_until is None:
            self.records_until = at + self.world.settings.records_s
        if self.records_until is not None and at >= self.records_until:
            self.records_due = False
        self._check_signals(call)
        self._count_strangers(call)
        self._check_crowded(call)
        self._check_records(call)
        self._hear(call)
        self._plan(call)
        self._check_same(call)
        self._check_causes(call)
        self._check_fits(call)
        self._check_waiting(call)
        self._check_vacated(call)
        self._check_ends(call)
        self._check_unplaced(call)
        self._check_beyond(call)
        self._check_questions(call)
        self._check_timer(call)
        if self.world.steps % 8 == 0:
            self._check_room(call)
            self._check_validity(call)
        self._note_rare(call)
        self.last = at

    # Whose nodes.

    def _usable(self, node):
        settings = self.world.settings
        if settings.partition and node.partition != settings.partition:
            return None
        if settings.nodes and not any(fnmatchcase(node.host, pattern) for pattern in settings.nodes):
            return None
        return settings.gpus_per_task * self._tasks(node.capacity, node.capacity[GPU] // settings.gpus_per_task)

    def _tasks(self, left, most):
        """How many tasks, at most so many, have room in these amounts."""
        settings = self.world.settings
        for name, each in ((MEMORY, settings.task_memory_mb), (VCORES, settings.task_vcores)):
            most = min(most, left[name] // each) if each else most
        return most

    # Who holds what.

    def _check_claims(self, call):
        shown = {(one.app, one.job): one for one in call.view.claims}
        known = [key for key in self.claims if key in shown]
        known += [
            key for key, one in shown.items()
            if key not in known and one.app != one.yarn_app and one.yarn_app and not one.is_submitted
        ]  # fmt: skip
        changed = set(known) ^ set(self.claims)
        have = [(one.app, one.job) for one in call.ledger.claims]
        require(have == known, "the claims are not those that can hold leases, in order")
        told = {key for event in call.events(happenings.Changed) for key in event.claims}
        began = bool(call.events(happenings.Began))
        require(began or changed <= told, f"the allocator is not told that {changed - told} came or went")
        self.claims = tuple(known)

    def _hear(self, call):
        """What applications are told."""
        for _, _, plan in call.heard:
            for one in plan.place:
                self.placed[one.key], self.by_member[one.member] = _leased(one, call.at), one.key
        self.granted, self.ended, self.revoked = [], [], []
        for one in call.out:
            if isinstance(one, Grant | Revoke | CancelRevoke | LeaseEnded | Renew | Downgrade):
                is_again = isinstance(call.what, Restarted) and isinstance(one, Revoke) and one.id in self.ids
                require(is_again or one.id not in self.ids, f"the id {one.id} is used again")
                self.ids.add(one.id)
                if not isinstance(one, Grant):
                    require(one.lease in self.told, f"{one.app} is told of {one.lease}, which it does not have")
                    require(self.told[one.lease].app == one.app, f"{one.lease} is not a lease of {one.app}")
            match one:
                case Grant(_, app, leases, cause):
                    require(bool(leases), "a grant of nothing")
                    for lease in leases:
                        self._grant(call, app, lease, cause)
                case Revoke():
                    self._revoke(call, one)
                case CancelRevoke():
                    held = self.told[one.lease]
                    require(held.leaving, f"{one.lease} is not revoked, and its revocation is cancelled")
                    held.leaving, held.by, held.revoke, held.released = (), None, None, set()
                case Renew(_, _, lease, until):
                    self.told[lease].until = until
                case Downgrade(_, _, lease, to, _, None):
                    self.told[lease].kind = to
                case LeaseEnded(_, _, lease, named, cause):
                    self._end(call, lease, named, cause)

    def _grant(self, call, app, lease, cause):
        key = self.by_member[lease.member]
        require(lease.id not in self.told, f"{lease.id} is granted again")
        placed = self.placed[key]
        names, every = {}, []
        for holding in placed.holdings:
            names[holding.cell] = self._names(holding)
            every += self._told_holdings(holding)
        told = [(one.cell, one.resource, one.fraction, one.container, one.place) for one in lease.holdings]
        require(told == every, f"{lease.id} is granted as {told}, not {every}")
        require(
            (app, lease.app, lease.job, lease.alternative)
            == (placed.claim[0], app, placed.claim[1] or placed.job, placed.alternative),
            f"{lease.id} is granted to another one than it was placed for",
        )
        waited = round(call.at - placed.placed_at, 6)
        if isinstance(cause, LeaseWon):
            require(placed.won == replace(cause, gpus=0, waited_s=0.0) and cause.waited_s == waited, "how it was won")
        else:
            require(cause == LeasePlaced(placed.note, waited), f"{lease.id} is granted because of {cause}")
        self.told[lease.id] = Told(key, app, names, lease.until, lease.kind)
        self.granted.append(key)

    def _names(self, holding):
        if holding.amounts:
            return (holding.cell,)
        return tuple(gpu for gpu in self.cells.gpus_in(holding.cell) if gpu not in self.cells.broken) or (holding.cell,)

    def _told_holdings(self, holding):
        if holding.amounts:
            capacity, place = self.cells[holding.cell].capacity, self.cells.gpus.get(holding.cell)
            return [(holding.cell, name, amount / capacity[name], holding.container, place)
                    for name, amount in holding.amounts]  # fmt: skip
        gpus = [gpu for gpu in self._names(holding) if gpu in self.cells.gpus]
        if gpus:
            return [(gpu, GPU, 1.0, holding.container, self.cells.gpus[gpu]) for gpu in gpus]
        return [(holding.cell, name, 1.0, holding.container, None) for name, _ in self.cells[holding.cell].capacity]

    def _revoke(self, call, one):
        held = self.told[one.lease]
        require(one.by == call.at + self.world.settings.grace_s, f"{one.lease} is to be vacated by {one.by}")
        if one.id == (held.revoke.id if held.revoke else None):
            require(held.leaving == held.cells_of(one.cells) or held.cells_of(one.cells) > held.leaving, "another one")
            self.world.sometimes(True, "revoked again after a restart")
            held.by, held.revoke = one.by, one
            return
        leaving = held.cells_of(one.cells)
        require(set(leaving) > set(held.leaving), f"{one.lease} is revoked as before")
        used, here = call.used(held.app), self._leased_now(held.app)
        counts = whole_gpus(self.cells, self._holdings(call, held.key, leaving))
        held.was_full = bool(counts) and used is not None and all(used[node] >= here[node] for node in counts)
        held.running = frozenset(name for use in call.view.use if use.app == held.app for name in use.containers)
        held.leaving, held.by, held.revoke, held.since, held.listed = leaving, one.by, one, call.at, None
        self.revoked.append((held.key, leaving, one.cause))

    def _holdings(self, call, key, cells):
        return [one for one in self.placed[key].holdings if one.cell in cells]

    def _leased_now(self, app):
        """How many GPUs of each node an application was told it leases."""
        return Counter(
            self.cells.gpus[name].machine
            for held in self.told.values() if held.app == app
            for names in held.names.values() for name in names if name in self.cells.gpus
        )  # fmt: skip

    def _end(self, call, lease, named, cause):
        held = self.told[lease]
        cells = held.cells_of(named)
        require(cells, f"{lease} ends on {named}, which it does not hold")
        self.ended.append((held.key, cells, cause, replace(held), self._holdings(call, held.key, cells)))
        held.names = {cell: names for cell, names in held.names.items() if cell not in cells}
        held.leaving = tuple(cell for cell in held.leaving if cell not in cells)
        held.released = held.released - set(cells)
        if not held.leaving:
            held.by = held.revoke = None
        if not held.names:
            del self.told[lease]
        else:
            require(named, f"{lease} ends, and goes on")

    # What was planned.

    def _plan(self, call):
        """The leases that follow from what the allocator heard and wanted."""
        self.dropped, self.last_own = [], dict(self.own)
        for what, seen, plan in call.heard:
            if isinstance(what, happenings.Started):
                for key in what.keys:
                    require(self.own[key].started_at is None, f"{key} starts again")
                    self.own[key] = replace(self.own[key], started_at=call.at, replaces=None)
            for one in getattr(what, "freed", ()):
                self._free(one)
            for one in plan.withdraw:
                self.own.pop(one.key, None)
            for one in plan.keep:
                self.own[one.key] = replace(self.own[one.key], until=one.until)
            for one in plan.reclass:
                self.own[one.key] = replace(self.own[one.key], kind=one.kind)
            for one in plan.drop:
                if one.key in seen and seen[one.key].started_at is None:
                    del self.own[one.key]
                elif one.key in seen:
                    self.dropped.append((one, seen[one.key]))
            for one in plan.place:
                old = seen.get(one.replaces, self.own.get(one.replaces))
                is_waiting = old is not None and old.started_at is None
                if is_waiting:
                    self.own.pop(old.key, None)
                leased = _leased(one, call.at)
                # One that was dropped by the same plan never replaces.
                goes_on = old is not None and not is_waiting
                self.own[one.key] = leased if goes_on else replace(leased, replaces=None)
            self.idle = self.idle if plan.idle is None else dict(plan.idle)

    def _free(self, freed):
        one = self.own[freed.key]
        require(freed.claim == one.claim, f"{freed.key} is of another claim")
        require(set(freed.cells) <= set(one.cells), f"{freed.key} loses {freed.cells}, which it does not hold")
        rest = tuple(held for held in one.holdings if held.cell not in freed.cells)
        require(freed.is_over == (not rest), f"{freed.key}: it is not true that it is over: {freed.is_over}")
        if rest:
            self.own[freed.key] = replace(one, holdings=rest)
        else:
            del self.own[freed.key]

    def _check_same(self, call):
        """The ledger, what was planned and what was told are the same."""
        require(
            self.own.keys() == call.after.keys(),
            f"the leases are not those planned: {self.own.keys() ^ call.after.keys()}",
        )
        told = {held.key: (id, held) for id, held in self.told.items()}
        for key, entry in call.after.items():
            own = self.own[key]
            id, held = told.get(key, (None, None))
            require((held is None) == (own.started_at is None), f"{key}: its application was told otherwise")
            if held is not None:
                own = self.own[key] = replace(own, leaving=held.leaving, by=held.by)
                require(entry.id == id and tuple(held.names) == own.cells, f"{key}: its application knows other cells")
                require((held.until, held.kind) == (own.until, own.kind), f"{key}: its application knows another end")
                require(entry.revoke == held.revoke, f"{key}: another command is open")
            leased = entry.leased if entry.leased.replaces in call.after else replace(entry.leased, replaces=None)
            own = own if own.replaces in call.after else replace(own, replaces=None)
            require(leased == own, f"{key} is {leased}, and was planned as {own}")
        require(told.keys() <= call.after.keys(), "an application was told of a lease that is not there")
        started = [key for event in call.events(happenings.Started) for key in event.keys]
        require(sorted(started) == sorted(self.granted), "the allocator hears of other starts than the applications")
        freed = Counter((one.key, cell) for one in call.freed() for cell in one.cells)
        ended = Counter((key, cell) for key, cells, _, _, _ in self.ended for cell in cells)
        require(not ended - freed, f"the allocator does not hear of the ends of {ended - freed}")
        waited = {key for key, one in call.before.items() if not one.is_started}
        extra = {key for key, _ in freed - ended} - waited
        require(not extra, f"applications do not hear of the ends of {extra}")
        require(call.ledger.idle == self.idle, "the reasons for idle cells are not the last ones")

    def _check_causes(self, call):
        """Each revocation has a reason, and what was to be revoked is."""
        replaced = {self.placed[key].replaces for key in self.granted}
        settings, said = self.world.settings, call.what.message if isinstance(call.what, FromApp) else None
        for key, leaving, cause in self.revoked:
            match cause:
                case LeaseDropped():
                    require(any(drop.cause == cause for drop, _ in self.dropped), f"{key} is revoked undropped")
                case LeaseLapsed():
                    until = self._before(call, key).until
                    require(until is not None and until + settings.overtime_s <= call.at, f"{key} lapses too early")
                    self.world.sometimes(True, "lease lapsed")
                case LeaseReleased():
                    require(isinstance(said, Release), f"{key} is taken as released")
                case LeaseReplaced():
                    require(key in replaced, f"{key} is revoked as replaced")
                case NotPlaced():
                    self._check_not_placed(call, key, cause, leaving)
                case _:
                    require(False, f"{key} is revoked because of {cause}")
        for drop, leased in self.dropped:
            wanted = set(drop.cells or leased.cells) - set(leased.leaving)
            is_done = any(cause == drop.cause for _, _, cause in self.revoked)
            gone = {cell for key, cells, _, _, _ in self.ended if key == drop.key for cell in cells}
            require(is_done or wanted <= gone, f"{drop.key} is dropped, and not revoked")
        for key, cells, cause, held, holdings in self.ended:
            match cause:
                case LeaseVacated(after_s):
                    self._check_given_back(call, cells, held, holdings, after_s)
                case LeaseReleased(app):
                    is_so = isinstance(said, Release) and call.what.app == app == held.app
                    require(is_so, f"{key} ends as released")
                    used, left = call.used(app) or Counter(), self._leased_now(app)
                    # Lists do not tell parts of GPUs from what else runs there.
                    left.update(self.cells.gpus[one.cell].machine for one in holdings
                                if one.amounts and one.cell in self.cells.gpus)  # fmt: skip
                    bad = [node for node in whole_gpus(self.cells, holdings) if used[node] > left[node]]
                    require(
                        not bad or call.events(happenings.Broken), f"{key} is taken as vacated, and {bad} are in use"
                    )
                case LeaseReplaced():
                    new = [self.placed[one].holdings for one in self.granted if self.placed[one].replaces == key]
                    is_so = any(all(passes(self.cells, one, to) for one in holdings) for to in new)
                    require(is_so, f"{key} ends as replaced on {cells}")
                    self.world.sometimes(True, "lease replaced")
                case NotPlaced():
                    self._check_not_placed(call, key, cause, cells)
                    used = call.used(held.app) or Counter()
                    in_use = [node for node in whole_gpus(self.cells, holdings) if used[node]]
                    require(not in_use, f"{key} ends at once on {cells}, and {in_use} are in use")
                    self.world.sometimes(True, "lease unplaced")
                case NodeLost():
                    pass
                case AppEnded(app):
                    require(held.app == app and self._before(call, key).claim not in self.claims, f"{key} ends unended")
                case _:
                    require(False, f"{key} ends because of {cause}")
        self._check_lost(call)

    def _before(self, call, key):
        return self.last_own.get(key) or self.placed[key]

    def _check_lost(self, call):
        """Leases end on exactly the cells that are broken, or beyond what their node has."""
        for key, cells, cause, _, _ in self.ended:
            if isinstance(cause, NodeLost):
                for cell in cells:
                    is_lost = cell not in self.cells or cell in self.cells.broken
                    require(is_lost or self._is_tight(call, cell), f"{key} loses {cell}, which is well")
                where = cause.host
                require(any(cell == where or cell.startswith(where + "/") for cell in cells), "another node is named")
        for event in call.events(happenings.Broken):
            waited = [call.before[one.key].leased for one in event.freed if one.key in call.before]
            gangs = {one.gang for one in waited if one.started_at is None and one.gang is not None}
            left = [
                key for key, one in call.before.items()
                if key in call.after and not one.is_started and one.leased.gang in gangs
            ]  # fmt: skip
            require(not left, f"{left} still wait, without others of their gangs")

    def _is_tight(self, call, cell):
        """Whether the leases of before are too many for the node of a cell as it is now."""
        every = [entry.leased for entry in call.before.values()]
        held = [one for lease in every if lease.started_at is not None for one in lease.holdings]
        held = [one for one in held if one.cell in self.cells and one.cell not in self.cells.broken]
        if not Holds(self.cells, held).is_valid():
            return True
        wait = [one for one in later(self.cells, every).holdings if one.cell in self.cells]
        return not Holds(self.cells, [one for one in wait if one.cell not in self.cells.broken]).is_valid()

    # What fits.

    def _check_fits(self, call):
        leases = [entry.leased for entry in call.after.values()]
        started = [one for one in leases if one.started_at is not None]
        require(
            Holds(self.cells, [held for one in started for held in one.holdings]).is_valid(), "cells are held twice"
        )
        require(later(self.cells, leases).is_valid(), "cells will be held twice")

    def _check_waiting(self, call):
        """Nothing waits that could start, and gangs start together."""
        leases = {key: entry.leased for key, entry in call.after.items()}
        waiting = {}
        for key, one in leases.items():
            if one.started_at is None:
                waiting.setdefault(one.gang or key, []).append(one)
            elif one.gang is not None:
                is_first = call.after[key].leased.started_at == call.at
                others = [two for two in leases.values() if two.gang == one.gang and two.started_at is None]
                require(not (is_first and others), f"gang {one.gang} starts in part")
        held = [(key, one) for key, two in leases.items() if two.started_at is not None for one in two.holdings]
        for gang, mine in waiting.items():
            to = {one.replaces: one.holdings for one in mine if one.replaces is not None}
            left = [one for key, one in held if key not in to or not passes(self.cells, one, to[key])]
            added = [one for lease in mine for one in lease.holdings]
            require(not Holds(self.cells, left).fits(added), f"{gang} waits, and could start")
            self.world.sometimes(len(mine) > 1, "gang waits")

    # Hand-overs.

    def _overstayed(self, call, held, leases, node, used):
        """How many GPUs containers use that ran when they were to be vacated, beyond what is leased since before."""
        mine = [entry for entry in leases.values() if entry.app == held.app and entry.is_started]
        since = [
            one for one in mine
            if one.key != held.key and not one.succeeds and one.leased.started_at >= held.since
        ]  # fmt: skip
        others = [holding for one in since for holding in one.leased.holdings]
        revoked = [one for one in leases[held.key].leased.holdings if one.cell in held.leaving]
        kept = call.leased(held.app, leases)[node] - whole_gpus(self.cells, [*revoked, *others])[node]
        still = used if held.listed is None else sum(
            one.resources[GPU] for one in held.listed
            if one.id in held.running and (cell_of_node(call.view.topology, one.node) or one.node) == node
        )  # fmt: skip
        return max(still - kept, 0)

    def _check_given_back(self, call, cells, held, holdings, after_s):
        require(after_s == round(call.at - held.since, 6), f"{held.key} was vacated after {after_s} s, as it says")
        require(set(cells) <= set(held.leaving), f"{held.key} is taken as vacated unrevoked")
        used, left = call.used(held.app), self._leased_now(held.app)
        nodes = whole_gpus(self.cells, [one for one in holdings if one.cell in self.cells])
        started = Counter()
        for key in self.granted:
            if self.own.get(key) is not None and self.own[key].claim[0] == held.app:
                started.update(whole_gpus(self.cells, self.own[key].holdings))
        # Lists do not tell parts of GPUs from what else runs there.
        left.update(
            self.cells.gpus[one.cell].machine for entry in call.before.values() if entry.app == held.app
            for one in entry.leased.holdings if one.amounts and one.cell in self.cells.gpus
        )  # fmt: skip
        for node in nodes if used is not None else ():
            require(used[node] <= left[node] or started[node] or call.events(happenings.Broken),
                    f"{held.key} is taken as vacated, and {used[node]} GPUs of {node} are in use")  # fmt: skip
        if held.by > call.at and not set(cells) <= held.released:
            require(used is not None and held.was_full and not any(used[node] for node in nodes) and nodes,
                    f"{held.key} is taken as vacated too early")  # fmt: skip
            self.world.sometimes(True, "cells given back early")

    def _check_vacated(self, call):
        """What is vacated is given back in the same call."""
        match call.what:
            case Outcome(_, "done", ContainersListed(app, containers, asked_at)):
                for held in self.told.values():
                    if held.app != app or not held.leaving or held.since == call.at:
                        continue
                    if asked_at >= held.since:
                        held.listed = containers
                    else:
                        again = [one for one in call.of(ListContainers) if one.app == app]
                        require(again, f"the list is older than a revocation, and {app} is not listed again")
                        self.world.sometimes(True, "list too old")
            case FromApp(app, Release(lease, named)) if lease in self.told and self.told[lease].app == app:
                held = self.told[lease]
                names = {cell for cell, names in held.names.items() if not named or set(names) <= set(named)}
                held.released |= names & set(held.leaving)
        # Leases that started in this call are looked at in the next one.
        leases = {
            key: one for key, one in call.after.items() if one.is_started and one.leased.started_at < call.at
        }  # fmt: skip
        for held in self.told.values():
            if not held.leaving or held.key not in leases:
                continue
            revoked = [one for one in leases[held.key].leased.holdings if one.cell in held.leaving]
            used, here = call.used(held.app), call.leased(held.app, leases)
            counts = whole_gpus(self.cells, revoked)
            is_over = held.by <= call.at
            require(not (is_over and used is None), f"{held.key} is to be vacated by now, and nothing of it runs")
            for holding in revoked if is_over and used is not None else ():
                nodes = whole_gpus(self.cells, [holding])
                has_left = all(used[node] <= here[node] - counts[node] for node in nodes)
                stays = [node for node in nodes if self._overstayed(call, held, leases, node, used[node])]
                require(stays or not has_left, f"{held.key} is to be vacated by now, and was: {holding.cell}")
                self.world.sometimes(has_left and stays, "overstayed")

    # Ends.

    def _check_ends(self, call):
        settings = self.world.settings
        for event in call.events(happenings.Expiring):
            require(event.keys, "nothing expires")
            for key in event.keys:
                until = self._before(call, key).until
                require(until is not None and until <= call.at + settings.notice_s, f"{key} expires too early")
                require(self.told_ends.get(key) != until, f"{key} expires again")
                self.told_ends[key] = until
        for key, entry in call.after.items():
            one = entry.leased
            if one.until is None or one.phase != "held":
                continue
            require(one.until + settings.overtime_s > call.at, f"{key} goes on after its end")
            before = call.before.get(key)
            if before is not None and before.leased.until == one.until and before.leased.phase == "held":
                is_told = self.told_ends.get(key) == one.until
                require(is_told or one.until - settings.notice_s > call.at, f"{key} ends soon, and nobody is told")

    # What YARN does not place.

    def _check_not_placed(self, call, key, cause, cells):
        within, began = self.world.settings.place_within_s, self._before(call, key).started_at
        require(within and began is not None and began + within <= call.at, f"{key} is taken as unplaced too early")
        is_list = isinstance(call.what, Outcome) and isinstance(call.what.result, ContainersListed)
        app = self._before(call, key).claim[0]
        require(is_list and call.what.result.app == app, f"{key} is taken as unplaced by no list")
        used = (call.used(app) or Counter())[cause.node]
        require((cause.used, cause.within_s) == (used, within), f"{key}: {cause} is not so")
        require(cause.leased > used, f"{key} is taken as unplaced, and all is in use: {cause}")
        self.placing.pop(key, None)
        self.world.sometimes(used, "unplaced beside others")

    def _check_unplaced(self, call):
        """Containers are listed once more when a lease is not in use in time, and by that list it is taken back."""
        within = self.world.settings.place_within_s
        apps = {one.app for one in call.view.claims if one.app != one.yarn_app and one.yarn_app}
        asked = {one.app for one in call.of(ListContainers) if isinstance(one.cause, UseAsked)}
        unplaced = {key for key, _, cause in self.revoked if isinstance(cause, NotPlaced)}
        for key, entry in call.after.items() if within else ():
            one = entry.leased
            began = one.started_at
            whole = whole_gpus(self.cells, one.staying)
            if key in unplaced:
                self.placing[key] = "decided"
            if began is None or began + within > call.at or began == call.at or self.placing.get(key) == "decided":
                continue
            before, asked_before = call.before.get(key), self.placing.get(key)
            if entry.app in asked:
                self.placing[key] = call.at
            if before is None or before.leased != one or not call.view.steering or entry.app not in apps:
                continue
            used, here = call.used(entry.app) or Counter(), call.leased(entry.app)
            if not whole or all(used[node] >= here[node] for node in whole):
                self.placing[key] = "decided"
            elif not any(used[node] for node in whole) and not any(
                two.leased.leaving for two in call.after.values() if two.app == entry.app
            ):
                is_list = isinstance(call.what, Outcome) and getattr(call.what.result, "app", "") == entry.app
                require(not (is_list and asked_before), f"{key} is not in use, and is not taken back")
                require(asked_before or entry.app in asked, f"{key} is not in use in time, and nobody looks")
                is_again = entry.app in asked or asked_before + within > call.at
                require(is_again, f"{key} is not in use, and no list came: nobody looks")
        self.placing = {key: one for key, one in self.placing.items() if key in call.after}

    # Beyond leases.

    def _allowed(self, call, app, node, used, leases, told):
        overdue = overstays = 0
        for held in told:
            if held.app == app and held.leaving and held.by <= call.at and held.key in leases:
                revoked = [one for one in leases[held.key].leased.holdings if one.cell in held.leaving]
                here = whole_gpus(self.cells, revoked)[node]
                if not here:
                    # What is to be vacated elsewhere changes nothing here.
                    continue
                overdue += here
                overstays = max(overstays, self._overstayed(call, held, leases, node, used))
        leased = call.leased(app, leases)[node] - overdue
        return (min(leased, used - overstays) if overstays else leased), overdue > 0

    def _check_signals(self, call):
        """The newest containers beyond a lease are signalled when they are listed for it, and no others."""
        expected = []
        listed = call.what.result if isinstance(call.what, Outcome) else None
        sent = {one.cause.node: one for one in call.of(SignalContainers)}
        if not isinstance(listed, ContainersListed):
            require(not sent, "containers are signalled by no list")
            return
        apps = {one.app for one in call.view.claims if one.app != one.yarn_app and one.yarn_app}
        if not call.view.steering or listed.app not in apps:
            require(not sent, "containers are signalled by an arbiter that may not act")
            return
        if call.events(happenings.Broken, happenings.Changed):
            return
        told = [replace(held) for held in self.told.values()]
        for held in told:
            if held.app == listed.app and held.leaving and (listed.asked_at or call.at) >= held.since:
                held.listed = listed.containers
        on = {}
        for one in listed.containers:
            on.setdefault(cell_of_node(call.view.topology, one.node) or one.node, []).append(one)
        for node, mine in on.items():
            used = sum(one.resources[GPU] for one in mine)
            allowed, _ = self._allowed(call, listed.app, node, used, call.before, told)
            _, listed_at = self.beyond.get((listed.app, node), (None, None))
            chosen, left = [], used
            for one in sorted(mine, key=lambda one: one.id, reverse=True):
                if left > allowed and one.resources[GPU] and not one.master:
                    chosen.append(one.id)
                    left -= one.resources[GPU]
            if chosen and listed_at is not None:
                expected.append(
                    SignalContainers(listed.app, tuple(chosen), BeyondLease(listed.app, node, used, allowed))
                )
                self.world.sometimes(True, "container signalled")
        require(call.of(SignalContainers) == expected, f"{call.of(SignalContainers)} are signalled, not {expected}")

    def _check_beyond(self, call):
        """The containers of whoever is beyond its leases for the grace period are listed, again after as long."""
        grace_s = self.world.settings.grace_s
        asked = [one for one in call.of(ListContainers) if isinstance(one.cause, BeyondLease)]
        apps = {one.app: one.yarn_app for one in call.view.claims if one.app != one.yarn_app and one.yarn_app}
        found, expected = {}, []
        for app in sorted({one.app for one in call.view.use if one.app in apps}) if call.view.steering else ():
            for node, used in call.used(app).items():
                allowed, is_overdue = self._allowed(call, app, node, used, call.after, self.told.values())
                if used <= allowed:
                    continue
                since, listed_at = self.beyond.get((app, node), (call.at, None))
                since = min(since, call.at - grace_s) if is_overdue else since
                if call.at >= (since if listed_at is None else listed_at) + grace_s:
                    listed_at = call.at
                    expected.append(ListContainers(app, apps[app], BeyondLease(app, node, used, allowed)))
                found[app, node] = since, listed_at
        key = lambda one: (one.app, one.cause.node)  # noqa: E731
        require(sorted(asked, key=key) == sorted(expected, key=key), f"{asked} are listed as beyond, not {expected}")
        self.beyond = found

    # Room.

    def _check_crowded(self, call):
        """GPUs that cannot be leased now, although nobody leases them."""
        settings, claims = self.world.settings, call.view.claims
        left = self._left(call)
        for what, seen, plan in call.heard:
            if isinstance(what, happenings.Recorded):
                # What is leased then counts at once.
                left = [*seen.values(), *(replace(_leased(one, call.at), started_at=call.at) for one in plan.place)]
        held = later(self.cells, left)
        now = Holds(self.cells, [two for one in left if one.started_at is not None for two in one.holdings])
        unlisted = any(one.app == one.yarn_app and one.held[GPU] and call.used(one.app) is None for one in claims)
        found = []
        for node in sorted(one.id for one in self.cells.at("node")):
            gpus = [gpu for gpu in self.cells.gpus_in(node) if gpu not in self.cells.broken]
            free = sorted([gpu for gpu in gpus if not held.is_held(gpu)], key=lambda gpu: not now.is_held(gpu))
            room = len(gpus)
            used = next((one for name, one in call.view.node_used.items()
                         if cell_of_node(self.cells.topology, name) == node), None)  # fmt: skip
            if settings.has_task_size and used is not None:
                capacity = self.cells[node].capacity
                tasks = self._tasks(capacity - used, (capacity - used)[GPU] // settings.gpus_per_task)
                room = used[GPU] + tasks * settings.gpus_per_task
            beyond = 0
            for app in {one.app for one in call.view.use}:
                leased = leased_on(self.cells, left, app)[node]
                beyond += max(call.used(app)[node] - leased, 0)
            is_unread = self.records_due and self.records_until is None
            is_known = not (unlisted or is_unread) and (not beyond or not self.records_due)
            others = beyond + self.strangers[node]
            may = max(room - (len(gpus) - len(free)) - others, 0) if is_known else 0
            found += free[may:]
        require(tuple(sorted(found)) == call.ledger.crowded, f"{call.ledger.crowded} have no room, not {sorted(found)}")
        self.world.sometimes(found, "no room")

    def _count_strangers(self, call):
        """How many GPUs of each node applications outside the pool use: within what is certain, as many as before."""
        if not self.world.settings.has_task_size:
            return
        left, before, surplus, used = self._left(call), self.strangers, self.surplus, Counter()
        self.strangers, self.surplus = Counter(), Counter()
        apps = {*(one.app for one in call.view.use), *(one.claim[0] for one in left)}
        held = {one.app: one.held[GPU] for one in call.view.claims}
        for name, amounts in call.view.node_used.items():
            used[cell_of_node(self.cells.topology, name)] = amounts[GPU]
        for node, gpus in used.items():
            listed = {app: (call.used(app) or Counter())[node] for app in apps}
            is_complete = {app for app in apps if (call.used(app) or Counter()).total() == held.get(app)}
            may_be_theirs = sum(max(listed[app], leased_on(self.cells, left, app)[node]) for app in apps)
            self.surplus[node] = max(gpus - may_be_theirs, 0)
            least = min(self.surplus[node], surplus[node])
            most = max(gpus - sum(listed[app] for app in is_complete), 0)
            self.strangers[node] = min(max(before[node], least), most)
        self.world.sometimes(self.strangers.total(), "GPUs of strangers")

    def _left(self, call):
        """The leases of before without what broke and whose claims are gone."""
        lost = {
            (one.key, cell) for event in call.events(happenings.Broken) for one in event.freed for cell in one.cells
        }
        left = []
        for key, entry in call.before.items():
            if entry.leased.claim in self.claims:
                holdings = tuple(one for one in entry.leased.holdings if (key, one.cell) not in lost)
                left.append(replace(entry.leased, holdings=holdings))
        return left

    def _check_records(self, call):
        """Of what an application has records of, it is leased what can be true, or told why not."""
        refused = Counter((one.cause.lease, gpu, one.cause.why) for one in call.of(Refuse) for gpu in one.cause.gpus)
        if not isinstance(call.what, FromApp) or not isinstance(call.what.message, Registered):
            require(not refused and not call.events(happenings.Recorded), "there are records that nobody told of")
            return
        app, leases, cells, left = call.what.app, call.what.message.leases, self.cells, self._left(call)
        now = Holds(cells, [held for one in left if one.started_at is not None for held in one.holdings])
        held, here = later(cells, left), leased_on(cells, left, app)
        true, why = {}, {}
        for gpu in (gpu for lease in leases for gpu in lease.gpus if gpu not in true and gpu not in why):
            node = cells.gpus[gpu].machine if gpu in cells.gpus else None
            if node is None or gpu in cells.broken:
                why[gpu] = "unknown"
            elif not (now.fits([Holding(gpu)]) and held.fits([Holding(gpu)])):
                why[gpu] = "leased"
            elif (call.used(app) or Counter())[node] - here[node] <= list(true.values()).count(node):
                why[gpu] = "unused"
            else:
                true[gpu] = node
        told = [gpu for event in call.events(happenings.Recorded) for lease in event.leases for gpu in lease.gpus]
        require(told == list(true), f"the allocator is told that {app} had {told}, not {list(true)}")
        granted = {
            held.cell for what, _, plan in call.heard if isinstance(what, happenings.Recorded)
            for one in plan.place for held in one.holdings
        }  # fmt: skip
        expected = Counter((one.lease, gpu, why[gpu]) for one in leases for gpu in one.gpus if gpu in why)
        # Of several records of one GPU, the first one that can be true counts.
        shown = [one for event in call.events(happenings.Recorded) for one in event.leases]
        expected.update((one.lease, gpu, "policy") for one in shown for gpu in one.gpus if gpu not in granted)
        require(refused == expected, f"{app} is refused {refused}, not {expected}")
        self.world.sometimes(granted, "record leased")
        self.world.sometimes(expected, "record refused")

    def _check_room(self, call):
        """What allocators are shown is what can be leased."""
        draws, seen, cells = self.world.draws, call.occupancy, self.cells
        held = later(cells, [entry.leased for entry in call.after.values()])
        free = [
            gpu for gpu in cells.gpus
            if gpu not in cells.broken and gpu not in call.ledger.crowded and not held.is_held(gpu)
        ]  # fmt: skip
        require(list(seen.free_in()) == free, "other GPUs are shown as free")
        require({gpu for gpu in cells.gpus if seen.is_free(gpu)} == set(free), "other GPUs are free one by one")
        for cell in draws.sample(sorted(cells.paths), min(3, len(cells.paths))):
            require(set(seen.free_in(cell)) == set(free) & set(cells.gpus_in(cell)), f"other GPUs of {cell} are free")
            for holding in (Holding(cell), Holding(cell, Resources.of({VCORES: draws.randint(1, 3)}))):
                if holding.amounts and cells[cell].level != "node":
                    continue
                is_crowded = any(gpu in call.ledger.crowded for gpu in cells.gpus_in(cell))
                fits = held.fits([holding]) and not is_crowded
                require(seen.fits(holding) == fits, f"{holding} is said to fit: {not fits}")
            left = seen.left(cell)
            for name, _ in cells[cell].capacity:
                some = Holding(cell, Resources.of({name: left[name]})) if left[name] else None
                more = Holding(cell, Resources.of({name: left[name] + 1}))
                require(some is None or held.fits([some]), f"{cell} has not {left[name]} {name} left")
                require(not held.fits([more]), f"{cell} has more than {left[name]} {name} left")
        for app in {entry.app for entry in call.after.values()}:
            for node in cells.at("node"):
                require(
                    seen.gpus_on(app, node.id) == call.leased(app)[node.id], f"{app} leases other GPUs of {node.id}"
                )

    # Questions, problems and timers.

    def _check_questions(self, call):
        here = {app for app, _ in self.claims}
        if isinstance(call.what, Restarted):
            again = {id: replace(one, **{_by(one): call.at + wait}) for id, (one, wait) in self.asked.items()}
            self.asked = {id: (again[id], wait) for id, (_, wait) in self.asked.items()}
            issued = {one.id: one for one in call.of(Ask, Offer)}
            gone = {id: one for id, one in again.items() if one.app in here and id not in issued}
            require(not gone, f"{sorted(gone)} are not asked again")
            require(set(self.problems) <= {one.id for one in call.of(Solve)}, "problems are not given again")
        closed = set()
        answers = call.events(happenings.Answer)
        match call.what:
            case FromApp(app, message) if not isinstance(message, Release | Registered):
                kind = {Estimate: Ask, Bid: Offer}[type(message)]
                closed = {
                    id for id, (one, _) in self.asked.items()
                    if one.app == app and isinstance(one, kind) and _round(one) == message.round
                }  # fmt: skip
                expected = [happenings.Answer(app, message)] if app in here else []
                require(answers == expected, f"the allocator hears {answers}, not {expected}")
            case Outcome(id) if id in self.problems:
                solved = call.events(happenings.Solved)
                require([one.key for one in solved] == [self.problems.pop(id)], "the allocator hears of no solution")
            case _:
                require(not answers, "the allocator hears an answer that nobody gave")
        self.asked = {
            id: (one, wait) for id, (one, wait) in self.asked.items()
            if id not in closed and one.app in here and call.at < getattr(one, _by(one))
        }  # fmt: skip
        new = [one for one in call.of(Ask, Offer) if one.id not in self.ids]
        for one in new:
            self.ids.add(one.id)
            self.asked[one.id] = one, getattr(one, _by(one)) - call.at
        asks = [one for _, _, plan in call.heard for one in plan.ask]
        require([one.app for one in asks] == [one.app for one in new], "others are asked than was planned")
        for one in call.of(Solve):
            if one.id not in self.ids:
                self.ids.add(one.id)
                self.problems[one.id] = next(
                    two.key for _, _, plan in call.heard for two in plan.solve if two.problem == one.problem
                )
        asked = {id: (one.command, one.wait_s) for id, one in call.ledger.asked.items()}
        require(asked == self.asked, f"{asked} are open, not {self.asked}")
        require({id: one.key for id, one in call.ledger.problems.items()} == self.problems, "other problems are open")

    def _check_timer(self, call):
        """It is called again when something is due."""
        due = Counter()
        dues = []
        wanted = dict(self.wakes)
        if isinstance(call.what, TimerDue) and call.what.key.startswith(WAKE):
            key = call.what.key.removeprefix(WAKE)
            require(wanted.get(key, call.at) <= call.at, f"{key} is woken too early")
            wanted.pop(key, None)
            due[key] += 1
        for _, _, plan in call.heard:
            for wake in plan.wake:
                wanted.pop(wake.key, None)
                if wake.at is not None and wake.at <= call.at:
                    due[wake.key] += 1
                elif wake.at is not None:
                    wanted[wake.key] = wake.at
        require(Counter(one.key for one in call.events(happenings.Due)) == due, "the allocator is woken otherwise")
        require(dict(call.ledger.wakes) == wanted, "others are to be woken")
        self.wakes = wanted
        settings = self.world.settings
        for key, entry in call.after.items():
            one = entry.leased
            if one.until is not None and one.phase == "held":
                dues.append(one.until + settings.overtime_s)
                if self.told_ends.get(key) != one.until:
                    dues.append(one.until - settings.notice_s)
            if one.by is not None:
                dues.append(one.by)
            if settings.place_within_s and one.started_at is not None and not entry.is_placed:
                dues.append((one.started_at if entry.listed_at is None else entry.listed_at) + settings.place_within_s)
        dues += [(since if at is None else at) + settings.grace_s for since, at in self.beyond.values()]
        dues += [getattr(one, _by(one)) for one, _ in self.asked.values()]
        if self.records_due and self.records_until is not None and call.ledger.crowded:
            dues.append(self.records_until)
        soon = min((one for one in dues if one > call.at), default=None)
        timers = {one.key: one.at for one in call.of(SetTimer)}
        next_at = timers.get(NEXT)
        require(next_at is None or next_at > call.at, "the timer is set to the past")
        require(
            soon is None or (next_at is not None and next_at <= soon), f"something is due at {soon}, not at {next_at}"
        )
        require({key: at for key, at in timers.items() if key != NEXT and at is not None}.items()
                <= {WAKE + key: at for key, at in wanted.items()}.items(), "another timer is set")  # fmt: skip

    # The rules of the ledger itself.

    def _check_validity(self, call):
        """A broken rule is noticed."""
        for damaged, what in _damaged(call.ledger, self.cells):
            try:
                validate(damaged, self.cells)
            except (InvalidLedgerError, KeyError):
                continue
            require(False, f"a ledger is taken as valid: {what}")

    def _note_rare(self, call):
        nodes = {one.id: one.capacity for one in self.cells.at("node")}
        resized = {one for one, capacity in nodes.items() if self.nodes.get(one, capacity) != capacity}
        self.nodes = nodes
        for key, entry in call.after.items():
            for one in entry.leased.holdings:
                is_resized = key in call.before and not one.amounts and one.cell in resized
                self.world.sometimes(is_resized, "node resized under a lease")
                self.world.sometimes(not one.amounts and self.cells[one.cell].level == "node", "whole node leased")
                self.world.sometimes(one.amounts and one.cell in self.cells.gpus, "shared GPU")
        for event in call.events(happenings.Broken):
            for one in event.freed:
                before = call.before.get(one.key)
                is_gang = before is not None and not before.is_started and before.leased.gang is not None
                self.world.sometimes(is_gang, "broken cell in a gang that waits")

    def at_the_end(self):
        """When nothing more is planned, each lease is held, or over."""
        left = [key for key, one in self.own.items() if one.phase != "held"]
        require(not left, f"{left} never start, or never end")


def _leased(place, at):
    return Leased(
        place.key, place.claim, place.holdings, place.member, place.alternative, place.kind, place.until, place.gang,
        place.replaces, place.note, place.job, placed_at=at, won=place.won,
    )  # fmt: skip


def _by(one):
    return "bid_by" if isinstance(one, Offer) else "answer_by"


def _round(one):
    return (one.offer if isinstance(one, Offer) else one.question).round


def _damaged(ledger, cells):
    """Ledgers in each of which one rule is broken."""
    for key, entry in ledger.leases.items():
        leased = entry.leased

        def with_entry(changed, key=key):
            return replace(ledger, leases={**ledger.leases, key: changed})

        def with_lease(entry=entry, **changes):
            return with_entry(replace(entry, leased=replace(entry.leased, **changes)))

        yield replace(ledger, leases={**ledger.leases, f"{key}-other": entry}), "a lease under another one's key"
        yield (
            replace(ledger, claims=tuple(one for one in ledger.claims if (one.app, one.job) != leased.claim)),
            ("a lease of a claim that is gone"),
        )
        yield with_lease(holdings=()), "a lease of nothing"
        yield with_lease(holdings=(*leased.holdings, Holding("nowhere"))), "a lease of an unknown cell"
        twin = replace(entry, leased=replace(leased, key=f"{key}-twin", gang=None), id=f"{entry.id}-twin")
        whole = [one for one in leased.holdings if not one.amounts]
        if whole:
            yield replace(ledger, leases={**ledger.leases, f"{key}-twin": twin}), "a cell that is held twice"
        same = replace(
            twin,
            id=entry.id,
            leased=replace(twin.leased, holdings=(Holding(leased.cells[0], Resources.of({VCORES: 0})),)),
        )
        yield replace(ledger, leases={**ledger.leases, f"{key}-twin": same}), "two leases of one id"
        if entry.is_started and not leased.leaving:
            yield with_lease(by=5.0), "a lease that is to be vacated, and keeps all"
            yield with_lease(leaving=leased.cells, by=5.0), "a lease that leaves unrevoked"
        if leased.leaving:
            yield with_lease(by=None), "a lease that is to be vacated by no time"
            yield with_lease(leaving=(*leased.leaving, "nowhere")), "cells leave that are not its own"
        if not entry.is_started:
            yield with_entry(replace(entry, said=1)), "a lease that waits, and was told"
