"""Watches the ResourceManager: cheap figures often, details when those have moved."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yarn_plugin.decide.events import Looked, ManagerLost, ManagerReached
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.observe import translate
from yarn_plugin.observe.answers import Reading
from yarn_plugin.observe.capabilities import ManagerFacts, probe
from yarn_plugin.observe.changes import Doubt, confirm_gone, differing, is_out_of_sight, newly_broken
from yarn_plugin.observe.delivery import Delivery, Stopped, Taker
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager
from yarn_plugin.observe.subjects import SUBJECTS, PollIntervals, Subject
from yarn_plugin.observe.translate import NodeReading

__all__ = ["PollIntervals", "Stopped", "Taker", "Watch"]

log = logging.getLogger("yarn_plugin.arbiter")

PAUSE = 5.0
"""Seconds, at most, from a look that failed in an unexpected way to the next."""


class _AnotherManagerError(ManagerAwayError):
    """Who answers now is not who was reached: it has restarted, or the other one of a pair has become active."""


class Watch:
    """Looks at one ResourceManager in a thread of its own and hands on what changed.

    `queues`: the paths of the queues that matter. The first look happens in `start`, and raises what it meets, unless
    `patient`. `last_look` is the monotonic time of the last look that was complete, None before the first. `counters`
    counts by name what went wrong; never reset.
    """

    def __init__(self, manager: ResourceManager, taker: Taker, queues: set[str], intervals: PollIntervals) -> None:
        self._manager, self._taker, self._queues, self._intervals = manager, taker, queues, intervals
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.counters: Counter[str] = Counter(
            looks_failed=0, items_unreadable=0, observations_refused=0, mass_disappearances=0
        )
        self._delivery = Delivery(taker, self.counters)
        self.last_look: float | None = None
        self._looks = 0
        self._reached = False
        self._reached_at = ""
        self._told_lost = False
        self._told_looked = False
        self._to_announce: ManagerReached | None = None
        self._writable: bool | None = None
        self._started_at = 0.0
        self._restarted = -1e9
        self._reported: set[str] = set()
        self._figures: dict[str, Any] = {}
        self._seen_at: dict[str, float] = {}
        self._doubts: dict[str, Doubt] = {}
        self._unreadable: dict[str, frozenset[tuple[str, str]]] = {}
        self._lock = threading.Lock()
        self._asked_to_look = False
        self._failures = 0

    def start(self, patient: bool) -> None:
        """Begin to watch.

        Raises:
            ManagerError: there is no ResourceManager at this address (and the caller is not patient).
            JournalUnavailableError: nothing can be taken in.
        """
        try:
            self._look()
        except ManagerError as problem:
            if not patient:
                raise
            self._lose(problem)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it watches: from `start` to `close`, or the end of the arbiter."""
        return self._thread.is_alive()

    def look(self, seconds: float = 3.0) -> None:
        """Look now, at applications at least, and return when that was taken in (or after so long)."""
        with self._lock:
            before, self._asked_to_look = self._looks, True
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
        while not self._stop.is_set():
            self._wake.wait(self._pause())
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self._try_to_look()
            except Stopped:
                return
            except Exception:
                # Whatever it is, it must not end the watch: nobody would know of anything any more.
                self._failures += 1
                self.counters["looks_failed"] += 1
                log.exception("a look at %s failed", self._manager.url)

    def _pause(self) -> float:
        """Seconds until the next look."""
        if self._failures:
            return min(PAUSE, self._intervals.metrics * 2.0 ** min(self._failures, 10))
        pauses = [self._intervals.metrics]
        for doubt in self._doubts.values():
            if doubt.missing:
                pauses.append(max(doubt.since + self._intervals.confirm_delay - time.monotonic(), 0.0))
        return min(pauses)

    def _try_to_look(self) -> None:
        try:
            try:
                self._look()
            except ManagerError as problem:
                self.counters["looks_failed"] += 1
                self._lose(problem)
        except JournalUnavailableError as problem:
            # Nothing was taken in, so the next look finds the same differences.
            self.counters["looks_failed"] += 1
            self._failures += 1
            log.warning("what was seen of %s is not taken in: %s", self._manager.url, problem)
        else:
            self._failures = 0

    def _look(self) -> None:
        try:
            self._look_once()
        except _AnotherManagerError:
            self._reached = False
            self._look_once()

    def _look_once(self) -> None:
        if not self._reached:
            self._reach()
        with self._lock:
            asked, self._asked_to_look = self._asked_to_look, False
        try:
            self._see_what_is_due(asked)
        except BaseException:
            with self._lock:
                self._asked_to_look = self._asked_to_look or asked
            raise
        with self._lock:
            self._looks += 1

    def _see_what_is_due(self, asked: bool) -> None:
        figures = translate.metrics(self._manager.get("/metrics"))
        self._check_it_is_the_same()
        moved = {name for name in translate.FIGURES if figures[name] != self._figures.get(name)}
        due = [one for one in SUBJECTS if one.moved_by & moved or self._is_due(one) or (asked and one.moved_by)]
        seen = [(subject, subject.read(self._manager.get(subject.path, **subject.asked))) for subject in due]
        if due:
            # While it starts, or after it has lost to the other one, it answers as if its cluster were empty. Only
            # what it said before it says that it is active, and the same as before, is true.
            self._check_it_is_active()
        self._announce()
        for subject, reading in seen:
            self._take_in(subject, reading)
        self._figures = figures
        self.last_look = time.monotonic()
        if not self._told_looked and not any(doubt.missing for doubt in self._doubts.values()):
            self._delivery.hand_on(Looked())
            self._told_looked = True

    def _is_due(self, subject: Subject) -> bool:
        now = time.monotonic()
        doubt = self._doubts.get(subject.name, Doubt())
        if doubt.missing and now >= doubt.since + self._intervals.confirm_delay:
            return True
        return now >= self._seen_at.get(subject.name, -1e9) + subject.every(self._intervals)

    def _check_it_is_the_same(self) -> None:
        if self._manager.url != self._reached_at:
            raise _AnotherManagerError(f"ResourceManager {self._manager.url}: it is another than before")

    def _check_it_is_active(self) -> None:
        said = translate.info(self._manager.get("/info"))
        self._check_it_is_the_same()
        _require_active(self._manager.url, said.get("haState", "ACTIVE"))
        if said.get("startedOn", 0) / 1000.0 != self._started_at:
            raise _AnotherManagerError(f"ResourceManager {self._manager.url}: it has restarted")

    def _reach(self) -> None:
        facts = probe(self._manager)
        _require_active(facts.url, facts.state)
        self._note_restart(facts)
        self._figures, self._seen_at, self._doubts = {}, {}, {}
        if facts.unread:
            log.warning("whether queue weights can be written is not known now: %s", facts.unread)
        allowed = facts.capabilities()
        if facts.unread and self._writable is not None:
            allowed = replace(allowed, writable=self._writable)
        self._writable = allowed.writable
        self._to_announce = ManagerReached(facts.url, allowed)
        self._reached, self._told_looked, self._reached_at = True, False, facts.url

    def _announce(self) -> None:
        """Tell that the manager is reached, once everything that it was then asked was answered as it should be.

        One that answers some questions alone would be told as lost and reached again at every look.
        """
        if self._to_announce is not None:
            self._delivery.hand_on(self._to_announce)
            self._to_announce, self._told_lost = None, False

    def _note_restart(self, facts: ManagerFacts) -> None:
        """To a manager that was not active before, nodes report one by one; until then it is no news that they miss."""
        now = time.monotonic()
        if self._started_at and (facts.started_at != self._started_at or self._manager.is_pair):
            self._restarted, self._reported = now, set()
        elif facts.age is not None and facts.age < self._intervals.reregister_timeout:
            self._restarted = max(self._restarted, now - max(facts.age, 0.0))
        self._started_at = facts.started_at

    def _unreported(self) -> set[str]:
        """The nodes that may only not have reported yet since the manager restarted."""
        if time.monotonic() >= self._restarted + self._intervals.reregister_timeout:
            return set()
        return self._taker.known().nodes.keys() - self._reported

    def _lose(self, problem: ManagerError) -> None:
        self._reached = False
        if not self._told_lost:
            log.warning("%s", problem)
            self._delivery.hand_on(ManagerLost(str(problem)))
            self._told_lost = True

    def _take_in(self, subject: Subject, reading: Reading[Any]) -> None:
        """Hand on the difference between what is known and what was seen, as far as it is to be believed."""
        self._note_unreadable(subject, reading)
        cluster = self._taker.known()
        known = subject.known(cluster)
        gone = self._gone(subject, known, reading)
        present = differing(known, self._worth_knowing(subject, reading, cluster))
        named = known.keys() | reading.keys() | reading.unreadable.keys()
        went = [name for name in known if name in gone]
        if isinstance(reading, NodeReading):
            named |= cluster.broken.keys() | reading.broken.keys()
            present |= newly_broken(cluster, reading.broken, gone)
            went += _listed_no_more(cluster, reading)
        self._delivery.forget_all_but(subject, named)
        self._delivery.hand_on_changes(subject, present, went)
        self._seen_at[subject.name] = time.monotonic()

    def _worth_knowing(self, subject: Subject, reading: Reading[Any], cluster: ClusterView) -> Mapping[str, Any]:
        if subject.name == "queues":
            return {path: queue for path, queue in reading.items() if path in self._queues}
        if subject.name == "apps" and self._unreported():
            return {name: app for name, app in reading.items() if not is_out_of_sight(cluster, app)}
        return reading

    def _gone(self, subject: Subject, known: Mapping[str, Any], reading: Reading[Any]) -> frozenset[str]:
        name = subject.name
        missing = [key for key in known if key not in reading and key not in reading.unreadable]
        if reading.nameless:
            # What has no id may be any of those that are missing.
            missing = []
        if name == "nodes":
            self._reported |= reading.keys()
            unreported = self._unreported()
            missing = [node for node in missing if node not in unreported]
        before = self._doubts.get(name, Doubt())
        wary = name == "apps" and bool(self._unreported())
        gone, doubt = confirm_gone(known.keys(), missing, before, time.monotonic(), self._intervals.confirm_delay, wary)
        self._doubts[name] = doubt
        if doubt.missing and doubt.since != before.since:
            self.counters["mass_disappearances"] += 1
            log.warning("%d of %d %s are missing: looking again before that is believed", len(doubt.missing),
                        len(known), name)  # fmt: skip
        return gone

    def _note_unreadable(self, subject: Subject, reading: Reading[Any]) -> None:
        """Count and log each item that cannot be read once, as long as it stays so."""
        found = frozenset(reading.unreadable.items()) | {("", reason) for reason in reading.nameless}
        new = sorted(found - self._unreadable.get(subject.name, frozenset()))
        self._unreadable[subject.name] = found
        self.counters["items_unreadable"] += len(new)
        for name, reason in new[:20]:
            log.warning("%s of %s cannot be read: %s", name or "an item without an id", subject.path, reason)


def _listed_no_more(known: ClusterView, reading: NodeReading) -> list[str]:
    """The broken nodes that are not listed any more, also not as well."""
    if reading.nameless:
        return []
    listed = reading.keys() | reading.broken.keys() | reading.unreadable.keys()
    return [name for name in known.broken if name not in listed]


def _require_active(url: str, state: str) -> None:
    if state != "ACTIVE":
        raise ManagerAwayError(f"ResourceManager {url}: it is {state.lower()[:40]}")
