"""The ledger of leases under random plans, claims, nodes, use and restarts: its invariants hold after every step.

Each step is taken by a controller that is kept and by one that is made for it: they agree.
"""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from yarn_plugin.decide.allocators.plan import Drop, Holding, Keep, Place, Plan, Reclass, Withdraw
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.validity import validate
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded, SetTimer
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Restarted, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.ledger import NEXT, LedgerController, cells_of_pool
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.topology import topology
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import LeaseDropped
from yarn_plugin.model.cluster import Node, Use
from yarn_plugin.model.resources import GPU, GPU_MILLI, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import TopologyDescription

SETTINGS = LedgerSettings("random", grace_s=10.0, place_within_s=20.0, notice_s=2.0, gpu_memory_mb=16_000)
NODES = {f"n{number}:1": number for number in range(4)}


class RandomPlans:
    """Plans drawn at random among those that the contract allows. Its state: the number of calls, and a seed."""

    def __init__(self, is_quiet=lambda: False):
        self.is_quiet = is_quiet

    def initial_state(self):
        return (0, 0)

    def report(self, state):
        return None

    def propose(self, state, seen, what):
        count, seed = state
        draw = Random(f"{seed} {count} {seen.at}")
        if self.is_quiet():
            return (count + 1, seed), Plan()
        return (count + 1, seed), self._plan(draw, seen, count)

    def _plan(self, draw, seen, count):
        leases = [seen.leases[key] for key in sorted(seen.leases)]
        withdraw = tuple(Withdraw(one.key) for one in leases if one.phase == "waiting" and draw.random() < 0.1)
        drop, keep, reclass = [], [], []
        for one in leases:
            if one.started_at is None or draw.random() < 0.6:
                continue
            kind = draw.choice(["drop", "part", "keep", "reclass", "renew"])
            if kind == "drop":
                drop.append(Drop(one.key, LeaseDropped("drawn")))
            elif kind == "part":
                drop.append(Drop(one.key, LeaseDropped("drawn"), (draw.choice(one.cells),)))
            elif kind == "reclass":
                reclass.append(Reclass(one.key, "opportunistic"))
            elif kind == "renew" and not one.leaving:
                keep.append(Keep(one.key, seen.at + draw.choice([3.0, 30.0])))
            elif kind == "keep" and one.leaving and not keep:
                leaving = [held for held in one.holdings if held.cell in one.leaving]
                if seen.room.refusal_of(leaving) is None:
                    keep.append(Keep(one.key, None))
        # What is dropped here is not replaced or kept here.
        keep = [one for one in keep if one.key not in {other.key for other in drop}]
        places = [] if any(seen.leases[one.key].leaving for one in keep) else self._places(draw, seen, leases, count)
        return Plan(withdraw=withdraw, keep=tuple(keep), reclass=tuple(reclass), drop=tuple(drop), place=tuple(places))

    def _places(self, draw, seen, leases, count):
        places, holdings = [], []
        gang = f"g{count}" if draw.random() < 0.4 else None
        for number in range(draw.randrange(3) if seen.claims else 0):
            claim = draw.choice(sorted(seen.claims))
            mine, replaces = [], None
            old = [one for one in leases if one.claim == claim and one.phase == "held" and not one.leaving]
            old = [one for one in old if one.key not in {other.replaces for other in (*leases, *places)}]
            if old and draw.random() < 0.5:
                replaces = draw.choice(old)
                mine = [held for held in replaces.holdings if draw.random() < 0.5]
            for _ in range(draw.randrange(1, 4)):
                drawn = self._holding(draw, seen)
                own = replaces.holdings if replaces else ()
                if drawn.cell in {held.cell for held in (*mine, *own)}:
                    continue
                if seen.room.refusal_of([*holdings, drawn]) is None:
                    mine.append(drawn)
                    holdings.append(drawn)
            if mine:
                until = seen.at + draw.choice([5.0, 50.0]) if draw.random() < 0.5 else None
                name = None if replaces is None else replaces.key
                places.append(Place(f"k{count}-{number}", claim, tuple(mine), number, until=until, gang=gang,
                                    replaces=name))  # fmt: skip
        return places

    def _holding(self, draw, seen):
        cell = draw.choice(sorted(seen.cells.paths)) if draw.random() < 0.3 else draw.choice(sorted(seen.cells.gpus))
        if cell in seen.cells.gpus:
            return Holding(
                cell, Resources.of({GPU_MILLI: draw.choice([300, 700])}) if draw.random() < 0.3 else Resources()
            )
        if seen.cells[cell].level == "node" and draw.random() < 0.8:
            return Holding(cell, Resources.of({VCORES: draw.randrange(1, 6), MEMORY: 100}))
        return Holding(cell)


class Pool:
    """A pool of random plans and its cluster. Checks everything after each step."""

    def __init__(self, seed):
        self.draw, self.at, self.is_quiet = Random(seed), 1000.0, False
        self.kept = self._controller()
        state = replace(self.kept.initial_state(), allocated=(0, seed))
        self.state, self.due, self.told = state, None, {}
        self.nodes = {name: self._node(name) for name in NODES}
        self.broken, self.claims, self.use, self.names = {}, {}, {}, 0
        self.superseded = None
        self._built = None
        self.step(Started())

    def _controller(self):
        return LedgerController("gpu", SETTINGS, RandomPlans(lambda: self.is_quiet))

    def _node(self, name, gpus=2):
        return Node(name, f"/r{NODES[name] % 2}", Resources.of({MEMORY: 1000, VCORES: 8, GPU: gpus}))

    def view(self):
        wanted = (dict(self.nodes), dict(self.broken))
        if self._built is None or self._built[0] != wanted:
            self._built = wanted, topology(dict(self.nodes), dict(self.broken), TopologyDescription())
        use = tuple(
            Use(app, node, Resources.of({GPU: gpus, VCORES: 1}), ())
            for (app, node), gpus in sorted(self.use.items())
            if app in self.claims
        )
        return View(topology=self._built[1], claims=tuple(self.claims.values()), use=use, steering=True,
                    superseded=self.superseded)  # fmt: skip

    def step(self, what):
        view = self.view()
        fresh = self._controller()
        state, commands = self.kept.advance(self.state, view, self.at, what)
        assert fresh.advance(self.state, view, self.at, what) == (state, commands), "a new controller differs"
        self.state = state
        cells = cells_of_pool(view.topology, SETTINGS)
        if self.superseded is None:
            validate(state.ledger, cells, self.kept._known.occupancy)
            validate(state.ledger, cells, fresh._known.occupancy)
        for command in commands:
            self._hear(command)
        held = {entry.id for entry in state.ledger.leases.values() if entry.is_started}
        assert held == set(self.told), "what applications were told is not what the ledger has"

    def _hear(self, command):
        match command:
            case SetTimer(key, due) if key == NEXT:
                self.due = due
            case Grant(_, _, leases):
                for lease in leases:
                    assert lease.id not in self.told
                    for holding in lease.holdings:
                        others = [one for held in self.told.values() for one in held if one[0] == holding.cell]
                        if holding.resource == GPU:
                            assert not others, f"{holding.cell} is granted, and others have it"
                    self.told[lease.id] = [(one.cell, one.resource) for one in lease.holdings]
            case LeaseEnded(_, _, lease, cells):
                if cells:
                    self.told[lease] = [one for one in self.told[lease] if one[0] not in cells]
                else:
                    del self.told[lease]

    # What happens.

    def happen(self):
        draw = self.draw
        kind = draw.choice(["arrive", "leave", "node", "use", "release", "wait", "wait", "restart", "list"])
        self.at = round(self.at + 0.01, 3)
        match kind:
            case "arrive" if len(self.claims) < 5:
                self.names += 1
                app = f"a{self.names}"
                self.claims[app] = Claim(app, 1.0, None, Resources(), yarn_app=f"application_{self.names}")
                self.step(ViewChanged())
            case "leave" if self.claims:
                del self.claims[draw.choice(sorted(self.claims))]
                self.step(ViewChanged())
            case "node":
                self._change_node(draw.choice(sorted(NODES)))
                self.step(ViewChanged())
            case "use" if self.claims:
                app = draw.choice(sorted(self.claims))
                self.use[app, draw.choice(sorted(NODES))] = draw.randrange(3)
                self.step(ViewChanged())
            case "release" if self.state.ledger.leases:
                entry = draw.choice(list(self.state.ledger.leases.values()))
                cells = tuple(cell for cell in entry.leased.cells if draw.random() < 0.5)
                self.step(FromApp(entry.app, Release(entry.id, cells)))
            case "list" if self.claims:
                app = draw.choice(sorted(self.claims))
                self.step(Outcome(app, "done", ContainersListed(app, ())))
            case "restart":
                self.step(Restarted())
            case _:
                self.wait(draw.choice([1.0, 5.0, 15.0]))

    def _change_node(self, name):
        known = self.nodes.pop(name, None)
        was_broken = self.broken.pop(name, None)
        if known is not None and self.draw.random() < 0.7:
            self.broken[name] = known
        elif was_broken is not None or known is None or self.draw.random() < 0.5:
            self.nodes[name] = self._node(name, self.draw.choice([1, 2, 2]))

    def wait(self, seconds):
        until = self.at + seconds
        while self.due is not None and self.due <= until:
            self.at = max(self.due, self.at)
            self.due = None
            self.step(TimerDue(NEXT))
        self.at = until


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), steps=st.integers(5, 40))
def test_a_ledger_stays_valid_whatever_happens_and_comes_to_rest(seed, steps):
    pool = Pool(seed)
    for _ in range(steps):
        pool.happen()
    # Nothing more is planned, and nobody uses anything: each lease is held in the end, or over.
    pool.is_quiet = True
    pool.use.clear()
    pool.step(ViewChanged())
    pool.wait(200.0)
    assert {entry.leased.phase for entry in pool.state.ledger.leases.values()} <= {"held"}


def test_a_superseded_ledger_ends_all_leases_and_begins_anew():
    pool = Pool(1)
    for _ in range(30):
        pool.happen()
    assert pool.told
    pool.superseded = "http://another"
    pool.step(ViewChanged())
    assert (pool.told, pool.state.ledger.leases, pool.due) == ({}, {}, None)
    pool.superseded = None
    for _ in range(30):
        pool.happen()
    assert pool.told
