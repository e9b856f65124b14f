"""HiveD on the seam of allocators: random gangs, evictions, bad nodes, reconfigurations and restarts.

A plain ledger executes the plans and refuses what the contract forbids; the mechanism's whole state is checked after
each event.
"""

import random
from dataclasses import replace

from tests.plain_ledger import PlainLedger
from tests.sampled import one_in
from tests.small_cells import HOSTS, spec
from yarn_plugin.decide.allocators.buddy_cells import BuddyCells, BuddyCellsSettings
from yarn_plugin.decide.allocators.cells import cells_of
from yarn_plugin.decide.allocators.happenings import Began, Broken, Changed, Reconfigured, Restarted, Unplaced, Vacated
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Claim, Gang, Pods
from yarn_plugin.model.topology import Cell, Topology

SPECS = (spec(a={"node": 1, "pair": 2}, b={"rack": 1}), spec(a={"pair": 2}, b={"rack": 1, "pair": 1}))


def topology(broken=()):
    cells = {f"r{rack}": Cell(f"r{rack}", "rack", None, Resources()) for rack in range(2)}
    for number, host in enumerate(HOSTS):
        cells[host] = Cell(host, "node", f"r{number // 2}", Resources.of({GPU: 4}), host in broken, host=host)
    return cells_of(Topology(("rack", "node"), cells), lambda node: 4)


class World:
    """One seed: what happens, drawn step by step."""

    def __init__(self, seed, inside):
        self.draw, self.number, self.spec, self.inside = random.Random(seed), 0, 0, inside
        self.ledger = PlainLedger(self.allocator(), topology())
        self.ledger.tell(Began())

    def allocator(self):
        return BuddyCells(BuddyCellsSettings(SPECS[self.spec], inside=self.inside), BUILT_IN.allocators)

    def step(self):
        ledger, draw = self.ledger, self.draw
        ledger.at += 1.0
        actions = {self.arrive: 35, self.leave: 20, self.lose: 5, self.break_nodes: 5, self.vacate: 29}
        rare = {self.reconfigure: 3, self.restart: 3}
        weights = {**actions, **rare}
        draw.choices(list(weights), list(weights.values()))[0]()
        validate(ledger.state.cells.cluster)
        self.agrees()

    def arrive(self):
        self.number += 1
        key, draw = (f"app{self.number}", ""), self.draw
        pods = tuple(Pods(draw.randint(1, 2), size) for size in draw.sample([1, 2, 3, 4], draw.randint(1, 2)))
        self.ledger.claims[key] = Claim(
            key[0],
            1.0,
            None,
            Resources(),
            tenant=draw.choice("aabc"),
            priority=draw.choice([-1, -1, 0, 0, 1, 5]),
            gang=Gang(pods),
            lazy_preemption=draw.random() < 0.3,
            arrived_at=self.ledger.at,
        )
        self.ledger.tell(Changed((key,)))

    def leave(self):
        if not self.ledger.claims:
            return
        key = self.draw.choice(list(self.ledger.claims))
        del self.ledger.claims[key]
        self.ledger.end([name for name, lease in self.ledger.leases.items() if lease.claim == key], Vacated)
        self.ledger.tell(Changed((key,)))

    def lose(self):
        begun = [key for key, lease in self.ledger.leases.items() if lease.started_at is not None]
        self.ledger.end(self.draw.sample(begun, min(len(begun), 1)), self.draw.choice([Vacated, Unplaced]))

    def break_nodes(self):
        ledger = self.ledger
        broken = self.draw.sample(HOSTS, self.draw.randint(0, 1))
        ledger.cells = topology(broken)
        lost = {
            key
            for key, lease in ledger.leases.items()
            if any(ledger.cells.node_of(cell) in broken for cell in lease.cells)
        }
        gangs = {ledger.leases[key].gang for key in lost if ledger.leases[key].started_at is None}
        waiting = {key for key, lease in ledger.leases.items() if lease.started_at is None and lease.gang in gangs}
        ledger.end(sorted(lost | waiting), Broken)
        ledger.tell(Changed((), HOSTS))

    def vacate(self):
        self.ledger.wake()
        leaving = [key for key, lease in self.ledger.leases.items() if lease.leaving and self.draw.random() < 0.7]
        self.ledger.end(leaving, Vacated)

    def reconfigure(self):
        self.spec = 1 - self.spec
        self.ledger.allocator = self.allocator()
        self.ledger.tell(Reconfigured())

    def restart(self):
        state = self.ledger.state
        self.ledger.state = replace(state, cluster=CellsState.load(state.cells.dump()))
        self.ledger.tell(Restarted())

    def agrees(self):
        """The allocator knows every lease, and its class; those inside know theirs, but for revoked ones; its report
        is that of an allocator that has not made one before."""
        state, leases = self.ledger.state, self.ledger.leases
        assert self.ledger.allocator.report(state) == self.allocator().report(state)
        own = {key: lease for key, lease in leases.items() if ":" not in key}
        placed = [(key, gang.kind) for gang in state.placed.values() for key in gang.keys if key]
        assert sorted(placed) == sorted((key, lease.kind) for key, lease in own.items())
        lent = {
            f"{name}:{key}": set(one.gpus.values())
            for name, guest in state.guests.items()
            for key, one in guest.lent.items()
            if one.gpus
        }
        known = {key: set(lease.cells) for key, lease in leases.items() if key not in own}
        assert lent.items() <= known.items()
        assert all(leases[key].phase == "leaving" for key in known.keys() - lent.keys())
        holders = {name.partition("@")[0] for name in state.cells.cluster.gangs if "@" in name}
        assert holders == set(known)


@one_in(2, "seed", range(30))
def test_plans_keep_the_contract_whatever_happens(seed):
    world = World(seed, {})
    for _ in range(100):
        world.step()


@one_in(2, "seed", range(20))
def test_plans_keep_the_contract_with_schedulers_inside(seed):
    world = World(seed, {"a": "fifo"} if seed % 2 else {"a": "fifo", "b": "fifo"})
    for _ in range(100):
        world.step()
        if world.draw.random() < 0.01:
            world.inside = {"b": "fifo"}
            world.reconfigure()
