"""Stories of the arbiter: each event goes through the arbiter's step, and its commands make the trace.

Events (`at TIME` in front; else at the time of the line before):

    pools NAME QUEUE RESOURCES [grace:S] [preempt_after:S] [idle_timeout:S] [submit_timeout:S] / NAME ...
    reached [read-only] [without-preemption] [unseen]       away            restarted [unseen]
    seen (after unseen: YARN's queues and applications have been read)      static QUEUE ... (defined by configuration)
    weights QUEUE:WEIGHT ... (as read from YARN)
    nodes +1..4 [cores=4] [gpus=0] | nodes -2       queues root.sql=0.8 root.gpu=0.2
    app NAME [in=QUEUE or the name registered] [holds=CORES] [wants=CORES] [owner=YARN-USER] [waiting]
    app NAME ended
    register NAME [pool=P] [weight=W] [wants=CORES] [grace=S] [user=U] [yarn=NAME] [only=YARN-USERS]
    revise NAME [weight=W] [wants=CORES]            vacated NAME            deregister NAME
    written         refused WHY                     containers NAME COUNT (the first is the master)
    timer (happens at the time that was set)

And `show`: the share of every application (its guarantee, and the fraction that binds from each time on), and the
weights that YARN has. A core comes with 1024 MB.
"""

import shlex

from tests.scenario.story import cause_value
from yarn_plugin.decide import commands as command
from yarn_plugin.decide import events as event
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import Capabilities, Container, Node, Queue, YarnApp
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Pool

NEVER = 1e8
"""Seconds between comparisons of weights in stories that are not about them."""


def amount(cores, gpus=0):
    return Resources.of({"memory-mb": 1024 * cores, "vcores": cores, GPU: gpus})


class ArbiterStory:
    """Plays scenes, one after the other; maps the names that a story gives to applications to their ids."""

    def __init__(self):
        self.state, self.seq, self.now = State(), 0, 0.0
        self.ids, self.queues, self.running, self.asked, self.static = {}, {}, {}, None, ()
        self.lines = []

    def play(self, scene):
        """The trace of a scene."""
        self.lines = []
        for line in scene.lines:
            words = shlex.split(line, comments=True)
            if words[:1] == ["at"]:
                self.now, words = float(words[1]), words[2:]
            if words:
                self._happen(words)
        return self.lines

    def _happen(self, words):
        options = dict(word.split("=", 1) for word in words if "=" in word and words[0] != "queues")
        plain = [word for word in words[1:] if "=" not in word or words[0] == "queues"]
        renamed = {{"in": "queue"}.get(name, name): value for name, value in options.items()}
        getattr(self, "_" + words[0])(*plain, **renamed)

    def _feed(self, what):
        self.seq += 1
        self.state, commands = step(self.state, self.seq, self.now, what)
        trace = [line for one in commands for line in self._command(one)]
        self.lines += [f"{self.now:g} {line}" for line in trace] or [f"{self.now:g} nothing"]
        return commands

    # Events.

    def _pools(self, *words):
        pools, line = [], " ".join(words)
        for part in line.split(" / "):
            name, queue, resources, *rest = part.split()
            numbers = dict(word.split(":") for word in rest)
            settings = {key: float(value) for key, value in numbers.items()}
            pools.append(Pool(name, queue, tuple(resources.split(",")), **settings))
        self.configured = tuple(pools)
        self._feed(event.Configured(self.configured, NEVER))

    def _restarted(self, *more):
        self.asked = None
        self._feed(event.Configured(self.configured, NEVER))
        if "unseen" not in more:
            self._see()

    def _reached(self, *limits):
        allowed = Capabilities("3.5.0", "read-only" not in limits, "without-preemption" not in limits)
        self._feed(event.ManagerReached("http://rm", allowed))
        if "unseen" not in limits:
            self._see("read-only" not in limits)

    def _seen(self, *more):
        self._see("read-only" not in more)

    def _see(self, writable=True):
        """Reading YARN finds what the arbiter knows already; a trace leaves that out."""
        known = self.state.enforcement
        if self.state.manager_error is not None:
            return
        if known.reading:
            seen = event.LeavesSeen(self.static, tuple(sorted(known.written.items())))
            self._quietly(seen if writable else event.LeavesUnread("it cannot be changed", True))
        self._quietly(event.Looked())

    def _quietly(self, what):
        self.state, commands = step(self.state, self.seq, self.now, what)
        self.lines += [f"{self.now:g} {line}" for one in commands for line in self._command(one)]

    def _static(self, *queues):
        self.static = queues

    def _weights(self, *words):
        """What YARN has instead of what was written."""
        found = tuple((queue, float(weight)) for queue, weight in (word.split(":") for word in words))
        self._feed(event.LeavesSeen(self.static, found))

    def _away(self):
        self._feed(event.ManagerLost("no connection"))

    def _nodes(self, which, cores="4", gpus="0"):
        first, _, last = which[1:].partition("..")
        numbers = range(int(first), int(last or first) + 1)
        nodes = tuple(Node(f"127.0.1.{n}:8041", "/rack1", amount(int(cores), int(gpus))) for n in numbers)
        gone = which[0] == "-"
        self._feed(event.NodesChanged((), tuple(one.id for one in nodes)) if gone else event.NodesChanged(nodes, ()))

    def _queues(self, *words):
        found = tuple(Queue(path, float(part), 1.0) for path, part in (word.split("=") for word in words))
        self._feed(event.QueuesChanged(found, ()))

    def _app(self, name, *more, queue=None, holds=None, wants="0", owner="ann"):
        known = self.running.get(name)
        app = known.id if known else f"application_1_{len(self.running) + 1:04}"
        if "ended" in more:
            self._feed(event.AppsChanged((), (app,)))
            return
        if queue in self.ids:
            queue = self.queues[queue]
        queue = queue or known.queue
        held, waiting = int(holds or 0), "waiting" in more
        used = Resources() if waiting else amount(max(held, 1))
        count = 0 if waiting else max(held, 1)
        self.running[name] = YarnApp(
            app, name, owner, queue, waiting, self.now, used, amount(int(wants)), count
        )  # fmt: skip
        self._feed(event.AppsChanged((self.running[name],), ()))

    def _register(self, name, pool="sql", weight="1", wants=None, grace=None, user=None, yarn=None, only=None):
        yarn_app = self.running[yarn].id if yarn else None
        demand = None if wants is None else Demand((amount(int(wants)),))
        wait = None if grace is None else float(grace)
        yarn_users = None if only is None else tuple(only.split(","))
        for one in self._feed(event.Registered(f"request-{name}", name, user or name, pool, float(weight), demand, wait,
                                               yarn_app, yarn_users)):  # fmt: skip
            if isinstance(one, command.Admit):
                self.ids[name], self.queues[name] = one.registration.id, one.registration.queue

    def _revise(self, name, weight=None, wants=None):
        known = self.state.registered[self.ids[name]]
        demand = known.demand if wants is None else Demand((amount(int(wants)),))
        self._feed(event.Revised(known.id, float(weight or known.weight), demand))

    def _vacated(self, name):
        app = self.ids[name]
        self._feed(event.Vacated(app, self.state.members[app].share.seq))

    def _deregister(self, name):
        self._feed(event.Deregistered(self.ids[name]))

    def _written(self):
        asked, self.asked = self.asked, None
        assert asked is not None, "no weights were asked for"
        self._feed(event.WeightsWritten(asked.weights, asked.forget))

    def _refused(self, *why):
        assert self.asked is not None, "no weights were asked for"
        self.asked = None
        self._feed(event.WeightsRefused(" ".join(why)))

    def _containers(self, name, count):
        found = tuple(Container(f"container_{n:02}", "127.0.1.1:8041", amount(1), n == 1)
                      for n in range(1, int(count) + 1))  # fmt: skip
        self._feed(event.ContainersListed(self.ids.get(name) or self.running[name].id, found))

    def _timer(self):
        assert self.state.timer is not None, "no timer is set"
        self.now = max(self.now, self.state.timer)
        self._feed(event.TimerFired())

    def _show(self):
        for app, member in sorted(self.state.members.items(), key=lambda known: (len(known[0]), known[0])):
            schedule = ",".join(f"{one.fraction:.1%}@{one.at:g}" for one in member.schedule)
            self.lines.append(f"  {app} guarantee={member.share.grant.guarantee_fraction:.1%} schedule={schedule}")
        weights = " ".join(f"{queue}={weight:g}" for queue, weight in sorted(self.state.enforcement.written.items()))
        self.lines.append(f"  weights {weights or '-'}")

    # Commands.

    def _command(self, one):
        match one:
            case command.Admit(known):
                yield f"admit {known.id} queue={known.queue} grace={known.grace:g}"
            case command.TellShare(app, share):
                grant = share.grant
                start = "now" if share.effective_at <= self.now else f"{share.effective_at:g}"
                amount = f"({grant.entitlement}) cause={cause_value(share.cause)}"
                yield f"notify {app} {grant.guarantee_fraction:.1%} from={start} {amount}"
            case command.Dismiss(app, cause):
                yield f"dismiss {app} cause={cause_value(cause)}"
            case command.WriteWeights(weights, forget, cause):
                self.asked = one
                shown = [*(f"{queue}={weight:g}" for queue, weight in weights), *(f"{queue}=" for queue in forget)]
                yield f"weights {' '.join(shown)} cause={cause_value(cause)}"
            case command.ListContainers(_, yarn_app, cause):
                yield f"list {yarn_app} cause={cause_value(cause)}"
            case command.SignalContainers(app, containers, cause):
                yield f"signal {' '.join(containers)} app={app} cause={cause_value(cause)}"
            case command.SetTimer(at) if at < NEVER:
                yield f"timer {at:g}"
