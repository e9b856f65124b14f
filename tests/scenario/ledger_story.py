"""Stories of a pool whose cells an allocator leases: what happens, and what applications and administrators are told.

Events (`at TIME` in front lets time pass until then):

    pool ALLOCATOR [KEY=NUMBER ...]      settings of the ledger that differ from those of tests/ledger_world.py
    nodes NAME:GPUS ... | nodes -NAME (broken) | nodes +NAME (repaired)
    app NAME [weight=NUMBER] AMOUNT[+AMOUNT] ...      alternatives, best first: 2gpu, 4cores, 500milli
    ended NAME      restarted      superseded URL      released NAME (everything that it holds)
    containers NAME [NODE=GPUS,GPUS ...]      as YARN lists them, beside the master

Times are seconds from the start. Leases are named by number.
"""

import re
import shlex

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from yarn_plugin.api.causes import text
from yarn_plugin.decide.commands import ListContainers, PoolStopped, SendToApp, SignalContainers
from yarn_plugin.decide.events import Configured, NodesChanged, Superseded
from yarn_plugin.decide.pools.commands import CancelRevoke, Downgrade, Grant, LeaseEnded, Renew, Revoke
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import UseAsked
from yarn_plugin.model.resources import GPU, GPU_MILLI, VCORES

START = 1000.0
NAMES = {"gpu": GPU, "cores": VCORES, "milli": GPU_MILLI}


class LedgerStory:
    """Plays scenes, one after the other; maps the names that a story gives to applications to their ids."""

    def __init__(self):
        self.world, self.shown, self.ids, self.nodes = None, 0, {}, {}

    def play(self, scene):
        """The trace of a scene."""
        for line in scene.lines:
            words = shlex.split(line, comments=True)
            if words[:1] == ["at"]:
                self.world.wait(START + float(words[1]) - self.world.stage.clock.time)
                words = words[2:]
            if words:
                getattr(self, "_" + words[0])(*words[1:])
        decided = self.world.stage.decided
        trace = [line for one in decided[self.shown :] for line in self._lines(one)]
        self.shown = len(decided)
        return trace or ["nothing"]

    # Events.

    def _pool(self, allocator, *words):
        given = {key: float(value) for key, value in (word.split("=") for word in words)}
        if "gpu_memory_mb" in given:
            given["gpu_memory_mb"] = int(given["gpu_memory_mb"])
        self.world = LedgerWorld.of(allocator, **given)

    def _nodes(self, *words):
        for word in words:
            if word.startswith("-"):
                lost = self.nodes[word[1:]]
                self.world.take(NodesChanged((), (lost.id,), (lost,)))
            elif word.startswith("+"):
                self.world.take(NodesChanged((self.nodes[word[1:]],), ()))
            else:
                name, _, gpus = word.partition(":")
                self.nodes[name] = node(name, int(gpus))
                self.world.take(NodesChanged((self.nodes[name],), ()))

    def _app(self, name, *words):
        weight = next((float(word.partition("=")[2]) for word in words if word.startswith("weight=")), 1.0)
        alternatives = []
        for word in words:
            amounts = (re.fullmatch(r"(\d+)([a-z]+)", one) for one in word.split("+") if "=" not in one)
            wanted = {NAMES[one[2]]: int(one[1]) for one in amounts}
            alternatives += [wanted] if wanted else []
        self.ids[name] = self.world.arrive(name, *alternatives, weight=weight)

    def _ended(self, name):
        self.world.leave(self.ids[name])

    def _restarted(self):
        self.world.take(Configured(self.world.stage.intake.state.pools))

    def _superseded(self, by):
        self.world.take(Superseded(by))

    def _containers(self, name, *words):
        on = {host: tuple(map(int, gpus.split(","))) for host, gpus in (word.split("=") for word in words)}
        self.world.run(self.ids[name], **on)

    def _released(self, name):
        for entry in list(self.world.state.ledger.leases.values()):
            if entry.app == self.ids[name]:
                self.world.say(self.ids[name], Release(entry.id))

    # Commands.

    def _lines(self, decided):
        for command in decided.commands:
            line = self._line(command.message if isinstance(command, SendToApp) else command)
            if line is not None:
                for name, app in sorted(self.ids.items(), key=lambda one: -len(one[1])):
                    line = line.replace(app, name)
                yield f"{decided.at - START:.2f} {line}"

    def _line(self, one):
        match one:
            case Grant(_, app, leases, cause):
                return f"grant {app} {' '.join(map(_lease, leases))} ({text(cause)})"
            case Renew(_, app, lease, until):
                return f"renew {app} {_number(lease)}{_until(until)}"
            case Revoke(_, app, lease, by, cause, cells):
                return f"revoke {app} {_number(lease)}{_cells(cells)} by={by - START:.2f} ({text(cause)})"
            case CancelRevoke(_, app, lease):
                return f"cancel {app} {_number(lease)}"
            case Downgrade(_, app, lease, to):
                return f"class {app} {_number(lease)} {to}"
            case LeaseEnded(_, app, lease, cells, cause):
                return f"ended {app} {_number(lease)}{_cells(cells)} ({text(cause)})"
            case ListContainers(app, _, cause) if not isinstance(cause, UseAsked):
                return f"list {app} ({text(cause)})"
            case SignalContainers(app, containers, cause):
                return f"signal {app} {' '.join(containers)} ({text(cause)})"
            case PoolStopped(pool, error):
                return f"stopped {pool}: {error}"
        return None


def _number(lease):
    return f"#{lease.partition('#')[2]}"


def _cells(cells):
    return f" {','.join(cells)}" if cells else ""


def _until(until):
    return "" if until is None else f" until={until - START:.2f}"


def _lease(lease):
    parts = [
        one.cell if one.fraction == 1.0 else f"{one.cell} {one.fraction:g} {one.resource}" for one in lease.holdings
    ]
    return f"{_number(lease.id)}[{', '.join(parts)}]{_until(lease.until)}"
