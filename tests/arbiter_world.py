"""A simulated cluster around the arbiter in virtual time: applications come and go; YARN obeys or does not.

An action is a tuple of a word and small numbers (see `World.do`); any list of actions is a possible
history, and `histories` draws them.
"""

from hypothesis import strategies as st

from yarn_plugin.decide.commands import ListContainers, ReadLeaves, SignalContainers, WriteWeights
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    ContainersListed,
    ContainersSignalled,
    Deregistered,
    JobsDeclared,
    LeavesSeen,
    LeavesUnread,
    Looked,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    Registered,
    Revised,
    TimerFired,
    Vacated,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.drive.virtual_time import VirtualArbiter
from yarn_plugin.model.cluster import Capabilities, Container, Node, YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Demand, Job, Pool

SQL = Pool(
    "sql", "root.sql", ("memory-mb", "vcores"), grace=10.0, preempt_after=15.0, idle_timeout=5.0, submit_timeout=120.0
)
NEW_LEAF = 0.01
STATIC = ("root.sql.fixed",)
NODES = 4
ALLOWED = Capabilities("3.5.0", True, True)


def cores(count, memory_each=1024):
    """So many cores with their memory."""
    return Resources.of({"memory-mb": memory_each * count, "vcores": count})


def node(number):
    return Node(f"127.0.1.{number}:8041", "/rack1", cores(4))


class World:
    """Feeds events to the arbiter, keeps the trace, and plays YARN.

    `weights`: what YARN has for each leaf queue, `written`: those of them that its configuration names. `applied` is
    called with (the world, the weights before, what was promised when the write was asked for) when a write takes
    effect; `stepped` with the world after each event. `shows_leaves`: YARN has answered the first question for them.
    """

    def __init__(
        self, *pools, stepped=lambda world: None, applied=lambda world, before, promised: None, shows_leaves=True
    ):
        self.pools = pools or (SQL,)
        self.arbiter = VirtualArbiter(self._taken, at=1000.0)
        self.trace, self.outstanding, self.asked_containers = [], [], []
        self.promised, self.reads = [], []
        self.weights, self.written, self.stepped, self.applied = {}, {}, stepped, applied
        self.running, self.count = {}, 0
        self.feed(Configured(self.pools))
        self.feed(ManagerReached("http://rm", ALLOWED))
        if shows_leaves:
            self._read()
        self.feed(NodesChanged(tuple(node(number) for number in range(1, NODES + 1)), ()))
        self.feed(Looked())

    @property
    def state(self):
        return self.arbiter.state

    @property
    def seq(self):
        return self.arbiter.seq

    @property
    def now(self):
        return self.arbiter.now

    @property
    def due(self):
        return self.arbiter.next_due()

    def feed(self, event):
        return self.arbiter.take(event)

    def _taken(self, taken):
        self.trace.append((taken.seq, taken.at, taken.event, taken.commands))
        for command in taken.commands:
            match command:
                case WriteWeights():
                    self.outstanding.append((command, promises(self.state, self.now)))
                case ReadLeaves():
                    self.reads.append(command)
                case ListContainers():
                    self.asked_containers.append(command)
        self.stepped(self)

    def do(self, action):
        """Let something happen; an action that cannot happen now is passed over."""
        word, *numbers = action
        getattr(self, "_" + word)(*numbers)

    def pick(self, things, number):
        things = sorted(things, key=lambda name: (len(name), name))
        return things[number % len(things)] if things else None

    # Time.

    def _wait(self, seconds):
        self.arbiter.advance_to(self.now + seconds)

    def _early_timer(self):
        """A timer comes in before its time."""
        if self.due is not None:
            self.feed(TimerFired())

    # Applications that are registered.

    def _register(self, weight, wants, grace):
        self.count += 1
        demand = None if wants == 0 else Demand((cores(wants),))
        name = f"app {self.count}"
        self.feed(Registered(f"request-{self.count}", name, "ann", "sql", float(weight), demand, float(grace), None))

    def _start(self, weight, wants, grace):
        """An application registers and is submitted, and YARN executes the commands meanwhile."""
        known = set(self.state.registered)
        self._register(weight, wants, grace)
        (app,) = set(self.state.registered) - known
        self._arrive(self.state.registered[app].queue)
        self._write()

    def _submit(self, number):
        app = self.pick(set(self.state.registered) - set(self.state.yarn_apps), number)
        if app:
            self._arrive(self.state.registered[app].queue)

    def _arrive(self, queue):
        self.count += 1
        name = f"application_1_{self.count:04}"
        self.weights.setdefault(queue, NEW_LEAF)
        self.running[name] = YarnApp(name, name, "ann", queue, True, self.now, Resources(), cores(1), 0)
        self.feed(AppsChanged((self.running[name],), ()))

    def _unregistered(self, number):
        self._arrive(("root.default", "root.sql.shared", f"root.sql.own_{self.count}", *STATIC)[number % 4])

    def _use(self, number, held, pending):
        name = self.pick(self.running, number)
        if name:
            app = self.running[name]
            containers = max(held, 1)
            self.running[name] = YarnApp(
                name, name, "ann", app.queue, False, app.started_at, cores(containers), cores(pending), containers
            )
            self.feed(AppsChanged((self.running[name],), ()))

    def _end(self, number):
        name = self.pick(self.running, number)
        if name:
            del self.running[name]
            self.feed(AppsChanged((), (name,)))

    def _deregister(self, number):
        app = self.pick(self.state.registered, number)
        if app:
            self.feed(Deregistered(app))

    def _vacate(self, number):
        app = self.pick(set(self.state.members) & set(self.state.registered), number)
        if app:
            self.feed(Vacated(app, self.state.members[app].share.seq))

    def _revise(self, number, weight, wants):
        app = self.pick(self.state.registered, number)
        if app:
            self.feed(Revised(app, float(weight), Demand((cores(wants),)) if wants else None))

    def _declare(self, number, jobs, wants):
        """An application declares so many jobs, each with a demand that differs from the others'."""
        app = self.pick(self.state.registered, number)
        if app:
            demands = (Demand((cores(wants + job), cores(1))) if wants else None for job in range(jobs))
            declared = tuple(Job(f"job-{job}", "ann", demand=demand) for job, demand in enumerate(demands))
            self.feed(JobsDeclared(app, declared))

    # Nodes, the ResourceManager, the arbiter itself.

    def _lose_node(self, number):
        lost = node(1 + number % NODES)
        if lost.id in self.state.cluster.nodes:
            self.feed(NodesChanged((), (lost.id,)))

    def _return_node(self, number):
        back = node(1 + number % NODES)
        if back.id not in self.state.cluster.nodes:
            self.feed(NodesChanged((back,), ()))

    def _lose_manager(self):
        self.feed(ManagerLost("no connection"))

    def _reach_manager(self):
        self.feed(ManagerReached("http://rm", ALLOWED))

    def _look(self):
        self.feed(Looked())

    def _restart(self):
        """The arbiter is killed and started again: what it had asked of YARN may or may not have been done."""
        self.outstanding.clear()
        self.asked_containers.clear()
        self.reads.clear()
        self.feed(Configured(self.pools))

    # What YARN makes of commands.

    def _write(self):
        if self.outstanding:
            command, promised = self.outstanding.pop(0)
            before = dict(self.weights)
            self.weights |= dict(command.weights)
            self.written = {queue: one for queue, one in self.written.items() if queue not in command.forget}
            self.written |= dict(command.weights)
            for queue in command.forget:
                if queue in self.weights:
                    self.weights[queue] = NEW_LEAF
            self.applied(self, before, promised)
            self.feed(WeightsWritten(command.weights, command.forget))

    def _refuse(self):
        if self.outstanding:
            self.outstanding.pop(0)
            self.feed(WeightsRefused("400"))

    def _read(self):
        if self.reads:
            self.reads.pop(0)
            self.feed(LeavesSeen(STATIC, tuple(sorted(self.written.items()))))

    def _read_nothing(self):
        if self.reads:
            self.reads.pop(0)
            self.feed(LeavesUnread("no connection", False))

    def _meddle(self, number, weight):
        """Somebody else writes a weight."""
        queue = self.pick(self.written, number)
        if queue:
            self.written[queue] = self.weights[queue] = float(weight)

    def _list(self):
        if self.asked_containers:
            command = self.asked_containers.pop(0)
            app = self.running.get(command.yarn_app)
            count = app.containers if app else 0
            held = tuple(Container(f"container_{n:06}", "n", cores(1), n == 1) for n in range(1, count + 1))
            for answer in self.feed(ContainersListed(command.app, held)):
                if isinstance(answer, SignalContainers):
                    self.feed(ContainersSignalled(answer.app, answer.containers, ()))


def promises(state, now):
    """What each leaf queue has been promised at this time, as a fraction of its pool: what binds its applications."""
    found = {}
    for app, member in state.members.items():
        running = state.cluster.apps.get(state.yarn_apps.get(app, app))
        if running is not None:
            begun = [one.fraction for one in member.schedule if one.at <= now] or [member.schedule[0].fraction]
            found[running.queue] = found.get(running.queue, 0.0) + begun[-1]
    return found


# Random histories, for Hypothesis.

small = st.integers(0, 7)
actions = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 3.0, 7.0, 20.0])),
    st.tuples(st.just("register"), st.sampled_from([1, 1, 1, 2, 4]), st.sampled_from([0, 0, 0, 2, 8]),
              st.sampled_from([0, 5, 10])),
    st.tuples(st.just("start"), st.sampled_from([1, 1, 2]), st.sampled_from([0, 0, 0, 4]), st.sampled_from([5, 10])),
    st.tuples(st.just("start"), st.just(1), st.just(0), st.just(10)),
    st.tuples(st.just("submit"), small),
    st.tuples(st.just("use"), small, st.integers(0, 16), st.sampled_from([0, 0, 2, 8])),
    st.tuples(st.just("unregistered"), small),
    st.tuples(st.just("end"), small),
    st.tuples(st.just("deregister"), small),
    st.tuples(st.just("vacate"), small),
    st.tuples(st.just("revise"), small, st.sampled_from([1, 2, 4]), st.sampled_from([0, 2, 8])),
    st.tuples(st.just("declare"), small, st.integers(0, 3), st.sampled_from([0, 1, 4])),
    st.tuples(st.just("lose_node"), small),
    st.tuples(st.just("return_node"), small),
    st.tuples(st.just("lose_manager")),
    st.tuples(st.just("reach_manager")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("write")),
    st.tuples(st.just("write")),
    st.tuples(st.just("refuse")),
    st.tuples(st.just("read")),
    st.tuples(st.just("read")),
    st.tuples(st.just("read_nothing")),
    st.tuples(st.just("meddle"), small, st.sampled_from([1, 7, 300])),
    st.tuples(st.just("look")),
    st.tuples(st.just("list")),
    st.tuples(st.just("early_timer")),
)  # fmt: skip
histories = st.lists(actions, max_size=45)
