"""The same pools live, simulated and replayed: real time and a worker process; a clock moved by hand; the journal."""

import threading

from tests.clock import HandClock
from tests.eventually import eventually
from tests.fixtures.scripted_manager import ScriptedManager
from tests.toys.auction import Answer
from tests.toys.registry import TOYS
from yarn_plugin.decide.commands import Admit, SendToApp
from yarn_plugin.decide.events import AppSaid, Configured, Deregistered, EpochBegan, Registered, Solved
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded
from yarn_plugin.drive.daemon import Daemon
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.replay import replay, rerun
from yarn_plugin.journal.records import MemoryRecords
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.poller import PollIntervals
from yarn_plugin.observe.resource_manager import ResourceManager

SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"), grace=0.5)
QUEUES = {"root.sql": (60.0, 100.0), "root.gpu": (20.0, 100.0), "root.cells": (20.0, 100.0)}
INTERVALS = PollIntervals(metrics=0.05, apps=0.2, nodes=0.2, queues=5.0)
AT = "tests.toys.registry:TOYS"


def gpu(controller, parameters=None, name="gpu"):
    return Pool(name, f"root.{name}", ("memory-mb", "vcores"), controller=controller, parameters=parameters)


def request(name, pool="gpu", user=None):
    return Registered(f"request-{name}", name, user or name, pool, 1.0, None, None, None)


def sent(decided, kind=object):
    """The messages to applications in these decisions."""
    commands = (command for one in decided for command in one.commands)
    return [one.message for one in commands if isinstance(one, SendToApp) and isinstance(one.message, kind)]


class Live:
    """A daemon with these pools beside the share pool, and applications that answer what they are asked."""

    def __init__(self, folder, *pools):
        self.folder = folder
        self.manager = ScriptedManager(QUEUES)
        self.decided, self.wants, self._lock = [], {}, threading.Lock()
        self.daemon = Daemon(lambda: ResourceManager([self.manager.url], "ann"), (SQL, *pools), INTERVALS, folder,
                             registry=TOYS, registry_at=AT)  # fmt: skip
        self.daemon.publish_to(self._publish)
        self.daemon.start()

    def close(self):
        self.daemon.stop()
        self.manager.close()

    def take(self, event):
        return self.daemon.take(event)

    def register(self, name, pool="gpu", wants=None):
        """Register an application that answers every question with so many cells; None: it is silent."""
        with self._lock:
            decided = self.daemon.post(request(name, pool))
            app = admitted(decided.result())
            self.wants[app] = wants
        return app

    def deregister(self, app):
        self.take(Deregistered(app))

    def say(self, app, message):
        return self.take(AppSaid(app, message))

    def state(self, pool="gpu"):
        return self.daemon.state.pool_states[pool].state

    def worker_pid(self):
        """The worker process, once there is one."""
        return self.daemon._dispatcher.worker_pid("gpu")

    def until(self, holds, what):
        return eventually(holds, what, 30.0)

    def sent(self, kind):
        return sent(list(self.decided), kind)

    def _publish(self, decided):
        self.decided.append(decided)
        for ask in sent([decided], Ask):
            threading.Thread(target=self._answer, args=(ask,), daemon=True).start()

    def _answer(self, ask):
        with self._lock:
            wants = self.wants.get(ask.app)
        if wants is not None:
            self.daemon.post(AppSaid(ask.app, Answer(ask.question.round, wants, float(wants))))


def admitted(decided):
    return next(command.registration.id for command in decided.commands if isinstance(command, Admit))


class Simulated:
    """The arbiter on a clock that a test moves; solves at once or when a test asks it to."""

    def __init__(self, *pools, journal=None, solves=True, registry=TOYS):
        self.clock, self.solves, self.problems = HandClock(), solves, []
        self.journal = journal or MemoryRecords()
        self.intake = open_intake(self.journal, self.clock, registry)
        self.decided = []
        if pools:
            self.take(Configured((SQL, *pools)))

    def take(self, event, after=0.0):
        """Take an input, so many seconds after the last one; what was decided on it, and on what followed."""
        self.clock.time += after
        begun = len(self.decided)
        self._take(event)
        return self.decided[begun:]

    def wait(self, seconds):
        """Let time pass."""
        begun = len(self.decided)
        until = self.clock.time + seconds
        while (due := self.intake.next_due()) is not None and due <= until:
            self.clock.time = due
            self._note(list(self.intake.fire_due(due)))
        self.clock.time = until
        return self.decided[begun:]

    def register(self, name, pool="gpu"):
        return admitted(self.take(request(name, pool), 0.01)[-1])

    def say(self, app, message, after=0.01):
        return self.take(AppSaid(app, message), after)

    def state(self, pool="gpu"):
        return self.intake.state.pool_states[pool].state

    def pool_state(self, pool="gpu"):
        return self.intake.state.pool_states[pool]

    def sent(self, kind):
        return sent(self.decided, kind)

    def solve(self, kind="done", error=None):
        """Say what became of the oldest open problem."""
        command = self.problems.pop(0)
        result = TOYS.solver()(command.problem) if kind == "done" else None
        return self.take(Solved(command.pool, command.id, kind, result, error), 0.01)

    def _take(self, event):
        self._note(list(self.intake.take_in_order(event, self.clock.time)))

    def _note(self, decided):
        self.decided += decided
        for one in decided:
            self.problems += [command for command in one.commands if type(command).__name__ == "SolveInWorker"]
        while self.solves and self.problems:
            self.solve()


# Agreement.


def check_agreement(journal, live=None):
    """A journal, its inputs without timers in virtual time, and its replay say the same, byte for byte.

    `live`: what a daemon published; the whole of the journal, where it is given.
    """
    replayed = replay(journal, TOYS)
    assert (replayed.different, replayed.dropped) == (0, None)
    if live is not None:
        assert encoded(live) == encoded(replayed.history)
    assert rerun(journal, TOYS).first_difference() is None
    return replayed


def encoded(decided):
    intake = open_intake(MemoryRecords(), HandClock(), TOYS)
    return [intake.encoded(one) for one in decided]


def check_leases(decided):
    """No cell is granted while a lease of it has not ended. Returns how often cells were granted."""
    holder, granted = {}, 0
    for one in decided:
        if isinstance(one.event, Configured | EpochBegan):
            assert not sent([one], Grant), "nothing new is granted by a restart"
        for message in sent([one]):
            match message:
                case Grant(_, _, leases):
                    for lease in leases:
                        for holding in lease.holdings:
                            assert holding.cell not in holder, f"{holding.cell} is granted twice"
                            holder[holding.cell] = lease.id
                            granted += 1
                case LeaseEnded(_, _, lease):
                    holder = {cell: one for cell, one in holder.items() if one != lease}
    return granted
