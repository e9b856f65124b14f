"""The ResourceManager in virtual time, as seen by the arbiter: polls, answers to commands, failures."""

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
    """Reports a simulated YARN to the arbiter and carries out the arbiter's commands on it.

    Changes are reported at the next poll, and pending requests are allocated at the next heartbeat. Both occur at
    multiples of their intervals, and only if there is something to do.

    Args:
        on_allocated: called when an application gets containers, with its id and whether it got its master.
        on_lost: called when an application loses containers that it did not release, with its id and their number.
        on_polled: called at each poll, with the changed applications and the ids of finished ones.
    """

    def __init__(
        self,
        agenda: Agenda,
        arbiter: VirtualArbiter,
        yarn: SimulatedYarn,
        timing: TimingSection,
        on_allocated: Callable[[float, str, bool], None],
        on_lost: Callable[[float, str, int], None],
        on_polled: Callable[[float, Mapping[str, YarnApp], tuple[str, ...]], None],
    ) -> None:
        self._agenda, self._arbiter, self._yarn, self._timing = agenda, arbiter, yarn, timing
        self._on_allocated, self._on_lost, self._on_polled = on_allocated, on_lost, on_polled
        self._known: dict[str, YarnApp] = {}
        self._away = False
        self._polls_at: float | None = None
        self._allocates_at: float | None = None

    def start(self, at: float) -> None:
        """The arbiter connects to the ResourceManager and polls it for the first time."""
        self._arbiter.take(ManagerReached(URL, ALLOWED), at)
        self._poll(at)
        self._arbiter.take(Looked(), at)

    def note_change(self, at: float) -> None:
        """Schedule a poll, and a heartbeat if requests are pending, after a change in YARN."""
        self._poll_soon(at)
        if self._yarn.has_pending:
            self._allocate_soon(at)

    def plan_outage(self, outage: Outage) -> None:
        """Schedule a failure of nodes and their return."""

        def fail(at: float) -> None:
            for node in outage.nodes:
                if node in self._yarn.present:
                    for app, count in self._yarn.lose_node(node).items():
                        self._on_lost(at, app, count)
            self.note_change(at)

        def come_back(at: float) -> None:
            for node in outage.nodes:
                if node not in self._yarn.present:
                    self._yarn.add_node(node)
            self.note_change(at)

        self._agenda.put(outage.at, fail)
        self._agenda.put(outage.until, come_back)

    def plan_downtime(self, at: float, until: float, preserve_weights: bool) -> None:
        """Schedule a failure of the ResourceManager and its return."""

        def fail(now: float) -> None:
            self._away = True
            self._arbiter.take(ManagerLost(NO_CONNECTION), now)

        def come_back(now: float) -> None:
            self._away = False
            if not preserve_weights:
                self._yarn.lose_weights()
            self._arbiter.take(ManagerReached(URL, ALLOWED), now)
            self._poll(now)
            self._arbiter.take(Looked(), now)
            self.note_change(now)

        self._agenda.put(at, fail)
        self._agenda.put(until, come_back)

    def carry_out(self, at: float, command: Command) -> None:
        """Carry out a command; its outcome is reported after a delay. Commands for applications are ignored."""
        answer_at = at + self._timing.command_s
        match command:
            case WriteWeights():
                self._agenda.put(answer_at, lambda now: self._write(now, command), essential=False)
            case ReadLeaves():
                self._agenda.put(answer_at, self._read, essential=False)
            case ListContainers(app, yarn_app):
                self._agenda.put(answer_at, lambda now: self._list(now, app, yarn_app), essential=False)
            case SignalContainers():
                self._agenda.put(answer_at, lambda now: self._signal(now, command))

    # Polls and heartbeats.

    def _poll_soon(self, at: float) -> None:
        if self._polls_at is None:
            self._polls_at = _next_multiple(at, self._timing.poll_s)
            self._agenda.put(self._polls_at, self._poll)

    def _poll(self, at: float) -> None:
        self._polls_at = None
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
        self._on_polled(at, reports, tuple(ended))

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
            self._on_allocated(at, name, name in had_no_master)
        self._poll_soon(at)

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
            failed = tuple(f"{container}: it has finished" for container in missing)
            if count:
                self._on_lost(at, yarn_app, count)
                self.note_change(at)
        self._arbiter.take(ContainersSignalled(command.app, command.containers, failed), at)


def _next_multiple(at: float, interval: float) -> float:
    """The next time after `at` that is a multiple of an interval."""
    return (int(at / interval + 1e-9) + 1) * interval
