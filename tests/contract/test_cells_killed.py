"""An eviction between virtual clusters, with a fault in each of its phases: no GPU runs two containers, and the
guarantee is kept. In virtual time; YARN and the applications are models that run what the arbiter's leases say."""

from collections import deque

import pytest

from tests.ledger_world import LedgerWorld
from tests.sampled import one_in
from tests.small_cells import HOSTS, spec
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated, check_leases
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import (
    Configured,
    ContainersListed,
    ContainersSignalled,
    JobsDeclared,
    Looked,
    ManagerLost,
    ManagerReached,
    NodesChanged,
)
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.pools.commands import Revoke
from yarn_plugin.drive.replay import rerun_records
from yarn_plugin.model.cluster import Capabilities, Container, Node
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Gang, Job, Pods

NODES = {host: Node(f"{host}:8041", host, Resources.of({GPU: 4, "vcores": 8})) for host in HOSTS}
MASTER = Resources.of({"vcores": 1})
GRACE_S, AWAY_S, START_S = 5.0, 20, 60.0
PHASES = ("journaled", "signalled", "gone")
FAULTS = ("arbiter", "manager", "master of the victim", "master of the gang", "node")


def host_of(gpu):
    return gpu.partition("/")[0].partition(":")[0]


class World(LedgerWorld):
    """Two racks of two nodes of four GPUs. `running`: the containers, by GPU; `masters`: the applications whose master
    runs. `strike`: what happens in which phase; None once it has."""

    def begin(self, fault, phase):
        self.fault, self.phase, self.strike = fault, phase, fault
        self.running, self.masters, self.back, self.listed, self.past = {}, set(), [], {}, []
        self.away, self.dead, self.lost, self.todo, self.number = False, False, set(), deque(), 0
        self.low, self.high = self.arrive("research"), self.arrive("prod")
        self.masters = {self.low, self.high}
        return self

    # The arbiter.

    def check(self):
        super().check()
        if self.stage.intake.state.pool_states.get("gpu"):
            validate(self.state.allocated.cells.cluster)

    def answer(self, decided):
        for one in decided:
            if any(isinstance(getattr(command, "message", None), Revoke) for command in one.commands):
                self.reach("journaled")
            for command in () if self.dead else one.commands:
                if isinstance(command, ListContainers | SignalContainers):
                    self.todo.append(command)

    def tick(self):
        """One second: timers, commands, applications, and what YARN reports."""
        if self.dead:
            self.stage.clock.time += 1.0
        else:
            self.wait(1.0)
        while self.todo:
            self.carry_out(self.todo.popleft())
        for ticks, call in self.back:
            if ticks == 1:
                call()
        self.back = [(ticks - 1, call) for ticks, call in self.back if ticks > 1]
        if not self.away:
            self.run_containers()
        if not (self.away or self.dead):
            self.poll()

    def carry_out(self, command):
        if isinstance(command, SignalContainers):
            if not self.away:
                self.running = {gpu: one for gpu, one in self.running.items() if one[0] not in command.containers}
            self.reach("signalled")
            if self.dead:
                return
            failed = ("no connection",) if self.away else ()
            self.take(ContainersSignalled(command.app, () if self.away else command.containers, failed), 0.01)
            self.reach("gone")
        elif not (self.away or self.dead):
            self.take(ContainersListed(command.app, tuple(self.containers(command.app))), 0.01)

    # YARN and the applications.

    def containers(self, app):
        if app in self.masters:
            yield Container(f"container_{app}_master", "masters:8041", MASTER, True)
        for gpu, (name, owner) in self.running.items():
            if owner == app:
                yield Container(name, NODES[host_of(gpu)].id, Resources.of({"vcores": 1, GPU: 1}), False)

    def run_containers(self):
        """Masters start a container on each GPU that they lease; the victim's stops none by itself."""
        for entry in self.state.ledger.leases.values():
            for gpu in entry.gpus if entry.is_started and entry.app in self.masters else ():
                is_here = host_of(gpu) not in self.lost
                if is_here and gpu not in entry.leased.leaving and self.running.get(gpu, ("", ""))[1] != entry.app:
                    assert gpu not in self.running, f"{gpu} is used twice"
                    self.number += 1
                    self.running[gpu] = f"container_{self.number}", entry.app

    def poll(self):
        for app in (self.low, self.high):
            found = list(self.containers(app))
            if self.listed.get(app) != found:
                self.listed[app] = found
                used = sum((one.resources for one in found), Resources())
                self._list(app, used, len(found), app not in self.masters)

    # Faults.

    def reach(self, phase):
        if self.strike is None or phase != self.phase:
            return
        self.strike = None
        match self.fault:
            case "arbiter":
                self.dead = True
                self.todo.clear()
                self.back.append((3, self.start_arbiter))
            case "manager":
                self.away = True
                self.back += [(1, lambda: self.take(ManagerLost("no connection"))), (AWAY_S, self.return_manager)]
            case "node":
                self.lost = {min(self.victims())}
                self.running = {gpu: one for gpu, one in self.running.items() if host_of(gpu) not in self.lost}
                self.back += [(1, self.lose_node), (AWAY_S, self.return_node)]
            case _:
                app = self.low if "victim" in self.fault else self.high
                self.masters.discard(app)
                self.running = {gpu: one for gpu, one in self.running.items() if one[1] != app}
                self.back.append((AWAY_S, lambda: self.masters.add(app)))

    def victims(self):
        """The nodes of the leases that are revoked."""
        leases = self.state.ledger.leases.values()
        return {host_of(gpu) for entry in leases for gpu in entry.leased.leaving}

    def start_arbiter(self):
        self.dead = False
        pools = self.stage.intake.state.pools
        before, self.stage = self.stage, Simulated(journal=self.stage.journal)
        self.past += before.decided
        self.stage.clock.time = before.clock.time
        for event in (Configured(pools), ManagerReached("http://rm", Capabilities("3.5.0", True, True)), Looked()):
            self.take(event, 0.01)

    def return_manager(self):
        self.away = False
        self.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))

    def lose_node(self):
        self.take(NodesChanged((), tuple(NODES[host].id for host in self.lost)))

    def return_node(self):
        gone, self.lost = self.lost, set()
        self.take(NodesChanged(tuple(NODES[host] for host in gone), ()))


def job(name, tenant, *sizes, **more):
    return Job(name, tenant, gang=Gang(tuple(Pods(1, size) for size in sizes)), **more)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", FAULTS)
@one_in(2, "inside", [{"prod": "fifo"}, {}], ids=["hosting", "alone"])
def test_an_eviction_goes_on_whatever_fails_in_whichever_phase(inside, fault, phase):
    cells = BuddyCellsSettings(spec(prod={"rack": 1}, research={"node": 2}), inside=inside)
    at = World(LedgerWorld.of("cells", *NODES.values(), settings=cells, grace_s=GRACE_S).stage).begin(fault, phase)
    at.take(JobsDeclared(at.low, tuple(job(f"low-{number}", "research", 4, priority=-1) for number in range(4))), 0.01)
    for _ in range(5):
        at.tick()
    assert [owner for _, owner in at.running.values()] == [at.low] * 16
    at.take(JobsDeclared(at.high, (job("urgent", "prod", 4, 4),)), 0.01)
    asked_at = at.stage.clock.time
    while [owner for _, owner in at.running.values()].count(at.high) < 8:
        at.tick()
        assert at.stage.clock.time - asked_at <= GRACE_S + START_S, "a guaranteed gang starts within its grace and 60 s"
    assert at.strike is None, "the phase was reached"
    for _ in range(AWAY_S + 60):
        at.tick()
    owners = [owner for _, owner in at.running.values()]
    assert (owners.count(at.high), owners.count(at.low)) == (8, 8)
    kinds = {entry.leased.claim[1]: entry.leased.kind for entry in at.state.ledger.leases.values()}
    assert kinds.pop("urgent") == "guaranteed"
    assert set(kinds.values()) == {"guaranteed"}, "what is left of research was promoted into its own quota"
    assert check_leases([*at.past, *at.stage.decided]) >= 24
    assert rerun_records(list(at.stage.journal.read()), TOYS).first_difference() is None
