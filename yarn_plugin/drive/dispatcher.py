"""Carries out what was decided: on YARN through the actor, and in worker processes. Logs each command."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from yarn_plugin.act.actor import Actor
from yarn_plugin.act.ownership import Ownership
from yarn_plugin.act.worker import Worker
from yarn_plugin.api.causes import text
from yarn_plugin.decide.commands import (
    Command,
    Dismiss,
    PoolResumed,
    PoolStopped,
    RecordRound,
    SendToApp,
    SetTimer,
    SignalContainers,
    SolveInWorker,
    TellShare,
    WriteWeights,
)
from yarn_plugin.decide.events import Event, LeavesSeen, Solved
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.journal.intake import Decided
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager
from yarn_plugin.quantities import count

log = logging.getLogger("yarn_plugin.arbiter")

MAX_LOGGED_SHARES = 20
"""How many shares of one decision are logged."""


class Dispatcher:
    """Carries out the commands of decisions; their outcomes come back through `emit`.

    Args:
        managers: makes a client of the ResourceManager.
        parents: the pools' queues.
        claim: makes this arbiter the owner of the pools' queues; None if there is no ownership.
        emit: takes the outcome of a command.
        registry: the installed controllers, with their solvers.
        registry_at: where a worker process finds the same registry, as `module:attribute`.
        solve_timeout: seconds for one problem.
        check_owner: seconds between two looks at who owns the queues; None: only when queues are read or written.
    """

    def __init__(
        self,
        managers: Callable[[], ResourceManager],
        parents: Collection[str],
        claim: Callable[[], Ownership | None],
        emit: Callable[[Event], object],
        registry: Registry,
        registry_at: str,
        solve_timeout: float,
        check_owner: float | None = None,
    ) -> None:
        self._managers, self._parents, self._claim, self._emit = managers, parents, claim, emit
        self._registry, self._registry_at, self._solve_timeout = registry, registry_at, solve_timeout
        self._check_owner = check_owner
        self._actor: Actor | None = None
        self._workers: dict[str, Worker] = {}
        # Guards the creation of workers, so that none is created after the others were closed.
        self._lock = threading.Lock()
        self._closing = False
        self._counters = Counter(weights_reconciled=0, leaves_swept=0, pools_stopped=0)

    def start(self, patient: bool) -> None:
        """Claim the pools' queues and start to carry out commands. If the claim fails, it is retried later.

        Raises:
            ManagerAwayError: no ResourceManager answers, unless `patient`.
            OwnedError: another arbiter owns the pools' queues.
        """
        try:
            self._actor = Actor(
                self._managers(), self._emit, self._claim(), self._parents, check_every=self._check_owner
            )
        except ManagerError as problem:
            if isinstance(problem, ManagerAwayError) and not patient:
                raise
            log.warning(
                "this arbiter could not yet be recorded as the one that controls the pools' queues: %s; shares are not "
                "enforced until it is (retrying at the next write)",
                problem,
            )
            self._actor = Actor(self._managers(), self._emit, None, self._parents, self._claim, self._check_owner)

    def close(self) -> None:
        """Finish the current command of the actor, kill the worker processes."""
        if self._actor is not None:
            self._actor.close()
        with self._lock:
            self._closing = True
            workers = tuple(self._workers.values())
        for worker in workers:
            worker.close()

    def dispatch(self, decided: Decided[Event, Command]) -> None:
        """Carry out the commands of a decision asynchronously."""
        for command in decided.commands:
            if isinstance(command, WriteWeights) and isinstance(decided.event, LeavesSeen):
                self._counters["weights_reconciled"] += len(command.weights)
                self._counters["leaves_swept"] += len(command.forget)
        _log_shares(decided)
        for command in decided.commands:
            self._carry_out(decided, command)

    def threads(self) -> Iterator[tuple[str, bool]]:
        """The names of its threads, and whether they are alive."""
        yield "act", self._actor is not None and self._actor.is_alive()
        yield "work", all(worker.is_alive() for worker in tuple(self._workers.values()))

    def counters(self) -> Mapping[str, float]:
        """Counts of failures and notable commands by name, since the start."""
        acted = self._actor.counters if self._actor is not None else {}
        solved: Counter[str] = Counter(dict.fromkeys(Worker.COUNTED, 0))
        for worker in tuple(self._workers.values()):
            solved.update(worker.counters)
        solved["outcomes_lost"] += acted.get("outcomes_lost", 0)
        return {**acted, **solved, **self._counters}

    def worker_pid(self, pool: str) -> int | None:
        """The id of a pool's worker process; None if it is not running."""
        worker = self._workers.get(pool)
        return worker.pid() if worker is not None else None

    def _carry_out(self, decided: Decided[Event, Command], command: Command) -> None:
        # Set by `start`, which precedes all decisions.
        assert self._actor is not None
        match command:
            case SetTimer() | TellShare() | SendToApp():
                # The intake fires timers; shares and messages are published on streams.
                pass
            case SolveInWorker():
                self._solve(command)
            case PoolStopped(pool, error, retry_at):
                self._counters["pools_stopped"] += 1
                wait = max(retry_at - decided.at, 0.0)
                log.error("seq=%d pool=%s its controller failed, so its shares do not change; retrying in %.0f s: %s",
                          decided.seq, pool, wait, error)  # fmt: skip
            case RecordRound(pool, cause):
                level = logging.WARNING if cause.set_aside else logging.INFO
                log.log(level, "seq=%d pool=%s %s", decided.seq, pool, text(cause))
            case PoolResumed(pool):
                log.warning("seq=%d pool=%s its controller works again", decided.seq, pool)
            case WriteWeights(weights, forget, cause):
                log.info("seq=%d writing queue weights set=%s reset=%s: %s", decided.seq, dict(weights), list(forget),
                         text(cause))  # fmt: skip
                self._actor.carry_out(command)
            case SignalContainers(app, containers, cause):
                log.warning("seq=%d app=%s killing %s (%s): %s", decided.seq, app,
                            count(len(containers), "container"), ", ".join(containers), text(cause))  # fmt: skip
                self._actor.carry_out(command)
            case Dismiss(app, cause):
                log.info("seq=%d app=%s registration removed: %s", decided.seq, app, text(cause))
            case _:
                self._actor.carry_out(command, decided.at)

    def _solve(self, task: SolveInWorker) -> None:
        """Solve a problem in the worker process of its pool; pools do not wait for each other."""
        if not self._registry.solvers():
            self._emit(Solved(task.pool, task.id, "failed", error="no installed controller has a solver"))
            return
        with self._lock:
            if self._closing:
                # It is issued again after the next start.
                return
            if task.pool not in self._workers:
                self._workers[task.pool] = Worker(
                    self._registry_at, self._registry.tags(), self._emit, self._solve_timeout
                )
            self._workers[task.pool].submit(task.pool, task.id, task.problem)


def _log_shares(decided: Decided[Event, Command]) -> None:
    shares = [command for command in decided.commands if isinstance(command, TellShare)]
    for app, share in ((one.app, one.share) for one in shares[:MAX_LOGGED_SHARES]):
        log.info("seq=%d app=%s share sent: guarantee=%.1f%% entitlement=%.1f%% effective_in=%.1fs: %s", decided.seq,
                 app, 100 * share.grant.guarantee_fraction, 100 * share.grant.entitlement_fraction,
                 max(share.effective_at - decided.at, 0.0), text(share.cause))  # fmt: skip
    if len(shares) > MAX_LOGGED_SHARES:
        log.info("seq=%d shares of %d more applications sent, not listed: %s", decided.seq,
                 len(shares) - MAX_LOGGED_SHARES, text(shares[-1].share.cause))  # fmt: skip
