"""An arbiter with one pool whose cells an allocator leases, on a clock that a test moves; the ledger is checked after
every step."""

from dataclasses import dataclass, field

from tests.lease_world import containers
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated, admitted, sent
from yarn_plugin.decide.events import (
    AppsChanged,
    ContainersListed,
    Deregistered,
    Looked,
    ManagerReached,
    NodesChanged,
    Registered,
)
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.decide.leases.validity import validate
from yarn_plugin.decide.pools.commands import Ask, CancelRevoke, Downgrade, Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.ledger import cells_of_pool
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Row
from yarn_plugin.model.cluster import Capabilities, YarnApp
from yarn_plugin.model.gpus import Job, Piece
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Pool
from yarn_plugin.model.topology import Topology

MESSAGES = (Grant, Renew, Revoke, CancelRevoke, LeaseEnded, Downgrade)


def pool(allocator, settings=None, **parameters):
    given = {"grace_s": 30.0, "place_within_s": 0.0, "rules": RULES, **parameters}
    return Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=LedgerSettings(allocator, settings, **given))


@dataclass
class LedgerWorld:
    """See the module."""

    stage: Simulated
    held: dict = field(default_factory=dict)

    @staticmethod
    def of(allocator, *nodes, settings=None, solves=True, journal=None, registry=TOYS, **parameters):
        given = pool(allocator, settings, **parameters)
        stage = Simulated(given, solves=solves, journal=journal, registry=registry)
        world = LedgerWorld(stage)
        world.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
        world.take(NodesChanged(nodes, ()))
        world.take(Looked())
        return world

    def take(self, event, after=0.0):
        decided = self.stage.take(event, after)
        self.check()
        self.answer(decided)
        return decided

    def wait(self, seconds):
        clock, until = self.stage.clock, self.stage.clock.time + seconds
        while (due := self.stage.intake.next_due()) is not None and due <= until:
            decided = self.stage.wait(max(due - clock.time, 0.0))
            self.check()
            self.answer(decided)
        self.stage.wait(until - clock.time)
        self.check()

    def arrive(self, name, *alternatives, weight=1.0):
        """Register an application with these alternatives; YARN runs its master."""
        demand = Demand(tuple(map(Resources.of, alternatives))) if alternatives else None
        event = Registered(f"request-{name}", name, name, "gpu", weight, demand, None, None)
        app = admitted(self.take(event, 0.01)[-1])
        self.master(app)
        return app

    def say(self, app, message, after=0.01):
        decided = self.stage.say(app, message, after)
        self.check()
        return decided

    def answer(self, decided):
        """Answer questions about jobs: each application has one job, of as many GPUs as it demands first; and bid on
        all GPUs of each slot that is offered."""
        for offer in sent(decided, Offer):
            if isinstance(offer.offer, GpuOffer) and offer.app in self.stage.intake.state.registered:
                slots = [slot for machine in offer.offer.machines for slot in machine.slots if slot.gpus]
                rows = tuple(
                    Row((Piece(slot.gpus, slot.id, "slot"),), 1.0 + number) for number, slot in enumerate(slots)
                )
                self.answer(self.say(offer.app, Bid(offer.offer.round, 9.0, rows)))
        for ask in sent(decided, Ask):
            if isinstance(ask.question, EstimateRequest) and ask.app in self.stage.intake.state.registered:
                demand = self.stage.intake.state.registered[ask.app].demand
                gpus = 1 if demand is None else demand.alternatives[0][GPU]
                job = Job("j", 1e6, 1.0, min_gpus=gpus, max_gpus=gpus)
                self.answer(self.say(ask.app, Estimate(ask.question.round, None, (job,))))

    def leave(self, app):
        return self.take(Deregistered(app), 0.01)

    # YARN.

    def master(self, app, is_waiting=False):
        self._list(app, Resources() if is_waiting else Resources.of({"vcores": 1}), int(not is_waiting), is_waiting)

    def _list(self, app, used, containers, is_waiting=False):
        name = f"application_1_{app.removeprefix('app_'):0>4}"
        queue = self.stage.intake.state.registered[app].queue
        shown = YarnApp(name, name, "ann", queue, is_waiting, 1.0, used, Resources(), containers)
        self.take(AppsChanged((shown,), ()))

    def run(self, app, **on):
        """Have YARN list these containers with GPUs of an application, by node."""
        found = containers(f"container_{app}", on)
        self.stage.clock.time += 0.01
        self._list(app, sum((one.resources for one in found), Resources()), len(found))
        self.take(ContainersListed(app, tuple(found)), 0.01)

    # What is so.

    @property
    def state(self):
        return self.stage.state()

    @property
    def failure(self):
        return self.stage.pool_state().failure

    def leases(self):
        """The cells of the leases that have begun, by application."""
        found = {}
        for entry in self.state.ledger.leases.values():
            if entry.is_started:
                found.setdefault(entry.app, []).extend(entry.leased.cells)
        return {app: sorted(cells) for app, cells in found.items()}

    def sent(self, *kinds):
        return self.stage.sent(kinds or MESSAGES)

    def check(self):
        """The ledger is valid, and what applications were told agrees with it."""
        state = self.stage.intake.state
        kept = state.pool_states.get("gpu")
        if kept is None:
            return
        (found,) = [one for one in state.pools if one.name == "gpu"]
        validate(kept.state.ledger, cells_of_pool(state.cells or Topology(), found.parameters))
