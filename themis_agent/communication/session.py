"""The planned communication of one process: its enforcer, its part in agreeing on plans, and in rank 0 the planner."""

import atexit
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.optim.optimizer import register_optimizer_step_post_hook

from themis_agent.communication.capture import Seen, typical, waits
from themis_agent.communication.commit import BUSY_S, IDLE_S, Coordinator, Participant
from themis_agent.communication.costs import CostTable
from themis_agent.communication.enforcer import Enforcer
from themis_agent.communication.errors import DifferentOperationsError, PlanError
from themis_agent.communication.feedback import Advice, Feedback
from themis_agent.communication.formats import Trace, dump, load, parse, save
from themis_agent.communication.measuring import QUICK_REPEATS, QUICK_SIZES, measure
from themis_agent.communication.plan import Plan, check
from themis_agent.communication.process_group import BACKEND, Connections, PlannedGroup
from themis_agent.communication.settings import MODE, Mode, Settings
from yarn_plugin.errors import BadInputError, ReportedError

_log = logging.getLogger(__name__)

TRACED = 64
"""Iterations that are kept, the latest."""

SEARCH_TIMEOUT_S = 60.0


class TorchStore:
    """Plans in torch's store, through a separate client: blocked calls of others do not hold it up."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: str) -> None:
        """Set a value."""
        self._store.set(key, value)

    def get(self, key: str) -> str | None:
        """The value; None: there is none."""
        return str(self._store.get(key), "utf-8") if self._store.check([key]) else None

    def set_first(self, key: str, value: str) -> str:
        """Set the value if there is none; return the one that is there then."""
        return str(self._store.compare_set(key, "", value), "utf-8")


class Session:
    """From the first group of a process to the destruction of the groups."""

    def __init__(self, settings: Settings, store: Any, rank: int, size: int) -> None:
        self._settings, self._rank, self._size = settings, rank, size
        self._connections: list[Connections] = []
        self._seen: deque[Seen] = deque(maxlen=TRACED)
        self._seen_lock = threading.Lock()
        self.costs: CostTable | None = load(CostTable, settings.costs) if settings.costs else None
        seconds = settings.timeout.total_seconds()
        self._participant = Participant(TorchStore(_client(store)), rank, seconds, self._check)
        self.enforcer = Enforcer(len(settings.channels), self._participant, seconds, self._observe, self._abandon)
        self._feedback = Feedback()
        self._ended = threading.Event()
        self._latest: Plan | None = None
        self._threads: list[threading.Thread] = []
        if settings.mode is Mode.PLANNED:
            self._start(self._agree, "communication plans")
            if rank == 0:
                self._coordinator = Coordinator(TorchStore(_client(store)), size, min(seconds, 30.0), self._ended.wait)
                self._start(self._plan, "communication planner")
        # An iteration ends with the step of an optimizer, the first that is seen.
        self._optimizer: Any = None
        # Before the interpreter ends: then gloo's threads can no longer call us.
        atexit.register(self.close)
        self._hook = register_optimizer_step_post_hook(lambda optimizer, *_: self._stepped(optimizer))

    def group(self, store: Any, rank: int, size: int) -> PlannedGroup:
        """The next group of this process."""
        settings = self._settings
        connections = Connections(store, rank, size, settings.timeout, settings.channels)
        if not self._connections and self.costs is None and settings.mode is Mode.PLANNED:
            self.costs = measure(connections, settings.channel_names, QUICK_SIZES, QUICK_REPEATS)
        self._connections.append(connections)
        return PlannedGroup(self.enforcer, connections, len(self._connections) - 1, self.close)

    def iteration_done(self) -> None:
        """The program has ended an iteration."""
        self.enforcer.next_iteration()

    def close(self) -> None:
        """End, and write the trace. Idempotent."""
        if self._ended.is_set():
            return
        self._ended.set()
        atexit.unregister(self.close)
        self._hook.remove()
        self.enforcer.close()
        for connections in self._connections:
            connections.abandon()
        for thread in self._threads:
            thread.join()
        if self._settings.folder is not None:
            save(self.trace(), self._settings.folder / f"rank-{self._rank}.json")

    def trace(self) -> Trace:
        """What this process has seen."""
        with self._seen_lock:
            return Trace(
                rank=self._rank, ranks=self._size, iterations=list(self._seen), costs=self.costs, plan=self._latest
            )

    def _start(self, run: Any, name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _stepped(self, optimizer: Any) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is self._optimizer and not self._ended.is_set():
            self.iteration_done()

    def _observe(self, seen: Seen) -> None:
        with self._seen_lock:
            self._seen.append(seen)
        self._feedback.note(seen)

    def _abandon(self, error: BaseException) -> None:
        # All find out on their own that operations differ, from the same exchange, unless it is cut off.
        checks = not isinstance(error, DifferentOperationsError)
        for connections in self._connections:
            connections.abandon(checks)

    def _check(self, plan: Plan) -> None:
        """Whether this process can execute a plan.

        Raises:
            PlanError: it cannot.
        """
        channels = len(self._settings.channels)
        if len(plan.turns) != channels:
            raise PlanError(f"plan: for {len(plan.turns)} channels; this job has {channels}")
        with self._seen_lock:
            same = [one for one in self._seen if one.operations == plan.operations]
        check(plan, waits(same))
        self._latest = plan

    def _agree(self) -> None:
        while not self._ended.is_set():
            try:
                busy = self._participant.poll()
            except RuntimeError as problem:
                if not self._ended.is_set():
                    self._participant.lose(str(problem))
                return
            self._ended.wait(BUSY_S if busy else IDLE_S)

    def _plan(self) -> None:
        """Rank 0: propose the plan that was given, or make one; again when the feedback asks for it."""
        made = 0
        given = load(Plan, self._settings.plan) if self._settings.plan else None
        while not self._ended.wait(IDLE_S):
            advice = self._feedback.advice()
            if advice is Advice.WAIT:
                continue
            try:
                plan = None if advice is Advice.IN_ORDER else given or self._search(made)
                decision = self._coordinator.propose(plan)
            except (ReportedError, OSError, subprocess.SubprocessError) as problem:
                _log.warning("communication is not planned: %s", problem)
                return
            except RuntimeError:
                # The store is away: the job is ending.
                return
            made += 1
            self._feedback.proposed(made)
            outcome = f"from iteration {decision.at} on" if decision.at is not None else f"refused: {decision.reason}"
            _log.info("communication plan %d, %s: %s", made, advice, outcome)

    def _search(self, made: int) -> Plan:
        """Search in a process of its own, which does not hold up the program.

        Raises:
            ReportedError: there is no plan.
        """
        trace = self.trace()
        trace.iterations = typical(trace.iterations)
        command = [sys.executable, "-m", "themis_agent.communication.optimiser", str(made)]
        ended = subprocess.run(command, input=dump(trace), capture_output=True, text=True, timeout=SEARCH_TIMEOUT_S)
        if ended.returncode:
            raise PlanError(f"the optimiser failed: {' '.join(ended.stderr.split())[-300:]}")
        return parse(Plan, ended.stdout, "optimiser")


def _client(store: Any) -> Any:
    return PrefixStore("themis-communication", store.clone())


_session: Session | None = None


def init_process_group(backend: str | None = None, **options: Any) -> None:
    """As `torch.distributed.init_process_group`, which it calls; with communication planned or traced if
    THEMIS_COMMUNICATION says so (docs/communication.md). Then the processes have to meet as the environment says
    (`torchrun`, or a trial), and `backend` has to be gloo.

    Raises:
        BadInputError: a variable of the environment is invalid.
    """
    settings = Settings.from_environment()
    if settings.mode is Mode.PLAIN:
        dist.init_process_group(backend, **options)
        return
    if backend not in (None, "gloo", "cpu:gloo"):
        raise BadInputError("backend", backend, f"must be gloo, as {MODE} is {settings.mode}")
    if BACKEND.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(BACKEND, _group, devices=["cpu"])
    dist.init_process_group(BACKEND, timeout=settings.timeout, **options)


def iteration_done() -> None:
    """Mark the end of an iteration, in a program without a torch optimizer."""
    if _session is not None:
        _session.iteration_done()


def _group(store: Any, rank: int, size: int, timeout: Any) -> PlannedGroup:
    global _session
    if _session is None or _session.enforcer.closed:
        settings = Settings.from_environment()
        _session = Session(settings, store, int(os.environ.get("RANK", rank)), int(os.environ.get("WORLD_SIZE", size)))
    return _session.group(store, rank, size)
