"""Simulations of a training workload: what each is made of, and many of them in parallel processes."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Literal

from yarn_plugin.decide.allocators.auction import on_ledger
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.mechanisms.partial_allocation.problem import Rounding
from yarn_plugin.decide.pools.lease.settings import THEMIS, Entitlement, LeaseSettings
from yarn_plugin.drive.lease_simulator import Arrival, LeaseSimulation
from yarn_plugin.drive.pool_simulation import SimulationError
from yarn_plugin.drive.registry import installed
from yarn_plugin.errors import BadInputError, ReportedError, describe
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.simulation.leasing.application import Beliefs, TrainingApplication, TrainingKind, installed_kind
from yarn_plugin.simulation.leasing.layout import Layout
from yarn_plugin.simulation.outcome import Outcome
from yarn_plugin.simulation.result import Result
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingWorkload
from yarn_plugin.simulation.training.cluster import TrainingCluster
from yarn_plugin.validation import one_of

REPORT_EVERY = 0.1
"""Seconds between two messages of a process about its progress."""


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One simulation. Times in seconds.

    `bidders`: whether applications or their jobs bid and hold leases. `lease_s`: the length of a lease. `payments`:
    winners pay by leaving a part of what they won. `max_bidders`: of a round. `error`: of the applications' estimates.
    `liars`: the names of applications that exaggerate their slowdowns by the fraction `lie`. `rounding`: to which whole
    number of GPUs what a winner keeps is rounded. `round_window_s`, `max_gpus_per_user`, `entitlement`: see
    `LeaseSettings`.
    """

    policy: str
    seed: int
    workload: TrainingWorkload = field(repr=False)
    cluster: TrainingCluster = field(repr=False)
    f: float = 0.8
    lease_s: float = 600.0
    bidders: Literal["apps", "jobs"] = "apps"
    payments: bool = True
    checkpoint_s: float = 0.0
    max_bidders: int | None = None
    error: float = 0.0
    lie: float = 0.0
    liars: tuple[str, ...] = ()
    keeps_holdings: bool = False
    rounding: Rounding = "up"
    round_window_s: float = 0.0
    max_gpus_per_user: int | None = None
    entitlement: Entitlement = "application"


def check_policy(name: str) -> None:
    """Raises:
    BadInputError: it is not installed.
    """
    known = [*installed().lease_policies, THEMIS]
    if name not in known:
        raise BadInputError("--policy", name, f"not installed; {one_of(known, name)}")


def simulate(run: TrainingRun, on_ended: Callable[[int], None] = lambda count: None) -> Result:
    """Run one simulation. `on_ended`: called with the number of bidders that have ended.

    Raises:
        ReportedError: the policy is not installed, or the simulation cannot go on.
    """
    check_policy(run.policy)
    started = time.perf_counter()
    simulation = LeaseSimulation(
        pool_of(run),
        installed(),
        Layout(run.cluster.machines),
        arrivals(run, installed_kind()),
        run.checkpoint_s,
        keeps_holdings=run.keeps_holdings,
        on_ended=on_ended,
    )
    return Result(run.policy, run.seed, simulation.run(), time.perf_counter() - started)


def arrivals(run: TrainingRun, kind: TrainingKind) -> list[Arrival]:
    """What arrives at the pool, and when: applications, or each of their jobs on its own."""
    found = []
    for app in run.workload.apps:
        for bidder in [app] if run.bidders == "apps" else list(_alone(app)):
            beliefs = Beliefs(run.error, run.lie if app.name in run.liars else 0.0)
            found.append(
                Arrival(
                    bidder.name,
                    app.name,
                    bidder.arrival_s,
                    _making(kind, bidder, run, beliefs, f"{run.seed}/{app.name}"),
                    bidder.user,
                    bidder.weight,
                )
            )
    return found


def bidders(run: TrainingRun) -> int:
    """How many bidders a simulation has."""
    return len(run.workload.apps) if run.bidders == "apps" else sum(len(app.jobs) for app in run.workload.apps)


def _making(
    kind: TrainingKind, app: TrainingApp, run: TrainingRun, beliefs: Beliefs, seed: str
) -> Callable[[], TrainingApplication]:
    return lambda: kind.application(app, run.cluster.machines, app.arrival_s, beliefs, seed)


def _alone(app: TrainingApp) -> Iterator[TrainingApp]:
    """Each job of an application as one of its own. A job cannot know whether the others do better, so it runs all of
    its iterations."""
    for job in app.jobs:
        yield replace(app, name=f"{app.name}/{job.id}", jobs=(job,), search="plain", phases=())


def _settings(run: TrainingRun) -> LeaseSettings:
    """The parameters of its rounds."""
    return LeaseSettings(
        policy=run.policy, f=run.f, lease_s=run.lease_s, grace_s=0.0, round_window_s=run.round_window_s,
        decide_s=0.0, place_within_s=0.0, seed=run.seed, payments=run.payments,
        max_bidders=run.max_bidders, rounding=run.rounding, max_gpus_per_user=run.max_gpus_per_user,
        entitlement=run.entitlement, rules=RULES,
    )  # fmt: skip


def pool_of(run: TrainingRun) -> Pool:
    """The pool of a simulation."""
    return Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=on_ledger(_settings(run)))


def simulate_all(
    runs: Sequence[TrainingRun], processes: int, on_ended: Callable[[int], None] = lambda count: None
) -> list[Result]:
    """Run simulations, at most `processes` at a time; the results are in the order of `runs`.

    `on_ended`: called with the number of bidders that have ended in all of them.

    Raises:
        ReportedError: of the first run that fails; the others are ended.
    """
    if processes == 1 or len(runs) == 1:
        done = 0
        results = []
        for run in runs:
            results.append(simulate(run, lambda count, before=done: on_ended(before + count)))  # type: ignore[misc]
            done += bidders(run)
        return results
    return _Processes(runs, processes, on_ended).results()


class _Processes:
    """Simulations in processes of their own."""

    def __init__(self, runs: Sequence[TrainingRun], processes: int, on_ended: Callable[[int], None]) -> None:
        # Not forked: the progress bar has a thread.
        self._context = multiprocessing.get_context("spawn")
        self._runs, self._max, self._on_ended = runs, processes, on_ended
        self._ended = [0] * len(runs)
        self._running: dict[Connection, tuple[int, BaseProcess]] = {}
        self._results: dict[int, Result] = {}

    def results(self) -> list[Result]:
        """Run them all."""
        waiting = list(enumerate(self._runs))
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._max:
                    self._start(*waiting.pop(0))
                for ready in wait(list(self._running)):
                    assert isinstance(ready, Connection)
                    self._take(ready)
        finally:
            for _, process in self._running.values():
                process.kill()
                process.join()
        return [self._results[place] for place in range(len(self._runs))]

    def _start(self, place: int, run: TrainingRun) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(run, theirs), daemon=True)
        process.start()
        theirs.close()
        self._running[ours] = place, process

    def _take(self, ready: Connection) -> None:
        place, process = self._running[ready]
        try:
            said = ready.recv()
        except EOFError:
            process.join()
            run = self._runs[place]
            raise SimulationError(
                f"the process of {run.policy} with seed {run.seed} ended with exit code {process.exitcode}"
            ) from None
        match said:
            case int():
                self._ended[place] = said
                self._on_ended(sum(self._ended))
            case (Outcome() as outcome, float() as wall_s):
                self._results[place] = Result(self._runs[place].policy, self._runs[place].seed, outcome, wall_s)
                del self._running[ready]
                process.join()
            case (str() as message, int() as exit_code):
                raise _failure(message, exit_code)


def _failure(message: str, exit_code: int) -> ReportedError:
    failure = SimulationError(message)
    failure.exit_code = exit_code
    return failure


def _work(run: TrainingRun, results: Connection) -> None:
    """A process: run one simulation, and send the number of ended bidders now and then, and the result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sent_at = 0.0

    def on_ended(count: int) -> None:
        nonlocal sent_at
        if time.monotonic() > sent_at + REPORT_EVERY:
            sent_at = time.monotonic()
            results.send(count)

    with suppress(BrokenPipeError):
        try:
            result = simulate(run, on_ended)
        except ReportedError as problem:
            results.send((str(problem), problem.exit_code))
        except Exception as problem:  # noqa: BLE001 - reported by the parent
            results.send((f"{run.policy} with seed {run.seed}: {describe(problem)}", 1))
        else:
            results.send(bidders(run))
            results.send((result.outcome, result.wall_s))
