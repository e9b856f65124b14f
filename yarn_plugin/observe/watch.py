"""Watches the ResourceManager: cheap figures often, details when those have moved."""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

from yarn_plugin.decide.events import Event, ManagerLost, ManagerReached
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.observe import translate
from yarn_plugin.observe.capabilities import find_out
from yarn_plugin.observe.changes import apps_changed, nodes_changed, queues_changed
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, NotAManagerError, ResourceManager

log = logging.getLogger("yarn_plugin.arbiter")

UNFINISHED = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
LEFT_OUT = "resourceRequests,timeouts,appNodeLabelExpression,amNodeLabelExpression"
MOVING = (
    "appsSubmitted", "appsCompleted", "appsFailed", "appsKilled", "appsPending", "appsRunning", "containersAllocated",
    "containersPending", "allocatedMB", "allocatedVirtualCores", "pendingMB", "pendingVirtualCores", "activeNodes",
    "lostNodes", "unhealthyNodes", "decommissionedNodes", "totalMB", "totalVirtualCores",
)  # fmt: skip
NODE_FIGURES = MOVING[12:]


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds between looks: at the figures, and (though nothing moved) at applications, nodes and queues."""

    figures: float = 0.4
    apps: float = 5.0
    nodes: float = 20.0
    queues: float = 60.0
    reported_again: float = 60.0


class Taker(Protocol):
    """Takes events in, and shows what is known of the cluster."""

    def known(self) -> ClusterView:
        """The cluster as known after all events taken so far."""
        ...

    def take(self, event: Event) -> Any:
        """Take an event in, and wait until it is decided on."""
        ...


class Watch:
    """Looks at one ResourceManager in a thread of its own and hands on what changed.

    `queues`: the paths of the queues that matter. The first look happens in `start`, and raises what it meets, unless
    `patient`.
    """

    def __init__(self, manager: ResourceManager, taker: Taker, queues: set[str], rhythm: Rhythm) -> None:
        self._manager, self._taker, self._queues, self._rhythm = manager, taker, queues, rhythm
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._looks = 0
        self._reached = False
        self._reached_at = ""
        self._told_lost = False
        self._started_at = 0.0
        self._restarted = -1e9
        self._figures: dict[str, Any] = {}
        self._due: dict[str, float] = {}
        self._lock = threading.Lock()

    def start(self, patient: bool) -> None:
        """Begin to watch.

        Raises:
            ManagerError: there is no ResourceManager at this address (and the caller is not patient).
        """
        try:
            self._look()
        except ManagerError as problem:
            if not patient:
                raise
            self._lose(problem)
        self._thread.start()

    def look(self, seconds: float = 3.0) -> None:
        """Look now, at applications at least, and return when that was taken in (or after so long)."""
        with self._lock:
            before = self._looks
            self._due.clear()
        self._wake.set()
        deadline = time.monotonic() + seconds
        while self._looks == before and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        """Watch no more; a look that has begun is waited for, a little."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            self._wake.wait(self._rhythm.figures)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self._look()
            except ManagerError as problem:
                self._lose(problem)
            except (LookupError, TypeError, ValueError, AttributeError) as problem:
                # What answers speaks JSON, and not a ResourceManager's: it may be one again at the next look.
                log.exception("answer of %s", self._manager.url)
                self._lose(NotAManagerError(f"ResourceManager {self._manager.url}: {type(problem).__name__} {problem}"))

    def _look(self) -> None:
        if not self._reached:
            self._reach()
        figures = translate.metrics(self._manager.get("/metrics"))
        if self._manager.url != self._reached_at:
            # Of an HA pair the other one has become active, without a moment in which nobody answered.
            self._reach()
        moved = {name for name in MOVING if figures.get(name) != self._figures.get(name)}
        now = time.monotonic()
        if moved & set(NODE_FIGURES) or self._is_due("nodes", self._rhythm.nodes):
            seen = translate.nodes(self._manager.get("/nodes", states="RUNNING"))
            self._hand_on(nodes_changed(self._taker.known(), seen, now < self._restarted + self._rhythm.reported_again))
        if self._is_due("queues", self._rhythm.queues):
            queues = translate.queues(self._manager.get("/scheduler"))
            kept = {path: queue for path, queue in queues.items() if path in self._queues}
            self._hand_on(queues_changed(self._taker.known(), kept))
        if moved or self._is_due("apps", self._rhythm.apps):
            apps = translate.apps(self._manager.get("/apps", states=UNFINISHED, deSelects=LEFT_OUT))
            self._hand_on(apps_changed(self._taker.known(), apps))
        self._figures = figures
        with self._lock:
            self._looks += 1

    def _is_due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        with self._lock:
            if now < self._due.get(what, 0.0):
                return False
            self._due[what] = now + every
            return True

    def _reach(self) -> None:
        facts = find_out(self._manager)
        if facts.state != "ACTIVE":
            raise ManagerAwayError(f"ResourceManager {facts.url}: it is {facts.state.lower()}")
        if self._started_at and facts.started_at != self._started_at:
            # Its nodes report again one by one; until then it is no news that it does not know them.
            self._restarted = time.monotonic()
        self._started_at = facts.started_at
        self._figures = {}
        with self._lock:
            self._due.clear()
        self._reached, self._told_lost, self._reached_at = True, False, facts.url
        self._hand_on([ManagerReached(facts.url, facts.capabilities())])

    def _lose(self, problem: ManagerError) -> None:
        self._reached = False
        if not self._told_lost:
            self._told_lost = True
            self._hand_on([ManagerLost(str(problem))])

    def _hand_on(self, events: list[Event]) -> None:
        for event in events:
            self._taker.take(event)
