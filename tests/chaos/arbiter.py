"""An arbiter's process: its loop and journal, its poller, what it has done in YARN, its streams and its service."""

from collections import deque
from functools import partial

from tests.chaos import checks
from tests.chaos.cluster import QUEUE
from tests.chaos.disk import DiskRecords
from tests.chaos.network import Channel
from tests.chaos.process import Loop
from yarn_plugin.act.actor import MAX_LIST_AGE
from yarn_plugin.act.ownership import Owner, Ownership
from yarn_plugin.api.streams import Position, Streams, _Listener
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import (
    ListContainers,
    ReadLeaves,
    SignalContainers,
    SolveInWorker,
    WriteWeights,
)
from yarn_plugin.decide.events import (
    AppSaid,
    AppsChanged,
    Configured,
    ContainersListed,
    ContainersSignalled,
    Deregistered,
    EpochBegan,
    LeavesSeen,
    LeavesUnread,
    Looked,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    NodeUseChanged,
    QueuesChanged,
    Registered,
    Revised,
    Solved,
    Superseded,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.pools import lease
from yarn_plugin.drive.daemon import CHECK_OWNER
from yarn_plugin.drive.journaling import arbiter_replay, open_intake
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.errors import BadInputError, describe
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.cluster import Capabilities, Queue
from yarn_plugin.model.resources import GPU, total_of

POOL = "gpu"
POLL_S, RECONCILE_S = 1.0, 20.0
CAPABILITIES = Capabilities("3.5.0", writable=True, preempts=False)
CODEC = Codec(journal_tags(BUILT_IN))
SOLVERS = BUILT_IN.solvers()
AWAY = "ResourceManager http://rm: no connection"


class ArbiterProcess(Loop):
    """`wanted`: it is started again when it ends. `pools`: as configured. `checks`: of what its pool decides. `epoch`:
    how often it has lost its journal, which is stored beside it."""

    checks = checks.Ledger

    def __init__(self, world, name, disk, pools):
        super().__init__(world, name, disk)
        self.pools, self.wanted, self.url = pools, False, f"http://{name}:8000"
        self.acknowledged = self.published = self.round_at_restart = self.epoch = 0
        self.crashed_granting = self.serving = self.superseded = False
        self._channels = []
        self.ledger = self.checks(self)

    # The life of the process.

    def start(self):
        """Open the journal, claim the queues, begin."""
        if self.alive or not self.wanted:
            return
        self.begin()
        self.deliver(self._open)

    def _open(self):
        self.serving, self.ownership, self.superseded = False, None, False
        self.intake = None
        self.is_reached, self._busy_until = False, 0.0
        self._listeners, self._channels = {}, []
        self._lists = deque()
        self.open_inbox()
        try:
            self.intake = open_intake(DiskRecords(self.disk), self.clock(), BUILT_IN)
        except JournalUnavailableError:
            self._give_up()
            return
        checks.after_restart(self)
        self.ledger.process_began(self.intake.state, self.intake._execution.at)
        self.state = self.intake.state
        self.streams = Streams(self, codec=CODEC)
        self._claim()

    def ended(self):
        for channel in self._channels:
            channel.close()
        super().ended()
        self.world.at(self.world.now + self.world.draws("restart").uniform(0.5, 12.0), lambda at: self.start())

    def lose_journal(self):
        """The process ends, and the next one begins with nothing."""
        self.kill()
        self.disk.lose_all()
        self.acknowledged = self.published = 0
        self.live = (0, None)
        self.epoch += 1

    def _give_up(self):
        self.world.note(self, "exits", "")
        self.kill()

    def is_healthy(self):
        """Whether it decides, and the ResourceManager answers."""
        is_running = self.alive and self.serving and not self.paused and not self.is_unwritable
        return is_running and not self.world.yarn.away and self.intake.state.manager_error is None

    def _claim(self):
        """As `ownership.claim`: read, write, read again at once and after a pause."""
        draws, yarn = self.world.draws("claim"), self.world.yarn

        def read():
            if yarn.away:
                self._give_up()
                return
            found = yarn.owner()
            other = self.world.arbiter_at(found.url) if found is not None and found.id != self.name else None
            if other is not None and self._answers(other):
                self._give_up()
                return
            mine = Owner(self.name, self.url, 1 + (found.epoch if found is not None else 0))
            self.later(draws.choice((0.02, 0.3, 2.0)), partial(write, mine))

        def write(mine):
            if yarn.away:
                self._give_up()
                return
            yarn.write_owner(mine)
            self.world.note(self, "claims", str(mine.epoch))
            self.later(0.02, partial(verify, mine, False))

        def verify(mine, is_last):
            found = yarn.owner()
            if yarn.away or (found.id != self.name and found.epoch >= mine.epoch):
                self._give_up()
            elif is_last:
                self.ownership = Ownership(mine, (QUEUE,))
                self._serve()
            else:
                self.later(1.0, partial(verify, mine, True))

        self.later(draws.uniform(0.01, 0.1), read)

    def _serve(self):
        if self.epoch > self.intake.state.epoch:
            self.post(EpochBegan(self.epoch))
        self.post(Configured(self.pools, RECONCILE_S), self._configured)

    def _answers(self, other):
        return other.alive and not other.paused and self.world.network.reaches(self.name, other.name)

    def _configured(self, decision):
        if decision is None:
            self._give_up()
            return
        self.serving = True
        self.later(0.1, self._poll)
        self.later(CHECK_OWNER, self._check_owner)

    # Decisions.

    def history(self):
        return tuple(self.intake.history)

    def wall_offset(self):
        return self.intake.wall() - self.intake.now()

    def refuse_all(self):
        while self.inbox:
            self.unwritable(self.inbox.popleft())

    def unwritable(self, item):
        _, _, reply, is_outcome = item
        if is_outcome:
            self.deferred.append(item)
        elif reply is not None:
            reply(None)

    def pass_on(self, decided):
        before, self.state = self.state, self.intake.state
        self.world.step(self, decided)
        checks.after_decision(self, before, decided)
        self.ledger.take(before, decided)
        self.crash_if_due("before commands", decided)
        half = len(decided.commands) // 2
        for number, command in enumerate(decided.commands):
            if number == half:
                self.crash_if_due("between commands", decided)
            self._carry_out(command)
        self.published = max(self.published, decided.seq)
        self.streams.publish(decided)
        for app, listeners in self._listeners.items():
            self._drain(app, listeners)

    # Commands.

    def _carry_out(self, command):
        match command:
            case SolveInWorker():
                self._solve(command)
            case ListContainers() | SignalContainers() | ReadLeaves() | WriteWeights():
                self._busy_until = max(self._busy_until, self.world.now) + self.world.network.latency()
                self.later(self._busy_until - self.world.now, partial(self._act, command))

    def _act(self, command):
        yarn = self.world.yarn
        match command:
            case ListContainers(app, yarn_app):
                is_lost = self.world.draws("lists").random() < self.world.network.loss
                if not (yarn.away or is_lost) and yarn_app in yarn.apps:
                    found = ContainersListed(app, yarn.list_containers(yarn_app))
                    self._lists.append((command, found, self.world.now))
                    self.later(self.world.network.latency(), self._listed)
            case SignalContainers(app, containers):
                if yarn.away or self.superseded:
                    self._outcome(ContainersSignalled(app, (), (AWAY,)))
                else:
                    self.world.note(self, "signals", " ".join(containers))
                    failed = tuple(f"{one}: it has finished" for one in yarn.kill(containers))
                    self._outcome(ContainersSignalled(app, containers, failed))
            case ReadLeaves():
                if yarn.away:
                    self._outcome(LeavesUnread(AWAY, refused=False))
                else:
                    self._look_at_owner()
                    self._outcome(LeavesSeen((), ()))
            case WriteWeights(weights, forget):
                self._outcome(WeightsRefused(AWAY) if yarn.away else WeightsWritten(weights, forget))

    def _listed(self):
        # The actor has one thread: no list overtakes one that was read before.
        command, found, read_at = self._lists.popleft()
        if self.world.now - read_at > MAX_LIST_AGE:
            self._act(command)
        else:
            self.post(found, is_outcome=True)

    def _outcome(self, event):
        self.later(self.world.network.latency(), lambda: self.post(event, is_outcome=True))

    def _check_owner(self):
        if not self.world.yarn.away:
            self._look_at_owner()
        self.later(CHECK_OWNER, self._check_owner)

    def _look_at_owner(self):
        by = self.ownership.successor(self.world.yarn.configuration())
        if by is not None and not self.superseded:
            self.superseded = True
            other = self.world.yarn.owner()
            self.world.sometimes(other.epoch == self.ownership.owner.epoch, "two arbiters with equal epochs")
            self._outcome(Superseded(by))

    def _solve(self, command):
        draws = self.world.draws("solver")
        kind = self.world.solver
        delay = draws.uniform(0.02, 0.3) if kind != "slow" else draws.uniform(1.0, 12.0)

        def solved():
            if kind == "lost" and draws.random() < 0.7:
                self.post(Solved(command.pool, command.id, "lost", error="the worker's process ended"), is_outcome=True)
                return
            try:
                result = SOLVERS[CODEC.write(command.problem)["type"]](command.problem)
            except Exception as problem:  # noqa: BLE001 - as the worker's process
                self.post(Solved(command.pool, command.id, "failed", error=describe(problem)), is_outcome=True)
            else:
                self.post(Solved(command.pool, command.id, "done", result), is_outcome=True)

        self.later(delay, solved)

    # Observations.

    def _poll(self):
        yarn = self.world.yarn
        self.later(self.world.draws("poll").uniform(0.9, 1.1) * POLL_S, self._poll)
        if yarn.away:
            if self.intake.state.manager_error is None:
                self.is_reached = False
                self.post(ManagerLost(AWAY))
            return
        answers = yarn.present_nodes(), yarn.reports()
        self.later(self.world.network.latency(), lambda: self._observe(*answers))

    def _observe(self, nodes, apps):
        if not self.is_reached or self.intake.state.manager_error is not None:
            self.is_reached = True
            self.post(ManagerReached("http://rm", CAPABILITIES))
        known = self.intake.state.cluster
        changed = tuple(node for name, node in nodes.items() if known.nodes.get(name) != node)
        gone = tuple(name for name in known.nodes if name not in nodes)
        if changed or gone:
            self.post(NodesChanged(changed, gone))
        changed = tuple(app for name, app in apps.items() if known.apps.get(name) != app)
        gone = tuple(name for name in known.apps if name not in apps)
        if changed or gone:
            self.post(AppsChanged(changed, gone))
        if QUEUE not in known.queues:
            self.post(QueuesChanged((Queue(QUEUE, 1.0, 1.0),), ()))
        if self.world.settings.has_task_size:
            used = {name: self._used(name) for name, node in nodes.items() if node.capacity[GPU]}
            changed = tuple((name, use) for name, use in used.items() if known.node_used.get(name) != use)
            if changed:
                self.post(NodeUseChanged(changed))
        if not self.intake.state.looked:
            self.post(Looked())

    def _used(self, node):
        apps = self.world.yarn.apps.values()
        return total_of(one.size for app in apps for one in app.containers.values() if one.node == node)

    # The service.

    def serve(self, request, values, reply):
        """Answer a request: True, a value, False if it is refused for good, or None: it is to be repeated."""
        if not self.serving or self.intake.state.enforcement.superseded is not None:
            reply(None)
            return
        getattr(self, f"_{request}")(*values, reply)

    def _decide(self, event, reply, answer=lambda: True):
        def decided(decision):
            if decision is None:
                reply(None)
                return
            self.acknowledged = max(self.acknowledged, decision.seq)
            reply(answer())

        self.post(event, decided)

    def _register(self, request_id, user, yarn_app, demand, reply):
        event = Registered(request_id, yarn_app, user, self.pools[0].name, 1.0, demand, None, yarn_app, (user,))
        self._register_as(event, reply)

    def _register_as(self, event, reply):
        def found():
            known = self.intake.state.registered.values()
            return next((one.id for one in known if one.request_id == event.request_id), None)

        if event.yarn_app not in self.intake.state.cluster.apps:
            reply(None)
            return
        self._decide(event, reply, found)

    def _deregister(self, app, reply):
        self._said(app, Deregistered(app), reply)

    def _revise(self, app, demand, reply):
        self._said(app, Revised(app, 1.0, demand), reply)

    def _said(self, app, event, reply):
        if app in self.intake.state.registered:
            self._decide(event, reply)
        else:
            reply(False)

    def _say(self, app, message, reply):
        if app not in self.intake.state.registered:
            reply(False)
            return
        try:
            lease.KIND.check(self.intake.state.pool_states[POOL].state, app, message)
        except BadInputError:
            # A bid that is so late that the next round's offer is open. It is decided on all the same.
            self._decide(AppSaid(app, message), reply, lambda: False)
        else:
            self._decide(AppSaid(app, message), reply)

    # Streams.

    def connect(self, client, take, broken):
        """A connection that the machine accepts, even while the process is stopped: it breaks when the process dies."""
        channel = Channel(self.world.network, client, self, take, broken)
        self._channels.append(channel)
        return channel

    def follow(self, channel, app, last_id, refused):
        """Open a stream for the client of a connection."""
        if not self.serving:
            channel.close(after_s=0.0)
        if not channel.is_open:
            return
        if not self.streams.is_known(app):
            channel.client.later(self.world.network.latency(), refused)
            return
        listener = _Listener()
        self.streams._listeners[app].add(listener)
        self._listeners.setdefault(app, []).append((listener, channel))
        for message in self.streams._missed(app, Position.parse(last_id) if last_id else None):
            channel.send(message.encode(self.wall_offset(), CODEC))

    def _drain(self, app, listeners):
        for listener, channel in listeners:
            while not listener.queue.empty():
                message = listener.queue.get_nowait()
                if message is not None:
                    channel.send(message.encode(self.wall_offset(), CODEC))

    def cut_streams(self):
        for channel in self._channels:
            channel.close()


def new_replay():
    return arbiter_replay(BUILT_IN)
