"""Stories of a pool of leased GPUs: what the applications say, what they and the administrator are told.

Events (`at TIME` in front lets time pass until then; applications answer 0.1 s after they are asked):

    pool [KEY=NUMBER ...] [policy=NAME] [payments=no]    settings that differ from those of tests/lease_world.py
    nodes NAME:GPUS[/RACK] ... | nodes -NAME (no longer listed)
    app NAME [rho=RHO] [silent] [late] [jobs=GPUS,...]: ROW ...      a ROW is RHO=PIECE+PIECE..., in GPUs
    app NAME [unknown | submitted] ...      YARN does not know it, or has not started its master
    master NAME (runs now)      submitted NAME (runs no longer)
    says NAME ... (as `app`, from now on)   ended NAME      restarted       superseded URL
    containers NAME [NODE=GPUS,GPUS ...]    as YARN lists them, beside the master         none NAME: not even that
    used NODE=VCORES,GPUS ... (of 32 vcores, by all containers, as YARN reports it)
    released NAME (everything that it holds)

Times are seconds from the start. Leases are named by number.
"""

import re

from tests.lease_world import Agent, World, node, row
from tests.scenario.leasing_story import START, LeasingStory, cells_in_words, number_of
from yarn_plugin.api.causes import text
from yarn_plugin.decide.commands import ListContainers, RecordRound, SignalContainers
from yarn_plugin.decide.events import (
    Configured,
    ContainersListed,
    Deregistered,
    NodesChanged,
    NodeUseChanged,
    Superseded,
)
from yarn_plugin.decide.pools.commands import (
    Accept,
    Ask,
    Grant,
    Hold,
    LeaseEnded,
    Offer,
    Renew,
    Revoke,
)
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import UseAsked
from yarn_plugin.model.gpus import Job
from yarn_plugin.model.resources import GPU, VCORES, Resources


class LeaseStory(LeasingStory):
    """Of a pool of leased GPUs."""

    is_ledger = False

    # Events.

    def _pool(self, *words):
        given = dict(word.split("=") for word in words)
        kinds = {
            "policy": str,
            "payments": lambda value: value == "yes",
            "max_apps": int,
            "task_vcores": int,
            "gpus_per_task": int,
        }
        numbers = {key: kinds.get(key, float)(value) for key, value in given.items()}
        if self.world is None:
            self.world = World.of(is_ledger=self.is_ledger, **numbers)

    def _nodes(self, *words):
        for word in words:
            if word.startswith("-"):
                self.world.stage.take(NodesChanged((), (self.nodes.pop(word[1:]).id,)))
                continue
            name, _, rest = word.partition(":")
            gpus, _, rack = rest.partition("/")
            self.nodes[name] = node(name, int(gpus), f"/{rack or 'r1'}")
            self.world.stage.take(NodesChanged((self.nodes[name],), ()))

    def _app(self, name, *words):
        name = name.rstrip(":")
        self.ids[name] = self.world.stage.register(name)
        self._says(name, *words)
        if "unknown" not in words:
            self.world.master(self.ids[name], "submitted" in words)

    def _submitted(self, name):
        self.world.master(self.ids[name], is_waiting=True)

    def _master(self, name):
        self.world.master(self.ids[name])

    def _says(self, name, *words):
        options = dict(word.rstrip(":").split("=", 1) for word in words if word[0].isalpha() and "=" in word)
        tables = (word.split("=") for word in words if word[0].isdigit())
        rows = tuple(row(float(rho), *map(int, pieces.split("+"))) for rho, pieces in tables)
        plain = {word.rstrip(":") for word in words}
        gpus = [int(one) for one in options.get("jobs", "").split(",") if one]
        jobs = tuple(Job(f"{name}{n}", 100.0, 60.0, min_gpus=one, max_gpus=one) for n, one in enumerate(gpus))
        self.world.agents[self.ids[name]] = Agent(
            rho=float(options["rho"]) if "rho" in options else None,
            rows=rows,
            jobs=jobs,
            bids="silent" not in plain,
            delay=60.0 if "late" in plain else 0.1,
        )

    def _ended(self, name):
        self.world.stage.take(Deregistered(self.ids[name]))

    def _restarted(self):
        self.world.stage.take(Configured(self.world.stage.intake.state.pools))

    def _superseded(self, by):
        self.world.stage.take(Superseded(by))

    def _none(self, name):
        self.world.stage.take(ContainersListed(self.ids[name], ()))

    def _used(self, *words):
        amounts = [(host, *map(int, used.split(","))) for host, used in (word.split("=") for word in words)]
        used = [(f"{host}:8041", Resources.of({VCORES: cores, GPU: gpus})) for host, cores, gpus in amounts]
        self.world.stage.take(NodeUseChanged(tuple(used)), 0.01)

    def _released(self, name):
        for lease in self.world.leases_of(self.ids[name]):
            self.world.stage.say(self.ids[name], Release(lease))

    # Commands.

    def _line(self, one):
        match one:
            case Ask(_, app, question, by):
                held = ",".join(f"{slot}:{gpus}" for slot, gpus in question.held) or "-"
                return f"ask {app} held={held} contention={question.contention:.2f} by={by - START:.2f}"
            case Offer(_, app, offer, by):
                machines = " ".join(f"{machine.id}:{machine.gpus}" for machine in offer.machines)
                return f"offer {app} {machines} by={by - START:.2f}"
            case Grant(_, app, leases, cause):
                return f"grant {app} {' '.join(map(_lease, leases))} ({text(cause)})"
            case Renew(_, app, lease, until, _):
                return f"renew {app} {number_of(lease)} until={until - START:.2f}"
            case Revoke(_, app, lease, by, _, cells):
                return f"revoke {app} {number_of(lease)}{cells_in_words(cells)} by={by - START:.2f}"
            case LeaseEnded(_, app, lease, cells, cause):
                return f"ended {app} {number_of(lease)}{cells_in_words(cells)} ({text(cause)})"
            case Hold(_, app, cause):
                return f"hold {app} ({text(cause)})"
            case Accept(_, app):
                return f"accept {app}"
            case RecordRound(_, cause):
                return text(cause)
            case ListContainers(app, _, cause) if not isinstance(cause, UseAsked):
                return f"list {app} ({text(cause)})"
            case SignalContainers(app, containers, cause):
                return f"signal {app} {' '.join(containers)} ({text(cause)})"
        return None


class LeaseOnLedgerStory(LeaseStory):
    """The same, where the rounds are an allocator on the ledger. Two things are not compared: the numbers of leases,
    which the two count apart, and the order of what is decided at one time, as the ledger records a round before it
    grants what was won."""

    is_ledger = True

    def compared(self, trace):
        lines = (re.sub(r"#\d+", "#", line) for line in trace)
        return sorted(lines, key=lambda line: (float(line.partition(" ")[0]) if line != "nothing" else 0.0, line))


def _lease(lease):
    job = f"{lease.job}:" if lease.job else ""
    return f"{job}{number_of(lease.id)}[{','.join(one.cell for one in lease.holdings)}] until={lease.until - START:.2f}"
