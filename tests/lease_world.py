"""An arbiter with one pool of leased GPUs, on a clock that a test moves, and applications that bid as a test says."""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from tests.toys.stage import Simulated, sent
from yarn_plugin.decide.allocators.auction import on_ledger
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.events import AppsChanged, ContainersListed, ManagerReached, NodesChanged
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.ledger import LedgerState
from yarn_plugin.model.auction import Bid, Estimate, Row
from yarn_plugin.model.cluster import Capabilities, Container, Node, YarnApp
from yarn_plugin.model.gpus import Piece
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Pool

SETTINGS = {
    "lease_s": 600.0,
    "grid_s": 0.0,
    "grace_s": 30.0,
    "round_window_s": 2.0,
    "estimate_s": 5.0,
    "bid_s": 10.0,
    "decide_s": 0.5,
    "table_rounds": 0,
    "rules": RULES,
}


def containers(name, on):
    """A list of containers with GPUs, by node, beside their master on another one."""
    found = [Container(f"{name}_000", "other:8041", Resources.of({"vcores": 1}), True)]
    for host, counts in on.items():
        for number, gpus in enumerate(counts):
            amount = Resources.of({"vcores": 1, GPU: gpus})
            found.append(Container(f"{name}_{host}_{number:03}", f"{host}:8041", amount, False))
    return found


def node(name, gpus=4, rack="/r1", cores=32):
    return Node(f"{name}:8041", rack, Resources.of({"memory-mb": 65536, "vcores": cores, GPU: gpus}))


def row(rho, *gpus, within="", level="machine"):
    return Row(tuple(Piece(count, within, level) for count in gpus), rho)


def gpus_of(lease):
    return {holding.cell for holding in lease.holdings}


@dataclass
class Agent:
    """How an application answers, `delay` seconds after it is asked: its finish-time fairness, its jobs, its rows; or
    a function that makes rows from an offer. `again`: it bids twice."""

    rho: float | None = None
    rows: tuple = ()
    jobs: tuple = ()
    estimates: bool = True
    bids: bool = True
    delay: float = 0.1
    again: tuple | None = None
    cluster_s: float | None = None

    def answers(self, message):
        if isinstance(message, Ask) and self.estimates:
            yield self.delay, Estimate(message.question.round, self.rho, self.jobs)
        if isinstance(message, Offer) and self.bids:
            rows = self.rows(message.offer) if callable(self.rows) else self.rows
            yield self.delay, Bid(message.offer.round, self.rho, rows, self.cluster_s)
            if self.again is not None:
                yield self.delay + 0.1, Bid(message.offer.round, self.rho, self.again)


def lease_pool(settings):
    return Pool("gpu", "root.gpu", (GPU,), controller="lease", parameters=LeaseSettings(**{**SETTINGS, **settings}))


def ledger_pool(settings):
    return Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=on_ledger(lease_pool(settings).parameters))


@dataclass
class World:
    """See the module. `agents`: by application id."""

    stage: Simulated
    agents: dict = field(default_factory=dict)
    answers: list = field(default_factory=list)
    heard: int = 0

    @staticmethod
    def of(*nodes, stage=None, solves=True, is_ledger=False, **settings):
        """`is_ledger`: the auction is an allocator on the ledger."""
        pool = ledger_pool(settings) if is_ledger else lease_pool(settings)
        world = World(stage or Simulated(pool, solves=solves))
        world.stage.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
        world.stage.take(NodesChanged(nodes, ()))
        return world

    def arrive(self, name, is_known=True, **agent):
        """Register an application; YARN runs its master, unless YARN does not know it."""
        app = self.stage.register(name)
        self.agents[app] = Agent(**agent)
        if is_known:
            self.master(app)
        return app

    def wait(self, seconds):
        """Let time pass; applications answer when they are asked, after their delay."""
        clock, until = self.stage.clock, self.stage.clock.time + seconds
        while True:
            self._listen()
            due = self.stage.intake.next_due()
            when = self.answers[0][0] if self.answers else None
            if when is not None and when <= until and (due is None or when < due):
                _, _, app, message = heappop(self.answers)
                if app in self.stage.intake.state.registered:
                    self.stage.say(app, message, max(when - clock.time, 0.0))
            elif due is not None and due <= until:
                self.stage.wait(max(due - clock.time, 0.0))
            else:
                break
        self.stage.wait(until - clock.time)

    def _listen(self):
        while self.heard < len(self.stage.decided):
            self.heard += 1
            for message in sent(self.stage.decided[self.heard - 1 : self.heard]):
                agent = self.agents.get(message.app)
                for delay, answer in agent.answers(message) if agent is not None else ():
                    when = self.stage.clock.time + delay
                    heappush(self.answers, (when, len(self.answers) + self.heard * 1000, message.app, answer))

    # What happened.

    def held(self):
        """The GPUs of the leases that have begun, by application."""
        state, found = self.stage.state(), {}
        if isinstance(state, LedgerState):
            entries = state.ledger.leases.values()
            started = [(one.app, one.leased.cells) for one in entries if one.is_started]
        else:
            started = [(one.lease.app, one.gpus) for one in state.leases.values() if one.started_at is not None]
        for app, gpus in started:
            found.setdefault(app, set()).update(gpus)
        return found

    def leases_of(self, app):
        """The ids of an application's leases."""
        state = self.stage.state()
        if isinstance(state, LedgerState):
            return [one.id for one in state.ledger.leases.values() if one.app == app]
        return [lease for lease, held in state.leases.items() if held.lease.app == app]

    def rounds(self):
        """The records of the rounds."""
        commands = (command for one in self.stage.decided for command in one.commands)
        return [one.cause for one in commands if isinstance(one, RecordRound)]

    def sent(self, *kinds):
        return self.stage.sent(kinds or (Ask, Offer, Grant, Renew, Revoke, LeaseEnded))

    def rounds_state(self):
        """What the pool knows of applications and rounds."""
        state = self.stage.state()
        return state.allocated if isinstance(state, LedgerState) else state

    # YARN.

    def master(self, app, is_waiting=False):
        """Have YARN list the application with its master, or as one that waits for it."""
        used = Resources() if is_waiting else Resources.of({"vcores": 1})
        self._list(app, used, int(not is_waiting), is_waiting)

    def _list(self, app, used, containers, is_waiting=False):
        name = f"application_1_{app.removeprefix('app_'):0>4}"
        queue = self.stage.intake.state.registered[app].queue
        shown = YarnApp(name, name, "ann", queue, is_waiting, 1.0, used, Resources(), containers)
        self.stage.take(AppsChanged((shown,), ()))

    def run(self, app, **on):
        """Have YARN list these containers with GPUs of an application, by node."""
        found = containers(f"container_{app}", on)
        total = sum((one.resources for one in found), Resources())
        self.stage.clock.time += 0.01
        self._list(app, total, len(found))
        self.stage.take(ContainersListed(app, tuple(found)), 0.01)
