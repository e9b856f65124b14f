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

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from tests.scenario.leasing_story import START, LeasingStory, cells_in_words, number_of
from yarn_plugin.api.causes import text
from yarn_plugin.decide.commands import ListContainers, PoolStopped, SignalContainers
from yarn_plugin.decide.events import Configured, NodesChanged, Superseded
from yarn_plugin.decide.pools.commands import CancelRevoke, Downgrade, Grant, LeaseEnded, Renew, Revoke
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import UseAsked
from yarn_plugin.model.resources import GPU, GPU_MILLI, VCORES

NAMES = {"gpu": GPU, "cores": VCORES, "milli": GPU_MILLI}


class LedgerStory(LeasingStory):
    """Of a pool whose cells an allocator leases."""

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

    def _released(self, name):
        for entry in list(self.world.state.ledger.leases.values()):
            if entry.app == self.ids[name]:
                self.world.say(self.ids[name], Release(entry.id))

    # Commands.

    def _line(self, one):
        match one:
            case Grant(_, app, leases, cause):
                return f"grant {app} {' '.join(map(_lease, leases))} ({text(cause)})"
            case Renew(_, app, lease, until):
                return f"renew {app} {number_of(lease)}{_until(until)}"
            case Revoke(_, app, lease, by, cause, cells):
                return f"revoke {app} {number_of(lease)}{cells_in_words(cells)} by={by - START:.2f} ({text(cause)})"
            case CancelRevoke(_, app, lease):
                return f"cancel {app} {number_of(lease)}"
            case Downgrade(_, app, lease, to):
                return f"class {app} {number_of(lease)} {to}"
            case LeaseEnded(_, app, lease, cells, cause):
                return f"ended {app} {number_of(lease)}{cells_in_words(cells)} ({text(cause)})"
            case ListContainers(app, _, cause) if not isinstance(cause, UseAsked):
                return f"list {app} ({text(cause)})"
            case SignalContainers(app, containers, cause):
                return f"signal {app} {' '.join(containers)} ({text(cause)})"
            case PoolStopped(pool, error):
                return f"stopped {pool}: {error}"
        return None


def _until(until):
    return "" if until is None else f" until={until - START:.2f}"


def _lease(lease):
    parts = [
        one.cell if one.fraction == 1.0 else f"{one.cell} {one.fraction:g} {one.resource}" for one in lease.holdings
    ]
    return f"{number_of(lease.id)}[{', '.join(parts)}]{_until(lease.until)}"
