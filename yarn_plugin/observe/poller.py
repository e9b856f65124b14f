"""Polls the ResourceManager: cluster metrics often, lists only when the metrics have changed."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yarn_plugin.decide.events import Looked, ManagerLost, ManagerReached, NodeUseChanged, PartitionsChanged
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.model.resources import GPU
from yarn_plugin.observe import translate
from yarn_plugin.observe.answers import ParsedItems
from yarn_plugin.observe.capabilities import ManagerFacts, probe
from yarn_plugin.observe.changes import Unconfirmed, changed_items, confirm_gone, is_awaiting_nodes, newly_broken
from yarn_plugin.observe.delivery import Delivery, EventSink, Stopped
from yarn_plugin.observe.nodes import ParsedNodes
from yarn_plugin.observe.polled_lists import POLLED_LISTS, PolledList, PollIntervals
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager

__all__ = ["EventSink", "PollIntervals", "Poller", "Stopped"]

log = logging.getLogger("yarn_plugin.arbiter")

MAX_BACKOFF = 5.0
"""Seconds, at most, between two polls after unexpected errors."""

MAX_LOGGED_ITEMS = 20
"""How many unreadable items of one answer are logged."""


class _AnotherManagerError(ManagerAwayError):
    """The ResourceManager has restarted, or the other one of an HA pair has become active."""


class Poller:
    """Polls one ResourceManager in its own thread and delivers what has changed.

    `queues`: the paths of the queues to report. `watches_nodes`: also report what is used of each node
    with GPUs. The first poll runs in `start` and raises its errors, unless `patient`.
    `last_poll`: monotonic time of the last complete poll, None before the first. `counters`: failures by name, never
    reset.
    """

    def __init__(
        self,
        manager: ResourceManager,
        sink: EventSink,
        queues: set[str],
        intervals: PollIntervals,
        watches_nodes: bool = False,
    ) -> None:
        self._manager, self._sink, self._queues, self._intervals = manager, sink, queues, intervals
        self._watches_nodes = watches_nodes
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="poll", daemon=True)
        self.counters: Counter[str] = Counter(
            looks_failed=0, items_unreadable=0, observations_refused=0, mass_disappearances=0
        )
        self._delivery = Delivery(sink, self.counters)
        self.last_poll: float | None = None
        self._polls = 0
        self._reached = False
        self._reached_at = ""
        self._reported_lost = False
        self._reported_complete = False
        self._to_announce: ManagerReached | None = None
        self._writable: bool | None = None
        self._started_at = 0.0
        self._restarted = -1e9
        self._registered: set[str] = set()
        self._metrics: dict[str, Any] = {}
        self._polled_at: dict[str, float] = {}
        self._unconfirmed: dict[str, Unconfirmed] = {}
        self._unreadable: dict[str, frozenset[tuple[str, str]]] = {}
        self._apps = translate.remembered_apps()
        self._lock = threading.Lock()
        self._poll_requested = False
        self._failures = 0

    def start(self, patient: bool) -> None:
        """Start to poll.

        Raises:
            ManagerError: there is no ResourceManager at this address, unless `patient`.
            JournalUnavailableError: nothing can be recorded.
        """
        try:
            self._poll()
        except ManagerError as problem:
            if not patient:
                raise
            self._lose(problem)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it polls: from `start` until `close` or the end of the arbiter."""
        return self._thread.is_alive()

    def poll_now(self, seconds: float = 3.0) -> None:
        """Poll now, at least the applications; return when the result was delivered, or after this many seconds."""
        with self._lock:
            before, self._poll_requested = self._polls, True
        self._wake.set()
        deadline = time.monotonic() + seconds
        while self._polls == before and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        """Stop; wait a few seconds for a running poll."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._pause())
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self._poll_safely()
            except Stopped:
                return
            except Exception:
                # Without this thread the arbiter would be blind.
                self._failures += 1
                self.counters["looks_failed"] += 1
                log.exception("internal error while polling %s; trying again. Report this error", self._manager.url)

    def _pause(self) -> float:
        """Seconds until the next poll."""
        if self._failures:
            return min(MAX_BACKOFF, self._intervals.metrics * 2.0 ** min(self._failures, 10))
        pauses = [self._intervals.metrics]
        for unconfirmed in self._unconfirmed.values():
            if unconfirmed.missing:
                pauses.append(max(unconfirmed.since + self._intervals.confirm_delay - time.monotonic(), 0.0))
        return min(pauses)

    def _poll_safely(self) -> None:
        """Poll; count and report a ResourceManager that does not answer, or a journal that is not writable."""
        try:
            try:
                self._poll()
            except ManagerError as problem:
                self.counters["looks_failed"] += 1
                self._lose(problem)
        except JournalUnavailableError as problem:
            # Nothing was recorded, so the next poll finds the same changes.
            self.counters["looks_failed"] += 1
            self._failures += 1
            log.warning(
                "the journal is not writable, so changes at %s are not processed until it is: %s",
                self._manager.url,
                problem,
            )
        else:
            self._failures = 0

    def _poll(self) -> None:
        try:
            self._poll_once()
        except _AnotherManagerError as change:
            log.info("%s; reading the whole cluster again", change)
            self._reached = False
            self._poll_once()

    def _poll_once(self) -> None:
        if not self._reached:
            self._reach()
        with self._lock:
            requested, self._poll_requested = self._poll_requested, False
        try:
            self._poll_what_is_due(requested)
        except BaseException:
            with self._lock:
                self._poll_requested = self._poll_requested or requested
            raise
        with self._lock:
            self._polls += 1

    def _poll_what_is_due(self, requested: bool) -> None:
        metrics = translate.metrics(self._manager.get("/metrics"))
        self._check_same_address()
        changed = {name for name in translate.METRICS if metrics[name] != self._metrics.get(name)}
        due = [
            one
            for one in POLLED_LISTS
            if one.triggers & changed
            or self._is_due(one)
            or (requested and one.triggers)
            or (self._watches_nodes and one.name == "nodes" and changed)
        ]
        answers = [(one, self._parse(one)) for one in due]
        if due:
            # A ResourceManager that starts, or has become standby, answers as if its cluster were empty. Its answers
            # count only if it says afterwards that it is active, and still the same.
            self._check_still_active()
        self._announce()
        for one, parsed in answers:
            self._deliver_changes(one, parsed)
        for _, parsed in answers:
            # After the applications, so that a task which has ended is not taken for somebody else's.
            if isinstance(parsed, ParsedNodes) and self._watches_nodes:
                self._deliver_use(parsed)
        self._metrics = metrics
        self.last_poll = time.monotonic()
        if not self._reported_complete and not any(one.missing for one in self._unconfirmed.values()):
            self._delivery.deliver(Looked())
            self._reported_complete = True

    def _parse(self, polled: PolledList) -> ParsedItems[Any]:
        answer = self._manager.get(polled.path, **polled.parameters)
        return translate.apps(answer, self._apps) if polled.name == "apps" else polled.parse(answer)

    def _is_due(self, polled: PolledList) -> bool:
        now = time.monotonic()
        unconfirmed = self._unconfirmed.get(polled.name, Unconfirmed())
        if unconfirmed.missing and now >= unconfirmed.since + self._intervals.confirm_delay:
            return True
        return now >= self._polled_at.get(polled.name, -1e9) + polled.interval(self._intervals)

    def _check_same_address(self) -> None:
        if self._manager.url != self._reached_at:
            raise _AnotherManagerError(f"ResourceManager {self._manager.url}: it has become active")

    def _check_still_active(self) -> None:
        info = translate.info(self._manager.get("/info"))
        self._check_same_address()
        _require_active(self._manager.url, info.get("haState", "ACTIVE"))
        if info.get("startedOn", 0) / 1000.0 != self._started_at:
            raise _AnotherManagerError(f"ResourceManager {self._manager.url}: it has restarted")

    def _reach(self) -> None:
        facts = probe(self._manager)
        _require_active(facts.url, facts.state)
        self._note_restart(facts)
        self._metrics, self._polled_at, self._unconfirmed = {}, {}, {}
        if facts.unread:
            log.warning("shares may not be enforced: cannot tell whether queue weights are writable: %s", facts.unread)
        capabilities = facts.capabilities()
        if facts.unread and self._writable is not None:
            capabilities = replace(capabilities, writable=self._writable)
        self._writable = capabilities.writable
        self._to_announce = ManagerReached(facts.url, capabilities)
        self._reached, self._reported_complete, self._reached_at = True, False, facts.url

    def _announce(self) -> None:
        """Report that the ResourceManager is reached, once it has answered all requests of a poll.

        One that answers only some requests would otherwise be reported as lost and reached at every poll.
        """
        if self._to_announce is not None:
            self._delivery.deliver(self._to_announce)
            self._to_announce, self._reported_lost = None, False

    def _note_restart(self, facts: ManagerFacts) -> None:
        """Nodes register one by one with a ResourceManager that has just become active; until then none is missing."""
        now = time.monotonic()
        if self._started_at and (facts.started_at != self._started_at or self._manager.is_pair):
            self._restarted, self._registered = now, set()
        elif facts.age is not None and facts.age < self._intervals.reregister_timeout:
            self._restarted = max(self._restarted, now - max(facts.age, 0.0))
        self._started_at = facts.started_at

    def _unregistered_nodes(self) -> set[str]:
        """The known nodes that may still register after a restart of the ResourceManager."""
        if time.monotonic() >= self._restarted + self._intervals.reregister_timeout:
            return set()
        return self._sink.known().nodes.keys() - self._registered

    def _lose(self, problem: ManagerError) -> None:
        self._reached = False
        if not self._reported_lost:
            log.warning("the ResourceManager cannot be polled; shares stay as they are until it answers: %s", problem)
            self._delivery.deliver(ManagerLost(str(problem)))
            self._reported_lost = True

    def _deliver_changes(self, polled: PolledList, parsed: ParsedItems[Any]) -> None:
        """Deliver the difference between the known and the polled items, as far as it is confirmed."""
        self._note_unreadable(polled, parsed)
        cluster = self._sink.known()
        known = polled.known(cluster)
        gone = self._gone(polled, known, parsed)
        present = changed_items(known, self._relevant(polled, parsed, cluster))
        names = known.keys() | parsed.keys() | parsed.unreadable.keys()
        removed = [name for name in known if name in gone]
        if isinstance(parsed, ParsedNodes):
            self._deliver_partitions(parsed)
            names |= cluster.broken.keys() | parsed.broken.keys()
            present |= newly_broken(cluster, parsed.broken, gone)
            removed += _unlisted_broken(cluster, parsed)
        self._delivery.retain_refusals(polled, names)
        self._delivery.deliver_changes(polled, present, removed)
        self._polled_at[polled.name] = time.monotonic()

    def _deliver_partitions(self, parsed: ParsedNodes) -> None:
        """Before the nodes, so that a new one counts in no pool that cannot use it."""
        cluster = self._sink.known()
        unlisted = {
            node: label for node, label in cluster.partitions.items() if node in cluster.nodes and node not in parsed
        }
        partitions = {**unlisted, **parsed.partitions}
        if partitions != cluster.partitions:
            self._delivery.deliver(PartitionsChanged(tuple(sorted(partitions.items()))))

    def _deliver_use(self, parsed: ParsedNodes) -> None:
        cluster = self._sink.known()
        with_gpus = {name: used for name, used in parsed.used.items() if name in parsed and parsed[name].capacity[GPU]}
        changed = changed_items(cluster.node_used, with_gpus)
        known = tuple((name, used) for name, used in changed.items() if name in cluster.nodes)
        if known:
            self._delivery.deliver(NodeUseChanged(known))

    def _relevant(self, polled: PolledList, parsed: ParsedItems[Any], cluster: ClusterView) -> Mapping[str, Any]:
        if polled.name == "queues":
            return {path: queue for path, queue in parsed.items() if path in self._queues}
        if polled.name == "apps" and self._unregistered_nodes():
            return {name: app for name, app in parsed.items() if not is_awaiting_nodes(cluster, app)}
        return parsed

    def _gone(self, polled: PolledList, known: Mapping[str, Any], parsed: ParsedItems[Any]) -> frozenset[str]:
        name = polled.name
        missing = [key for key in known if key not in parsed and key not in parsed.unreadable]
        if parsed.without_id:
            # An item without an id may be any of the missing ones.
            missing = []
        if name == "nodes":
            self._registered |= parsed.keys()
            unregistered = self._unregistered_nodes()
            missing = [node for node in missing if node not in unregistered]
        before = self._unconfirmed.get(name, Unconfirmed())
        confirm_all = name == "apps" and bool(self._unregistered_nodes())
        gone, unconfirmed = confirm_gone(
            known.keys(), missing, before, time.monotonic(), self._intervals.confirm_delay, confirm_all
        )
        self._unconfirmed[name] = unconfirmed
        if unconfirmed.missing and unconfirmed.since != before.since:
            self.counters["mass_disappearances"] += 1
            log.warning(
                "%d of %d known %s are missing from the ResourceManager's answer; they count as gone once another poll "
                "confirms it",
                len(unconfirmed.missing),
                len(known),
                name,
            )
        return gone

    def _note_unreadable(self, polled: PolledList, parsed: ParsedItems[Any]) -> None:
        """Count and log unreadable items, each once as long as its error stays the same."""
        found = frozenset(parsed.unreadable.items()) | {("", reason) for reason in parsed.without_id}
        new = sorted(found - self._unreadable.get(polled.name, frozenset()))
        self._unreadable[polled.name] = found
        self.counters["items_unreadable"] += len(new)
        for name, reason in new[:MAX_LOGGED_ITEMS]:
            log.warning(
                "%s: %s cannot be read and is ignored: %s", polled.path, name or "an item without an id", reason
            )


def _unlisted_broken(known: ClusterView, parsed: ParsedNodes) -> list[str]:
    """The broken nodes that are no longer listed in any state."""
    if parsed.without_id:
        return []
    listed = parsed.keys() | parsed.broken.keys() | parsed.unreadable.keys()
    return [name for name in known.broken if name not in listed]


def _require_active(url: str, state: str) -> None:
    if state != "ACTIVE":
        raise ManagerAwayError(f"ResourceManager {url}: it is {state.lower()[:40]}")
