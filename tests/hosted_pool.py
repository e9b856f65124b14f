"""A pool whose cells are leased, on a clock of its own: a ledger's controller alone, without an arbiter around it.

Applications answer at once that each has one job, which wants as many GPUs as their claim demands; the worker solves at
once. A bid is for as many GPUs of one machine as it demands and there are.
"""

from tests import recorded_allocator
from tests.toys.registry import TOYS
from yarn_plugin.decide.allocators import happenings
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.validity import validate
from yarn_plugin.decide.mechanisms.partial_allocation import PartialAllocationProblem, allocate
from yarn_plugin.decide.pools.commands import Ask, Offer, SetTimer, Solve
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.lease import baselines
from yarn_plugin.decide.pools.ledger import LedgerController
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.auction import Bid, Estimate, Row
from yarn_plugin.model.gpus import Job, Piece
from yarn_plugin.model.resources import GPU


class Recorded(recorded_allocator.Recorded):
    """An allocator whose calls are recorded."""

    def decisions(self):
        """What it decided, and when, without plans that do nothing but to go on later."""
        parts = ("withdraw", "keep", "reclass", "drop", "place", "ask", "solve", "wake")
        decided = [(call.at, [getattr(call.plan, part) for part in parts]) for call in self.calls]
        return [(at, plan) for at, plan in decided if any(plan[:-1])]

    def news(self):
        """What it heard, and when, but for leases that started."""
        return [(call.at, call.what) for call in self.calls if not isinstance(call.what, happenings.Started)]

    def starts(self):
        """When each lease started."""
        heard = [(call.at, call.what.keys) for call in self.calls if isinstance(call.what, happenings.Started)]
        return {key: at for at, keys in heard for key in keys}


class Pool:
    """See the module. `at`: seconds. `claims`: change them, then `look`."""

    def __init__(self, allocator, topology, settings=None, **parameters):
        self.settings = LedgerSettings("toy", settings, **{"place_within_s": 0.0, "overtime_s": 5.0, **parameters})
        self.controller = LedgerController("gpu", self.settings, allocator)
        self.state, self.topology = self.controller.initial_state(), topology
        self.at, self.claims, self.timers = 0.0, {}, {}
        self._tell(Started())

    def look(self):
        self._tell(ViewChanged())

    def wait(self, until):
        """Let time pass, with all that is due meanwhile."""
        while due := [(at, key) for key, at in self.timers.items() if at <= until]:
            self.at, key = min(due)
            del self.timers[key]
            self._tell(TimerDue(key))
        self.at = until

    def _tell(self, what):
        inputs = [what]
        while inputs:
            view = View(topology=self.topology, claims=tuple(self.claims.values()), steering=True)
            self.state, commands = self.controller.advance(self.state, view, self.at, inputs.pop(0))
            validate(self.state.ledger, self.controller._known.cells, self.controller._known.occupancy)
            for command in commands:
                match command:
                    case SetTimer(key, None):
                        self.timers.pop(key, None)
                    case SetTimer(key, at):
                        self.timers[key] = at
                    case Ask():
                        job = Job("j", 1e6, 1.0, min_gpus=1, max_gpus=self._demand(command.app))
                        inputs.append(FromApp(command.app, Estimate(command.question.round, None, (job,))))
                    case Offer():
                        free = [sum(slot.gpus for slot in machine.slots) for machine in command.offer.machines]
                        gpus = min(self._demand(command.app), max(free))
                        rows = (Row((Piece(gpus),), 1.0),) if gpus else ()
                        inputs.append(FromApp(command.app, Bid(command.offer.round, 9.0, rows)))
                    case Solve(_, PartialAllocationProblem()):
                        inputs.append(Outcome(command.id, "done", allocate(command.problem)))
                    case Solve():
                        solved = baselines.solve(TOYS, command.problem)
                        inputs.append(Outcome(command.id, "done", solved))

    def _demand(self, app):
        claim = next(claim for claim in self.claims.values() if claim.app == app)
        return claim.demand.alternatives[0][GPU]

    def started(self):
        """The GPUs of the leases that have started, by application."""
        found = {}
        for entry in self.state.ledger.leases.values():
            if entry.is_started:
                found.setdefault(entry.app, []).extend(entry.leased.cells)
        return {app: sorted(cells) for app, cells in found.items()}
