"""The arbiter in real time: one loop that takes events in order; every edge in a thread of its own."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from yarn_plugin.act.actor import Actor
from yarn_plugin.decide import commands, events
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.commands import Command, Dismiss, SetTimer, SignalContainers, TellShare, WriteWeights
from yarn_plugin.decide.events import Configured, Event, TimerFired
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided, Intake
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.model.share import Pool
from yarn_plugin.observe import translate
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager
from yarn_plugin.observe.watch import Rhythm, Stopped, Watch

log = logging.getLogger("yarn_plugin.arbiter")

TYPES = (*events.Event.__args__, *commands.Command.__args__)
Taken = Decided[Event, Command]


class Daemon:
    """The arbiter of one ResourceManager (or HA pair).

    Args:
        managers: makes a client of the ResourceManager; each thread has its own.
        state_dir: where the journal is.

    Raises:
        JournalError: the journal is in use or cannot be written.
    """

    def __init__(
        self, managers: Callable[[], ResourceManager], pools: tuple[Pool, ...], rhythm: Rhythm, state_dir: Path
    ) -> None:
        self._pools = pools
        self._journal = RecordFile(state_dir / "journal")
        self._intake: Intake[State, Event, Command] = Intake(step, State(), TYPES, self._journal, time.time)
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[tuple[Event, Future[Taken]] | None] = queue.SimpleQueue()
        self._timer: float | None = None
        self._publish: Callable[[Taken], None] = lambda decided: None
        self._asking = managers()
        self._asking_lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self._watch = Watch(managers(), self, {pool.queue for pool in pools}, rhythm)
        self._actor = Actor(managers(), self.post)
        self.state = self._intake.state
        if self._journal.dropped:
            log.warning("journal: dropped %s", self._journal.dropped)
        if self._intake.different:
            log.warning("journal: %d decisions would now be taken otherwise", self._intake.different)

    @property
    def resumed(self) -> int:
        """How many inputs the journal held at the start."""
        return self._intake.replayed

    def publish_to(self, publish: Callable[[Taken], None]) -> None:
        """Have everything that is decided passed on."""
        self._publish = publish

    def start(self) -> None:
        """Decide, watch and act, until `stop`.

        Raises:
            ManagerError: there is no ResourceManager at its address, and there never was one in this journal.
        """
        knew_manager = self.state.manager_url is not None
        self._thread.start()
        self.take(Configured(self._pools))
        self._watch.start(patient=knew_manager)

    def stop(self) -> None:
        """End: what was taken in is decided and journaled, and nothing else is begun."""
        self._watch.close()
        self._actor.close()
        self._inbox.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        self._intake.close()

    # What the API and the edges use.

    def known(self) -> ClusterView:
        """The cluster as known."""
        return self.state.cluster

    def history(self) -> list[Taken]:
        """The last decided inputs, oldest first."""
        with self._lock:
            return list(self._intake.history)

    def take(self, event: Event) -> Taken:
        """Take an event in and wait until it is decided on.

        Raises:
            Stopped: the arbiter ends.
        """
        return self.post(event).result()

    def post(self, event: Event) -> Future[Taken]:
        """Take an event in, without waiting."""
        decided: Future[Taken] = Future()
        if self._ended.is_set():
            decided.set_exception(Stopped())
        else:
            self._inbox.put((event, decided))
        return decided

    def look(self) -> None:
        """Look at the ResourceManager now."""
        self._watch.look()

    def why_waiting(self, yarn_app: str) -> list[str]:
        """What the ResourceManager says of an application that waits: it collects that for two seconds."""
        path = f"/scheduler/app-activities/{yarn_app}"
        asked = {"maxTime": "3", "groupBy": "diagnostic", "summarize": "true"}
        try:
            with self._asking_lock:
                self._asking.get(path, **asked)
                time.sleep(2)
                said = translate.why_waiting(self._asking.get(path, **asked))
                # On nodes that are wholly taken nothing is even tried, so there is nothing to tell of them.
                return said or translate.diagnostics(self._asking.get(f"/apps/{yarn_app}"))
        except ManagerError as problem:
            return [f"the ResourceManager does not say: {problem}"]

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None:
                self._handle(*item)
        finally:
            self._ended.set()

    def _next(self) -> tuple[Event, Future[Taken]] | None:
        if self._timer is None:
            return self._inbox.get()
        try:
            return self._inbox.get(timeout=max(self._timer - time.time(), 0.0))
        except queue.Empty:
            self._timer = None
            return TimerFired(), Future()

    def _handle(self, event: Event, answer: Future[Taken]) -> None:
        try:
            with self._lock:
                decided = self._intake.take(event)
            self.state = self._intake.state
        except Exception as problem:
            # The journal holds the input: what it would decide follows at the next start.
            log.exception("input %s: the arbiter ends", type(event).__name__)
            answer.set_exception(problem)
            raise
        for command in decided.commands:
            self._carry_out(decided, command)
        self._publish(decided)
        answer.set_result(decided)

    def _carry_out(self, decided: Taken, command: Command) -> None:
        match command:
            case SetTimer(at):
                self._timer = at
            case TellShare(app, share):
                grant = share.grant
                log.info("seq=%d tell app=%s guarantee=%.3f entitlement=%.3f in=%.1fs: %s", decided.seq, app,
                         grant.guarantee_fraction, grant.entitlement_fraction,
                         max(share.effective_at - decided.at, 0.0), share.reason)  # fmt: skip
            case WriteWeights(weights, forget, reason):
                log.info("seq=%d weights %s forget=%s: %s", decided.seq, dict(weights), list(forget), reason)
                self._actor.carry_out(command)
            case SignalContainers(app, containers, reason):
                log.warning("seq=%d signal app=%s containers=%s: %s", decided.seq, app, list(containers), reason)
                self._actor.carry_out(command)
            case Dismiss(app, reason):
                log.info("seq=%d dismiss app=%s: %s", decided.seq, app, reason)
            case _:
                self._actor.carry_out(command)
