"""A ledger of leases whose allocator does all that an allocator may, on nodes, claims and containers that change.

The ledger's controller is driven directly, in virtual time: it is called for what happens, and when its timers are due.
Containers are of nodes and have numbers of GPUs, as in YARN; lists of them arrive late. `ledger_checks` looks at every
call.
"""

import json
import random
from dataclasses import dataclass, field, replace

from tests.chaos.checks import require
from tests.chaos.holds import later
from tests.chaos.ledger_checks import LedgerChecks
from yarn_plugin.decide.allocators.happenings import Recorded
from yarn_plugin.decide.allocators.plan import (
    Announce,
    Ask,
    Drop,
    Hold,
    Holding,
    Idle,
    Keep,
    Place,
    Plan,
    Reclass,
    Solve,
    Wake,
    Withdraw,
)
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import ContainersListed, Registered
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.decide.pools import commands
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Reconfigured, Restarted, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.ledger import LedgerController
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.topology import topology
from yarn_plugin.decide.use import use_of
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.drive.virtual_time import Agenda
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Release
from yarn_plugin.model.causes import LeaseDropped, LeaseWon
from yarn_plugin.model.cluster import Container, Node
from yarn_plugin.model.resources import GPU, GPU_MEMORY, GPU_MILLI, MEMORY, VCORES, Resources, total_of
from yarn_plugin.model.share import Claim, LeaseRecord
from yarn_plugin.model.topology import TopologyDescription

POOL, OUTSIDE = "gpu", "outside"
BUSY_S, QUIET_S = 80.0, 80.0
HOSTS = ("n0:1", "n1:1", "n2:1", "n3:1", "n3:2")

RARE = (
    "lease replaced",
    "gang waits",
    "cells given back early",
    "lease lapsed",
    "lease unplaced",
    "unplaced beside others",
    "container signalled",
    "no room",
    "GPUs of strangers",
    "broken cell in a gang that waits",
    "whole node leased",
    "shared GPU",
    "node resized under a lease",
    "revoked again after a restart",
    "list too old",
    "overstayed",
    "record leased",
    "record refused",
)


# The allocator.


@dataclass(frozen=True)
class Problem:
    """A problem for the worker process."""

    number: int


@dataclass(frozen=True)
class RestlessState:
    """`count`: of its calls. `seed`: of its draws. `quiet`: it asks for nothing any more."""

    count: int = 0
    seed: int = 0
    problems: tuple[str, ...] = ()


class Restless:
    """Draws its plans among those that the contract allows. `heard`: is told of each event, the leases, and the
    plan."""

    def __init__(self, settings, seed, is_quiet, heard=lambda what, leases, plan: None):
        self._settings, self._seed, self._is_quiet, self._heard = settings, seed, is_quiet, heard

    def initial_state(self):
        return RestlessState(seed=self._seed)

    def report(self, state):
        return None

    def propose(self, state, seen, what):
        draws = random.Random(f"{state.seed} {state.count} {seen.at}")
        draft = _Draft(draws, seen, state.count, self._settings)
        plan = draft.adopted(what) if isinstance(what, Recorded) else Plan() if self._is_quiet() else draft.plan()
        self._heard(what, dict(seen.leases), plan)
        return replace(state, count=state.count + 1), plan


class _Draft:
    """One plan."""

    def __init__(self, draws, seen, count, settings):
        self.draws, self.seen, self.count, self.settings = draws, seen, count, settings
        self.leases = {key: seen.leases[key] for key in sorted(seen.leases)}
        self.number = 0

    def plan(self):
        draws = self.draws
        parts = {}
        for name, chance in (
            ("place", 0.5), ("drop", 0.12), ("keep", 0.15), ("withdraw", 0.08), ("reclass", 0.05), ("announce", 0.03),
            ("ask", 0.05), ("solve", 0.03), ("wake", 0.05), ("hold", 0.03), ("idle", 0.1),
        ):  # fmt: skip
            if draws.random() < chance:
                parts[name] = True
        # In the order in which they are carried out: each is about what those before it have left.
        found = {}
        for name in (
            "withdraw",
            "keep",
            "reclass",
            "announce",
            "drop",
            "place",
            "ask",
            "solve",
            "wake",
            "hold",
            "idle",
        ):
            if name in parts:
                found[name] = getattr(self, f"_{name}")()
        return Plan(**{name: value for name, value in found.items() if value})

    def adopted(self, what):
        """What runs goes on, but for some GPUs."""
        places = []
        for one in what.leases:
            gpus = [gpu for gpu in one.gpus if self.draws.random() < 0.8]
            claim = what.app, one.job
            if gpus and claim in self.seen.claims:
                key, member = f"k{self.count}-{self.number}", 1000 * self.count + self.number
                places.append(Place(key, claim, tuple(map(Holding, gpus)), member, until=one.until))
                self.number += 1
        return Plan(place=tuple(places))

    def _some(self, holds, most=1):
        names = [key for key, one in self.leases.items() if holds(one)]
        return self.draws.sample(names, min(len(names), self.draws.randint(1, most)))

    def _withdraw(self):
        chosen = self._some(lambda one: one.started_at is None, 2)
        for key in chosen:
            del self.leases[key]
        return tuple(Withdraw(key) for key in chosen)

    def _keep(self):
        found = []
        for key in self._some(lambda one: one.started_at is not None or self.draws.random() < 0.3, 2):
            one, until = self.leases[key], self._until()
            is_still = self.draws.random() < 0.3
            if one.leaving and not is_still:
                held = later(self.seen.cells, list(self.leases.values()))
                if not held.fits(list(one.revoked)):
                    is_still = True
                else:
                    self.leases[key] = replace(one, leaving=(), by=None)
            self.leases[key] = replace(self.leases[key], until=until)
            found.append(Keep(key, until, LeaseDropped(f"kept {self.count}"), is_still))
        return tuple(found)

    def _until(self):
        """Of the ends, some are so soon that their notice is due now."""
        soon, late = self.seen.at + self.settings.notice_s, self.seen.at + self.draws.uniform(0.5, 25.0)
        return self.draws.choice((None, late, soon if self.settings.notice_s else late))

    def _reclass(self):
        kinds = ("guaranteed", "opportunistic", "sample")
        return tuple(
            Reclass(key, self.draws.choice(kinds), LeaseDropped(f"class {self.count}"))
            for key in self._some(lambda one: True, 2)
        )

    def _announce(self):
        return tuple(Announce(key, "opportunistic", self.seen.at + 5.0) for key in self._some(lambda one: True))

    def _drop(self):
        found = []
        for key in self._some(lambda one: one.started_at is not None or self.draws.random() < 0.2, 2):
            one = self.leases[key]
            some = () if self.draws.random() < 0.6 else tuple(self.draws.sample(one.cells, 1))
            if one.started_at is None:
                del self.leases[key]
            else:
                leaving = tuple(cell for cell in one.cells if not some or cell in some or cell in one.leaving)
                self.leases[key] = replace(one, leaving=leaving)
            found.append(Drop(key, LeaseDropped(f"drop {self.count}"), some))
        return tuple(found)

    def _place(self):
        if not self.seen.claims:
            return ()
        found = []
        gang = f"gang-{self.count}" if self.draws.random() < 0.4 else None
        for _ in range(self.draws.randint(1, 3)):
            claim = self.draws.choice(sorted(self.seen.claims))
            old = None
            if self.draws.random() < 0.3:
                taken = {one.replaces for one in self.leases.values()}
                mine = [key for key, one in self.leases.items() if one.claim == claim and key not in taken]
                old = self.draws.choice(mine) if mine else None
            place = self._one(claim, gang, old)
            if place is not None:
                found.append(place)
        return tuple(found)

    def _one(self, claim, gang, old):
        before = self.leases.get(old)
        drawn = [] if before is None else [one for one in before.holdings if self.draws.random() < 0.6]
        for _ in range(self.draws.randint(0 if drawn else 1, 3)):
            drawn.append(self._holding())
        cells = [one.cell for one in drawn]
        if not drawn or len(set(cells)) < len(cells):
            return None
        key = f"k{self.count}-{self.number}"
        member = 1000 * self.count + self.number
        is_over = before is not None and before.started_at is None
        others = dict(self.leases)
        if is_over:
            del others[old]
        won = LeaseWon(self.count, 0, "bid") if self.draws.random() < 0.1 else None
        place = Place(
            key, claim, tuple(drawn), member, self.draws.randint(0, 1),
            self.draws.choice(("guaranteed", "opportunistic", "sample")), self._until(), gang, old,
            self.draws.choice(("", f"note {self.count % 3}")), self.draws.choice(("", "job-x")), won,
        )  # fmt: skip
        placed = Leased(key, claim, place.holdings, replaces=None if is_over else old, gang=gang)
        every = later(self.seen.cells, [*others.values(), placed])
        if self._is_crowded(drawn) or not every.is_valid():
            return None
        self.number += 1
        self.leases = {**others, key: placed}
        return place

    def _is_crowded(self, holdings):
        cells = self.seen.cells
        return any(
            self.seen.room.lacks_room(gpu) for one in holdings if one.cell in cells for gpu in cells.gpus_in(one.cell)
        )

    def _holding(self):
        cells, draws = self.seen.cells, self.draws
        kind = draws.random()
        gpus, nodes = sorted(cells.gpus), sorted(one.id for one in cells.at("node"))
        if kind < 0.65 and gpus:
            if draws.random() < 0.8:
                free = [gpu for gpu in gpus if self.seen.room.is_free(gpu)]
                return Holding(draws.choice(free or gpus))
            return Holding(draws.choice(gpus))
        if kind < 0.8 and gpus and self.settings.gpu_memory_mb is not None:
            gpu = draws.choice(gpus)
            amounts = {GPU_MILLI: draws.choice((300, 500, 700)), GPU_MEMORY: draws.choice((1000, 5000))}
            return Holding(gpu, Resources.of(amounts), f"host-{gpu}")
        if kind < 0.88 and nodes:
            return Holding(draws.choice(nodes), Resources.of({VCORES: draws.randint(1, 6), MEMORY: 100}))
        return Holding(
            draws.choice(sorted(cells.paths) or ["nowhere"]) if kind < 0.96 or not nodes else draws.choice(nodes)
        )

    # What else is wanted.

    def _ask(self):
        apps = sorted({app for app, _ in self.seen.claims})
        by = self.seen.at + self.draws.uniform(0.5, 6.0)
        return tuple(
            Ask(app, GpuOffer(self.count, (), 10.0, 1.0), by, True)
            if self.draws.random() < 0.4
            else Ask(app, EstimateRequest(self.count, 1.0), by)
            for app in self.draws.sample(apps, min(len(apps), 2))
        )

    def _solve(self):
        return (Solve(f"solve-{self.count}", Problem(self.count)),)

    def _wake(self):
        when = self.draws.choice((None, self.seen.at, self.seen.at + self.draws.uniform(0.1, 9.0)))
        return (Wake(f"wake-{self.draws.randint(0, 2)}", when),)

    def _hold(self):
        apps = sorted({app for app, _ in self.seen.claims})
        return tuple(Hold(app, LeaseDropped("waits")) for app in apps[:1])

    def _idle(self):
        return self.seen.everywhere(self.draws.choice(list(Idle)))


# The world.


@dataclass
class RestlessApp:
    """`excess`: how many GPUs more than it leases it uses of a node. `obeys`: it vacates, and says so. `starts`: it has
    containers started on what it leases, but not where YARN has no place for them, on `avoided`. `leases`: what it was
    told, by id: the cells, and those to vacate."""

    name: str
    yarn_app: str
    jobs: tuple
    starts: bool
    obeys: bool
    excess: int
    leases: dict = field(default_factory=dict)
    is_submitted: bool = False
    is_registered: bool = True
    avoided: str | None = None


class RestlessWorld:
    """See the module. `checks`: told of every call."""

    name = "world"

    def __init__(self, seed, replays=True):
        self.seed, self.now, self.steps = seed, 1000.0, 0
        self.trace, self.reached = [], set()
        self.replays, self.is_quiet, self.is_away = replays, False, False
        self.draws = random.Random(f"{seed} restless")
        self.settings = _settings(self.draws)
        self.codec = Codec(
            {**journal_tags(BUILT_IN), "restless.state": RestlessState, "restless.problem": Problem}
        ) if replays else None  # fmt: skip
        self.heard = []
        self.kept = self._controller(lambda *one: self.heard.append(one))
        self.state = self.kept.initial_state()
        self._agenda, self.timers = Agenda(), {}
        self.nodes = {name: self._node(name) for name in HOSTS[: self.draws.randint(2, 5)]}
        self.broken, self.apps, self.use, self.containers = {}, {}, {}, {}
        self.partitions = {name: "gpu" for name in HOSTS if self.draws.random() < 0.8}
        self.numbers, self.steering, self._built = 0, True, (None, None)
        self._listing, self._claims, self._uses = {}, ((), ()), ((), ())
        self.checks = LedgerChecks(self)

    def _controller(self, heard=lambda what, leases, plan: None):
        allocator = Restless(self.settings, self.seed, lambda: self.is_quiet, heard)
        return LedgerController(POOL, self.settings, allocator)

    def _node(self, name):
        gpus = self.draws.choice((0, 1, 2, 2, 3, 4))
        amounts = {MEMORY: 64000, VCORES: self.draws.choice((4, 8, 8)), GPU: gpus}
        return Node(name, f"/r{HOSTS.index(name) // 2}", Resources.of(amounts))

    # The view.

    def view(self):
        nodes = dict(self.nodes), dict(self.broken), dict(self.partitions)
        if self._built[0] != nodes:
            self._built = nodes, topology(nodes[0], nodes[1], TopologyDescription(), nodes[2])
        claims = tuple(claim for app in self.apps.values() for claim in self._claims_of(app))
        if self._claims != claims:
            self._claims = claims
        use = tuple(one for app in sorted(self.use) for one in self.use[app])
        if self._uses != use:
            self._uses = use
        used = {
            node: total_of(one.resources for _, one in self.containers.values() if one.node == node)
            for node in self.nodes
        }
        return View(
            topology=self._built[1], claims=self._claims, use=self._uses, steering=self.steering,
            node_used=used if self.settings.has_task_size else {},
        )  # fmt: skip

    def _claims_of(self, app):
        held = total_of(one.resources for owner, one in self.containers.values() if owner == app.name)
        for job in app.jobs:
            yield Claim(
                app.name, 1.0, None, Resources(), job=job, yarn_app=app.yarn_app, held=held,
                is_submitted=app.is_submitted,
            )  # fmt: skip

    # A call.

    def step(self, what):
        view, state, at = self.view(), self.state, self.now
        self.heard.clear()
        after, out = self.kept.advance(state, view, at, what)
        again = self._controller().advance(state, view, at, what)
        require(again == (after, out), "a new controller decides otherwise")
        self.steps += 1
        names = " ".join(type(one).__name__ for one in out if not isinstance(one, commands.SetTimer))
        self.trace.append(f"{self.steps:6} {at:11.6f} {type(what).__name__:<12} {names}")
        if self.replays and self.steps % 4 == 0:
            written = self.codec.dump(after)
            read = self.codec.read(json.loads(written))
            require(
                read == after and self.codec.dump(read) == written, "a state that is journaled is read back otherwise"
            )
            after = read if self.steps % 8 == 0 else after
        self.state = after
        occupancy = self.kept._known.occupancy
        self.checks.take(view, at, what, state, after, out, list(self.heard), occupancy)
        for command in out:
            self._carry_out(command)

    def sometimes(self, holds, name):
        if holds:
            self.reached.add(name)

    def _carry_out(self, command):
        match command:
            case commands.SetTimer(key, due):
                if due is None:
                    self.timers.pop(key, None)
                else:
                    self.timers[key] = due
            case ListContainers(app):
                self._list(app, self.now)
            case SignalContainers(_, containers):
                self.at(self.draws.uniform(0.05, 1.0), lambda: self._end(containers))
            case commands.Grant(_, app, leases):
                for lease in leases:
                    self.apps[app].leases[lease.id] = {one.cell: None for one in lease.holdings}
            case commands.Revoke(_, app, lease, by, _, cells) if app in self.apps:
                held = self.apps[app].leases[lease]
                for cell in cells or held:
                    held[cell] = by
            case commands.CancelRevoke(_, app, lease) if app in self.apps:
                self.apps[app].leases[lease] = dict.fromkeys(self.apps[app].leases[lease])
            case commands.LeaseEnded(_, app, lease, cells) if app in self.apps:
                held = self.apps[app].leases[lease]
                for cell in cells or tuple(held):
                    held.pop(cell, None)
                if not held:
                    del self.apps[app].leases[lease]
            case commands.Solve(id, problem):
                if self.draws.random() < 0.8:
                    kind = self.draws.choice(("done", "done", "failed", "lost"))
                    result = problem if kind == "done" else None
                    self.post(Outcome(id, kind, result, None if result else "it failed"), self.draws.uniform(0.1, 4.0))
            case commands.Ask(_, app, EstimateRequest(round)):
                if self.draws.random() < 0.7:
                    self.post(FromApp(app, Estimate(round, 1.0)), self.draws.uniform(0.1, 8.0))
            case commands.Offer(_, app, GpuOffer(round)):
                if self.draws.random() < 0.7:
                    self.post(FromApp(app, Bid(round, 1.0, ())), self.draws.uniform(0.1, 8.0))

    # Time.

    def at(self, after, action):
        self._agenda.put(self.now + after, lambda at: action())

    def post(self, what, after):
        def arrive():
            # What an application says while the arbiter is away is said to nobody.
            if not self.is_away and (not isinstance(what, FromApp) or what.app in self.apps):
                self.step(what)

        self.at(after, arrive)

    def run(self):
        """Play the world to its end.

        Raises:
            ViolationError: a check fails.
        """
        self.step(Started())
        self._happen()
        end = self.now + BUSY_S
        self.at(BUSY_S, self._calm)
        while self.now < end + QUIET_S:
            due = min(self.timers.values(), default=None) if not self.is_away else None
            # At one time, the timer comes before or after what happens.
            next_at = self._agenda.next_at()
            if due is not None and (due < next_at or (due == next_at and self.draws.random() < 0.5)):
                key = min(key for key, at in self.timers.items() if at == due)
                del self.timers[key]
                require(due >= self.now or self.is_late, f"timer {key} is set to the past")
                self.now = max(due, self.now)
                self.step(TimerDue(key))
            else:
                self.now, action = self._agenda.pop()
                action(self.now)
        self.checks.at_the_end()

    is_late = False

    def _calm(self):
        """Nothing more is planned, and every application does as it is told."""
        self.is_quiet = True
        for app in self.apps.values():
            app.obeys, app.excess = True, 0

    # What happens.

    def _happen(self):
        due = min(self.timers.values(), default=self.now)
        if self.now < due < self.now + 1.0 and self.draws.random() < 0.2:
            self._agenda.put(due, lambda at: self._happen())
        else:
            self.at(self.draws.expovariate(2.5), self._happen)
        names = ("use", "use", "use", "act", "act", "say") if self.is_quiet else EVENTS
        getattr(self, f"_{self.draws.choice(names)}")()
        if not self.is_away:
            view = self.view()
            if self._viewed is None or any(getattr(view, one) != getattr(self._viewed, one) for one in PARTS):
                self._viewed = view
                self.step(ViewChanged())

    _viewed = None

    def _arrive(self):
        if len(self.apps) >= 5:
            return
        self.numbers += 1
        draws, yarn_app = self.draws, f"application_1_{self.numbers:04}"
        is_registered = draws.random() < 0.85
        name = f"a{self.numbers}" if is_registered else yarn_app
        self.apps[name] = RestlessApp(
            name, yarn_app, draws.choice((("",), ("",), ("j1", "j2"))),
            draws.random() < 0.8, draws.random() < 0.7, draws.choice((0, 0, 0, 0, 1)),
            is_submitted=draws.random() < 0.2, is_registered=is_registered,
            avoided=draws.choice((None, None, *HOSTS[:3])),
        )  # fmt: skip
        if is_registered and self.checks.records_due and draws.random() < 0.7:
            self._remember(self.apps[name])

    def _remember(self, app):
        """An application of before the journal was lost registers again, with records of leases, true or not."""
        app.is_submitted = False
        for node, one in self.nodes.items():
            free = one.capacity[GPU] - sum(
                two.resources[GPU] for _, two in self.containers.values() if two.node == node
            )
            for _ in range(self.draws.randint(0, max(free, 0))):
                self._begin(app.name, node, 1, is_master=False)
        cells = self.checks.cells
        every = [*(cells.gpus if cells is not None else ()), "nowhere/0"]
        leases = tuple(
            LeaseRecord(
                f"gpu#old-{self.numbers}-{number}", tuple(self.draws.choices(every, k=self.draws.randint(1, 4))),
                self.draws.choice(app.jobs), self.draws.choice((None, self.now + 20.0)),
            )
            for number in range(self.draws.randint(1, 3))
        )  # fmt: skip
        what = Registered("again", app.name, "ada", POOL, 1.0, None, None, app.yarn_app, leases=leases)
        self.post(FromApp(app.name, what), self.draws.uniform(0.5, 4.0))

    def _leave(self):
        if self.apps:
            app = self.apps.pop(self.draws.choice(sorted(self.apps)))
            self._end([name for name, (owner, _) in self.containers.items() if owner == app.name])
            self.use.pop(app.name, None)

    def _master(self):
        for app in self.apps.values():
            app.is_submitted = False

    def _node_changes(self):
        name, draws = self.draws.choice(HOSTS), self.draws
        if name in self.nodes and draws.random() < 0.5:
            node = self.nodes[name]
            if draws.random() < 0.6:
                # With as many GPUs as before, or others.
                new = self._node(name)
                gpus = draws.choice((new, node)).capacity[GPU]
                amounts = {**new.capacity.as_dict(), MEMORY: draws.choice((48000, 64000, 80000)), GPU: gpus}
                self.nodes[name] = replace(new, capacity=Resources.of(amounts))
                return
            del self.nodes[name]
            if draws.random() < 0.6:
                self.broken[name] = node
            self._end([one for one, (_, container) in self.containers.items() if container.node == name])
        elif name in self.broken:
            self.nodes[name] = self.broken.pop(name)
        else:
            self.nodes[name] = self._node(name)

    def _act(self):
        """An application makes its containers those that it wants."""
        if not self.apps:
            return
        app = self.apps[self.draws.choice(sorted(self.apps))]
        for node in self.nodes:
            self._adjust(app, node)
        if app.obeys:
            self._say_vacated(app)

    def _adjust(self, app, node):
        host = self._cell_of(node)
        told = {}
        for held in app.leases.values():
            told |= held
        cells = self.checks.cells
        mine = [cell for cell in told if cells is not None and cell in cells.gpus and cells.gpus[cell].machine == host]
        staying = [cell for cell in mine if told[cell] is None]
        wanted = len(staying if app.obeys else mine) if app.starts and node != app.avoided else 0
        wanted += app.excess if app.is_registered else self.draws.randint(0, 1)
        running = [name for name, (owner, one) in self.containers.items() if owner == app.name and one.node == node]
        gpus = [name for name in running if self.containers[name][1].resources[GPU]]
        free = self.nodes[node].capacity[GPU] - sum(
            one.resources[GPU] for _, one in self.containers.values() if one.node == node
        )
        have = sum(self.containers[name][1].resources[GPU] for name in gpus)
        if have > wanted and gpus:
            self._end([self.draws.choice(gpus)])
        elif have == wanted and gpus and self.draws.random() < 0.1:
            # A task fails, or ends, and another one starts.
            old = self.draws.choice(gpus)
            size = self.containers[old][1].resources[GPU]
            self._end([old])
            self._begin(app.name, node, size, is_master=False)
        elif have < wanted and free:
            size = min(self.draws.choice((1, 1, 2)), wanted - have, free)
            self._begin(app.name, node, size, is_master=not running and self.draws.random() < 0.2)
        elif self.draws.random() < 0.1:
            self._begin(app.name, node, 0, is_master=not running)

    def _cell_of(self, node):
        host = node.rsplit(":", 1)[0]
        return host if sum(one.rsplit(":", 1)[0] == host for one in {**self.nodes, **self.broken}) == 1 else node

    def _begin(self, app, node, gpus, is_master):
        self.numbers += 1
        size = Resources.of({GPU: gpus, VCORES: self.draws.randint(1, 2), MEMORY: 1000})
        name = f"container_{self.numbers:06}"
        self.containers[name] = app, Container(name, node, size, is_master)
        self._changed(app)

    def _end(self, containers):
        for name in containers:
            if name in self.containers:
                app, _ = self.containers.pop(name)
                self._changed(app)

    def _changed(self, app):
        """The arbiter lists the containers of an application when their number has changed."""
        if self.draws.random() < 0.8:
            self._list(app, self.now + self.draws.uniform(0.0, 1.0))

    def _list(self, app, asked_at):
        """They are read after it was decided, and the list arrives later; no list overtakes an earlier one."""
        read = max(self._listing.get(app, 0.0), asked_at + self.draws.uniform(0.0, 0.5))
        arrive = read + self.draws.uniform(0.0, 0.3)
        self._listing[app] = arrive

        def read_them():
            if self.draws.random() < 0.05:
                return
            found = tuple(one for _, (owner, one) in sorted(self.containers.items()) if owner == app)
            self.at(arrive - self.now, lambda: self._listed(ContainersListed(app, found, asked_at)))

        self.at(max(read - self.now, 0.0), read_them)

    def _listed(self, found):
        if self.is_away or found.app not in self.apps:
            return
        self.use[found.app] = use_of(found.app, found.containers)
        self.step(Outcome(found.app, "done", found))

    def _say_vacated(self, app):
        for lease, held in app.leases.items():
            leaving = tuple(cell for cell, by in held.items() if by is not None)
            if leaving and self.draws.random() < 0.4:
                self.post(FromApp(app.name, Release(lease, leaving)), self.draws.uniform(0.01, 1.0))

    def _say(self):
        """Somebody gives back what it likes."""
        every = [(app.name, lease) for app in self.apps.values() for lease in app.leases]
        if every and self.draws.random() < 0.5:
            app, lease = self.draws.choice(every)
            held = self.apps[app].leases[lease]
            cells = () if self.draws.random() < 0.3 else tuple(self.draws.sample(sorted(held), 1))
            other = self.draws.choice(sorted(self.apps)) if self.draws.random() < 0.1 else app
            self.post(FromApp(other, Release(lease, cells)), 0.01)

    def _use(self):
        self._act()

    def _steer(self):
        self.steering = not self.steering or self.draws.random() < 0.6

    def _restart(self):
        if self.is_away:
            return
        self.is_away = True
        self.at(self.draws.uniform(0.1, 12.0), self._return)

    def _return(self):
        self.is_away, self.is_late = False, True
        self.kept = self._controller(lambda *one: self.heard.append(one))
        self.step(Restarted())

    def _stranger(self):
        """Containers of an application outside the pool begin, or all end."""
        mine = [name for name, (owner, _) in self.containers.items() if owner == OUTSIDE]
        node = self.draws.choice(sorted(self.nodes) or [None])
        used = [one.resources[GPU] for _, one in self.containers.values() if one.node == node]
        if mine and self.draws.random() < 0.5:
            self._end(mine)
        elif node is not None and sum(used) < self.nodes[node].capacity[GPU]:
            self._begin(OUTSIDE, node, 1, is_master=False)

    def _reconfigure(self):
        if not self.is_away:
            self.step(Reconfigured())


PARTS = ("topology", "claims", "use", "steering", "node_used")

EVENTS = (
    *("act",) * 12, *("arrive",) * 3, "leave", "master", "node_changes", "say", "say", "steer", "steer", "restart",
    "reconfigure", "stranger",
)  # fmt: skip


def _settings(draws):
    return LedgerSettings(
        "restless",
        seed=draws.randint(0, 99),
        grace_s=draws.choice((3.0, 6.0, 11.0)),
        notice_s=draws.choice((0.0, 2.0, 6.0)),
        overtime_s=draws.choice((0.0, 0.0, 3.0)),
        place_within_s=draws.choice((0.0, 5.0, 9.0)),
        records_s=draws.choice((0.0, 30.0)),
        gpus_per_task=draws.choice((1, 1, 1, 2)),
        task_vcores=draws.choice((0, 0, 1, 2)),
        task_memory_mb=draws.choice((0, 0, 0, 9000)),
        gpu_memory_mb=draws.choice((None, 16000)),
        partition=draws.choice(("", "", "gpu")),
        nodes=draws.choice(((), (), ("n[0-2]", "n3"), ("n*",))),
        rules=RULES,
    )
