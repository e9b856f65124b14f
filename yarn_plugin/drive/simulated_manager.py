"""The ResourceManager as the arbiter meets it, in virtual time: looks, answers to commands, failures."""

from collections.abc import Callable, Mapping

from yarn_plugin.decide.commands import (
    Command,
    ListContainers,
    ReadLeaves,
    SignalContainers,
    WriteWeights,
)
from yarn_plugin.decide.events import (
    AppsChanged,
    ContainersListed,
    ContainersSignalled,
    LeavesSeen,
    LeavesUnread,
    Looked,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.drive.virtual_time import Agenda, VirtualArbiter
from yarn_plugin.model.cluster import Capabilities, YarnApp
from yarn_plugin.simulation.cluster import Outage, TimingSection
from yarn_plugin.simulation.yarn import SimulatedYarn

URL = "http://simulated"
NO_CONNECTION = f"ResourceManager {URL}: no connection"
ALLOWED = Capabilities("simulated", writable=True, preempts=False)


class SimulatedManager:
    """Shows a simulated YARN to the arbiter, and does to it what the arbiter commands.

    Whatever moves is seen at the next look, and what is asked of YARN is given at the next heartbeat; both come at
    whole multiples of their intervals, and only when there is something to see or to give.

    Args:
        gained: is told when an application got containers; the application's id, and whether it got its master.
        lost: is told when an application lost so many containers that it did not give back.
        seen: is told at each look, with the applications that changed and the ids of those that ended.
    """

    def __init__(
        self,
        agenda: Agenda,
        arbiter: VirtualArbiter,
        yarn: SimulatedYarn,
        timing: TimingSection,
        gained: Callable[[float, str, bool], None],
        lost: Callable[[float, str, int], None],
        seen: Callable[[float, Mapping[str, YarnApp], tuple[str, ...]], None],
    ) -> None:
        self._agenda, self._arbiter, self._yarn, self._timing = agenda, arbiter, yarn, timing
        self._gained, self._lost, self._seen = gained, lost, seen
        self._known: dict[str, YarnApp] = {}
        self._away = False
        self._looks_at: float | None = None
        self._allocates_at: float | None = None

    def begin(self, at: float) -> None:
        """The arbiter reaches the manager, and sees its nodes."""
        self._arbiter.take(ManagerReached(URL, ALLOWED), at)
        self._look(at)
        self._arbiter.take(Looked(), at)

    def moved(self, at: float) -> None:
        """Something in YARN has moved."""
        self._look_soon(at)
        if self._yarn.has_pending:
            self._allocate_soon(at)

    def plan_outage(self, outage: Outage) -> None:
        """Have nodes fail, and come back."""

        def fail(at: float) -> None:
            for node in outage.nodes:
                if node in self._yarn.present:
                    for app, count in self._yarn.lose_node(node).items():
                        self._lost(at, app, count)
            self.moved(at)

        def come_back(at: float) -> None:
            for node in outage.nodes:
                if node not in self._yarn.present:
                    self._yarn.add_node(node)
            self.moved(at)

        self._agenda.put(outage.at, fail)
        self._agenda.put(outage.until, come_back)

    def plan_absence(self, at: float, until: float, preserve_weights: bool) -> None:
        """Have the manager fail, and come back."""

        def fail(now: float) -> None:
            self._away = True
            self._arbiter.take(ManagerLost(NO_CONNECTION), now)

        def come_back(now: float) -> None:
            self._away = False
            if not preserve_weights:
                self._yarn.lose_weights()
            self._arbiter.take(ManagerReached(URL, ALLOWED), now)
            self._look(now)
            self._arbiter.take(Looked(), now)
            self.moved(now)

        self._agenda.put(at, fail)
        self._agenda.put(until, come_back)

    def carry_out(self, at: float, command: Command) -> None:
        """Do what the arbiter commands; it hears of the outcome after a while. Others' commands are passed over."""
        answer_at = at + self._timing.command_s
        match command:
            case WriteWeights():
                self._agenda.put(answer_at, lambda now: self._write(now, command), matters=False)
            case ReadLeaves():
                self._agenda.put(answer_at, self._read, matters=False)
            case ListContainers(app, yarn_app):
                self._agenda.put(answer_at, lambda now: self._list(now, app, yarn_app), matters=False)
            case SignalContainers():
                self._agenda.put(answer_at, lambda now: self._signal(now, command))

    # Looks and heartbeats.

    def _look_soon(self, at: float) -> None:
        if self._looks_at is None:
            self._looks_at = _next_multiple(at, self._timing.poll_s)
            self._agenda.put(self._looks_at, self._look)

    def _look(self, at: float) -> None:
        self._looks_at = None
        if self._away:
            return
        yarn, arbiter = self._yarn, self._arbiter
        if yarn.changed_nodes:
            moved, yarn.changed_nodes = yarn.changed_nodes, {}
            here = tuple(yarn.nodes[node] for node in moved if node in yarn.present)
            arbiter.take(NodesChanged(here, tuple(node for node in moved if node not in yarn.present)), at)
        changed, yarn.changed = yarn.changed, {}
        ended, yarn.gone = yarn.gone, {}
        reports = {name: report for name in changed if (report := yarn.report(name)) != self._known.get(name)}
        gone = tuple(name for name in ended if self._known.pop(name, None) is not None)
        self._known |= reports
        if reports or gone:
            arbiter.take(AppsChanged(tuple(reports.values()), gone), at)
        self._seen(at, reports, tuple(ended))

    def _allocate_soon(self, at: float) -> None:
        if self._allocates_at is None:
            self._allocates_at = _next_multiple(at, self._timing.heartbeat_s)
            self._agenda.put(self._allocates_at, self._allocate)

    def _allocate(self, at: float) -> None:
        self._allocates_at = None
        if self._away:
            return
        had_no_master = {name for name in self._yarn.pending if self._yarn.apps[name].is_waiting}
        for name in self._yarn.allocate():
            self._gained(at, name, name in had_no_master)
        self._look_soon(at)

    # Commands.

    def _write(self, at: float, command: WriteWeights) -> None:
        if self._away:
            self._arbiter.take(WeightsRefused(NO_CONNECTION), at)
            return
        self._yarn.write(command.weights, command.forget)
        self._arbiter.take(WeightsWritten(command.weights, command.forget), at)

    def _read(self, at: float) -> None:
        if self._away:
            self._arbiter.take(LeavesUnread(NO_CONNECTION, refused=False), at)
        else:
            self._arbiter.take(LeavesSeen((), tuple(sorted(self._yarn.weights.items()))), at)

    def _list(self, at: float, app: str, yarn_app: str) -> None:
        if not self._away:
            self._arbiter.take(ContainersListed(app, self._yarn.containers(yarn_app)), at)

    def _signal(self, at: float, command: SignalContainers) -> None:
        yarn_app = self._arbiter.state.yarn_apps.get(command.app, command.app)
        if self._away:
            failed = tuple(f"{container}: {NO_CONNECTION}" for container in command.containers)
        else:
            missing, count = self._yarn.kill(yarn_app, command.containers)
            failed = tuple(f"{container}: it has ended" for container in missing)
            if count:
                self._lost(at, yarn_app, count)
                self.moved(at)
        self._arbiter.take(ContainersSignalled(command.app, command.containers, failed), at)


def _next_multiple(at: float, interval: float) -> float:
    """The next time after `at` that is a multiple of an interval."""
    return (int(at / interval + 1e-9) + 1) * interval
