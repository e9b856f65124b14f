"""What has happened in a search, from the decisions in its journal: `History.take` each of them, in order."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from themis_agent.agent.commands import Command, Place, ReleaseGpus, SendBid, SendEstimate, StartTrial, StopTrial
from themis_agent.agent.events import (
    Asked,
    Event,
    Granted,
    LauncherEnded,
    LeaseEnded,
    LeasesRead,
    Offered,
    Reported,
    Restarted,
)
from themis_agent.agent.state import State
from themis_agent.view.changes import Change, changes
from yarn_plugin.journal.execution import Decided

MAX_POINTS = 2000
"""Points of a trial's curve; of more, every other one is dropped."""

MAX_CHANGES = 20_000
"""Changes that are kept: the latest."""


@dataclass(slots=True)
class Run:
    """A start of a trial on some GPUs. `reason`: why it was told to stop (`state.Reason`). `ended`: None while it runs.

    Times are those of the journal. `gone`: its launchers that have ended.
    """

    trial: str
    epoch: int
    places: tuple[Place, ...]
    started: float
    ended: float | None = None
    reason: str = ""
    first_step: float | None = None
    last_step: float | None = None
    gone: set[int] = field(default_factory=set)

    @property
    def cells(self) -> tuple[str, ...]:
        """Its GPUs."""
        return tuple(cell for place in self.places for cell in place.cells)


@dataclass(slots=True)
class Holding:
    """A GPU in a lease. `end`: None while it is held."""

    cell: str
    lease: str
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class BidMade:
    """An answer to an offer of `offered` GPUs. `rho`: with nothing of it; None: unbounded, no progress.

    `best_rho`: of the best of `rows` subsets, with `best_gpus` GPUs; None: no subset helps.
    """

    at: float
    wall: float
    offered: int
    rho: float | None
    rows: int
    best_rho: float | None = None
    best_gpus: int = 0


class History:
    """See the module. `metric`: the name of what trials report.

    `metrics`: (time, metric) of reports that were better than all before. `curves`: (step, metric) of each trial; steps
    that were lost and executed again count once. `rhos`: (time, rho) with what was held, where it was asked for; None:
    unbounded. `complete`: whether the journal goes back to the beginning
    of the search.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.begun: float | None = None
        self.complete = True
        self.runs: list[Run] = []
        self.curves: dict[str, list[tuple[float, float]]] = {}
        self.metrics: list[tuple[float, float]] = []
        self.holdings: list[Holding] = []
        self.rhos: list[tuple[float, float | None]] = []
        self.bids: list[BidMade] = []
        self.changes: list[Change] = []
        self.counts = {"estimates": 0, "bids": 0, "starts": 0, "crashes": 0}
        self._open: dict[str, Run] = {}
        self._held: dict[tuple[str, str], Holding] = {}
        self._leases: set[str] = set()

    def take(self, decided: Decided[Event, Command], before: State | None, after: State | None) -> None:
        """Take a decision, with the states around it; None if they are no longer in the journal."""
        if self.begun is None:
            self.begun = decided.at
            self.complete = before is None and after is not None
        self._happened(decided.at, decided.event, after)
        for command in decided.commands:
            self._commanded(decided, command)
        if before is not None and after is not None:
            found = changes(before, after, decided.event, decided.at, self.metric)
            self.changes += (replace(one, at=decided.at, wall=decided.wall) for one in found)
            del self.changes[:-MAX_CHANGES]
            if isinstance(decided.event, LeasesRead | Restarted):
                self._hold_alone(after, decided.at)

    def reconcile(self, state: State, at: float) -> None:
        """Add what a state shows and no decision did: the journal no longer has the beginning."""
        self.begun = state.begun_at
        for trial, attempt in state.attempts:
            if trial.id not in self._open:
                self._start(Run(trial.id, attempt.epoch, attempt.places, attempt.started_at, gone=set(attempt.ended)))
        self._hold_alone(state, at)

    def _hold_alone(self, state: State, at: float) -> None:
        """Leases as they are now: no event said how they changed."""
        held = {(name, gpu.cell) for name, lease in state.leases.items() for gpu in lease.gpus}
        for name, cell in self._held.keys() - held:
            self._give_back(at, name, (cell,))
        self._leases = {*state.granted, *state.leases}
        for name, lease in state.leases.items():
            self._hold(name, (gpu.cell for gpu in lease.gpus), at)

    def of(self, trial: str) -> list[Change]:
        """What has happened to a trial; to the search itself for ""."""
        return [one for one in self.changes if one.trial == trial]

    def _happened(self, at: float, event: Event, after: State | None) -> None:
        match event:
            case Reported():
                self._reported(event, at, after)
            case LauncherEnded():
                self._ended(at, event.trial, event.epoch, event.launcher)
                self.counts["crashes"] += event.code not in (0, None)
            case Granted() if event.lease not in self._leases:
                self._leases.add(event.lease)
                self._hold(event.lease, (gpu.cell for gpu in event.gpus), at)
            case LeaseEnded():
                self._give_back(at, event.lease, event.cells)
            case Restarted():
                running = {(one.trial, one.epoch, one.launcher) for one in event.running}
                for run in list(self._open.values()):
                    for launcher in range(len(run.places)):
                        if (run.trial, run.epoch, launcher) not in running:
                            self._ended(at, run.trial, run.epoch, launcher)

    def _commanded(self, decided: Decided[Event, Command], command: Command) -> None:
        match command:
            case StartTrial():
                self.counts["starts"] += 1
                self._start(Run(command.trial, command.epoch, command.places, decided.at))
            case StopTrial():
                run = self._open.get(command.trial)
                if run is not None and run.epoch == command.epoch:
                    run.reason = command.reason
            case ReleaseGpus():
                self._give_back(decided.at, command.lease, command.cells)
            case SendEstimate():
                self.counts["estimates"] += 1
                if not isinstance(decided.event, Asked) or decided.event.question.needs_rho:
                    self.rhos.append((decided.at, command.estimate.rho))
            case SendBid():
                self.counts["bids"] += 1
                self.bids.append(_bid(decided, command))

    def _start(self, run: Run) -> None:
        self.runs.append(run)
        self._open[run.trial] = run

    def _ended(self, at: float, trial: str, epoch: int, launcher: int) -> None:
        run = self._open.get(trial)
        if run is None or run.epoch != epoch:
            return
        run.gone.add(launcher)
        if len(run.gone) >= len(run.places):
            run.ended = at
            del self._open[trial]

    def _improved(self, event: Reported, at: float, after: State | None) -> None:
        """The best metric so far, of trials that violate nothing."""
        if after is None or event.metric is None or after.trials[event.trial].violated:
            return
        sign = -1.0 if after.settings.maximize else 1.0
        if not self.metrics or sign * event.metric < sign * self.metrics[-1][1]:
            self.metrics.append((at, event.metric))

    def _reported(self, event: Reported, at: float, after: State | None) -> None:
        run = self._open.get(event.trial)
        if run is None or run.epoch != event.epoch:
            return
        run.first_step = event.step if run.first_step is None else run.first_step
        run.last_step = event.step
        self._improved(event, at, after)
        if event.metric is None:
            return
        curve = self.curves.setdefault(event.trial, [])
        del curve[bisect_left(curve, event.step, key=lambda point: point[0]) :]
        curve.append((event.step, event.metric))
        if len(curve) > MAX_POINTS:
            del curve[1:-1:2]

    def _hold(self, lease: str, cells: Iterator[str], at: float) -> None:
        for cell in cells:
            if (lease, cell) not in self._held:
                self._held[lease, cell] = Holding(cell, lease, at)
                self.holdings.append(self._held[lease, cell])

    def _give_back(self, at: float, lease: str, cells: tuple[str, ...]) -> None:
        for name, cell in list(self._held):
            if name == lease and (not cells or cell in cells):
                self._held.pop((name, cell)).end = at


def _bid(decided: Decided[Event, Command], command: SendBid) -> BidMade:
    offered = 0
    if isinstance(decided.event, Offered):
        offered = sum(machine.gpus for machine in decided.event.offer.machines)
    bid = command.bid
    best = min(bid.rows, key=lambda row: row.rho, default=None)
    made = BidMade(decided.at, decided.wall, offered, bid.rho, len(bid.rows))
    if best is None:
        return made
    return replace(made, best_rho=best.rho, best_gpus=sum(piece.gpus for piece in best.pieces))
