"""An application's share of the cluster: one registration, whose slots are divided among the statements that run."""

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from qoop.replan.events import ArbiterAway, Event, ShareChanged
from qoop.run.query_run import Feed
from qoop.run.wording import in_slots

CHECK_S = 0.3
"""Seconds between checks whether executors have gone."""

SETTLE_S = 1.0
"""Seconds between changes of a statement's part. Others that end sooner do not count, or plans would change often."""

CHANGED_PART = 0.25
"""By what part of itself a statement's part must change before it is told."""


UNKNOWN = "share: not known yet"


class Holder(Protocol):
    """Keeps the application within its share."""

    def set_executors(self, target: int, by: float) -> None:
        """Request or decommission executors; surplus ones must have gone at `by` (seconds since the epoch)."""
        ...

    def executors(self) -> int:
        """How many there are."""
        ...


class Part:
    """A statement that runs, and the feed of its part of the share. Thread-safe.

    Args:
        tell: takes a line for its log.
        session: whose statement it is.
        started_at: by the clock of `Shares`.
    """

    def __init__(self, tell: Callable[[str], None], session: Hashable, started_at: float) -> None:
        self.tell, self.session, self.started_at = tell, session, started_at
        self._lock = threading.Lock()
        self._emit: Callable[[Event], None] | None = None
        self._part: ShareChanged | None = None

    @property
    def slots(self) -> float | None:
        """Its part in slots; None before the share is known."""
        return None if self._part is None else self._part.slots

    def divide(self, share: ShareChanged, running: "Collection[Part]", is_news: bool) -> None:
        """Its part of a share that it divides with others: sessions have equal parts, and so have those of a session.

        Args:
            running: the statements that count, itself among them.
            is_news: tell it even if it is as before.
        """
        sessions, own = len({part.session for part in running}), sum(part.session == self.session for part in running)
        slots = min(max(share.slots / (sessions * own), 1.0), share.slots)
        with self._lock:
            before = self.slots
            if not is_news and before is not None and abs(slots - before) <= CHANGED_PART * before:
                return
            among = _among(slots, len(running), sessions)
            self._part = replace(share, slots=slots, executors=None, seq=None, reason=share.reason + among)
            emit, part = self._emit, self._part
        self.tell(_described(share) + among)
        if emit is not None:
            emit(part)

    def start(self, emit: Callable[[Event], None]) -> None:
        """Emit its part, and each change."""
        with self._lock:
            self._emit, part = emit, self._part
        if part is not None:
            emit(part)

    def close(self) -> None:
        """Emit no more."""
        self._emit = None


class Shares:
    """The share that a feed tells, divided among the statements that run. Thread-safe.

    Statements do not hold it themselves: executors are the application's.

    Args:
        holder: keeps the application within it; None where executors cannot be changed.
        confirm: tells the arbiter that the application holds no more than a share, by its number.
        is_fixed: the share never changes.
        clock: seconds.
    """

    def __init__(
        self,
        feed: Feed,
        holder: Holder | None,
        confirm: Callable[[int], None] = lambda seq: None,
        is_fixed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._feed, self._holder, self._confirm, self._clock = feed, holder, confirm, clock
        self.is_fixed = is_fixed
        self._changed = threading.Condition()
        self._latest: ShareChanged | None = None
        self._running: list[Part] = []
        self._tellers: list[Callable[[str], None]] = []
        self._closed = False

    def start(self) -> None:
        """Follow the share."""
        if self._holder is not None:
            threading.Thread(target=self._confirm_shares, args=(self._holder,), name="confirm", daemon=True).start()
        threading.Thread(target=self._divide_often, name="divide", daemon=True).start()
        self._feed.start(self._take)

    def close(self) -> None:
        """Follow it no more."""
        self._feed.close()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @contextmanager
    def telling(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Within this context, call `tell` with a line about the share and each of its changes, with the reason."""
        with self._changed:
            self._tellers.append(tell)
        tell(self.described)
        try:
            yield
        finally:
            with self._changed:
                self._tellers.remove(tell)

    @contextmanager
    def statement(self, tell: Callable[[str], None], session: Hashable) -> Iterator[Part]:
        """Within this context a statement of a session runs, and has a part of the share. `tell`: as of `telling`."""
        part = Part(tell, session, self._clock())
        with self._changed:
            self._running.append(part)
            latest, running = self._latest, list(self._running)
            self._changed.notify_all()
        if latest is None:
            tell(UNKNOWN)
        else:
            part.divide(latest, running, is_news=True)
        try:
            yield part
        finally:
            with self._changed:
                self._running.remove(part)

    @property
    def described(self) -> str:
        """The share and the reason for it, in a line."""
        latest = self._latest
        return UNKNOWN if latest is None else _described(latest)

    @property
    def slots(self) -> float | None:
        """The slots of the share; None before it is known."""
        latest = self._latest
        return None if latest is None else latest.slots

    def feed(self) -> Feed:
        """A source of the share for a statement that runs alone, and whose log is not that of a client."""
        return _Alone(self)

    def divide(self, is_news: bool = False) -> None:
        """Divide the share among the statements that run, each with those that have run for a while."""
        latest, running = self._latest, self._parts()
        if latest is None:
            return
        settled = {part for part in running if self._clock() - part.started_at >= SETTLE_S}
        for part in running:
            part.divide(latest, settled | {part}, is_news)

    def _parts(self) -> list[Part]:
        with self._changed:
            return list(self._running)

    def _divide_often(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._running)
                if self._changed.wait_for(lambda: self._closed, timeout=SETTLE_S):
                    return
            self.divide()

    def _take(self, event: Event) -> None:
        if isinstance(event, ArbiterAway):
            line = f"{event.reason}; the last known share stays in effect"
            self._tell(line)
            for part in self._parts():
                part.tell(line)
        if not isinstance(event, ShareChanged):
            return
        with self._changed:
            self._latest = event
            self._changed.notify_all()
        self._tell(_described(event))
        if self._holder is not None and event.executors is not None:
            self._holder.set_executors(event.executors, event.effective_at)
        self.divide(is_news=True)

    def _tell(self, line: str) -> None:
        with self._changed:
            tellers = list(self._tellers)
        for tell in tellers:
            tell(line)

    def _confirm_shares(self, holder: Holder) -> None:
        """Confirm each share once the executors are within it."""
        confirmed: int | None = None
        while (share := self._next(confirmed)) is not None:
            assert share.seq is not None
            try:
                is_within = share.executors is None or holder.executors() <= share.executors
            except Exception:  # noqa: BLE001 - Spark does not answer now
                is_within = False
            if is_within:
                self._confirm(share.seq)
                confirmed = share.seq
            else:
                time.sleep(CHECK_S)

    def _next(self, confirmed: int | None) -> ShareChanged | None:
        """The share to confirm next; None once this is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._number() not in (None, confirmed))
            return None if self._closed else self._latest

    def _number(self) -> int | None:
        return None if self._latest is None else self._latest.seq


class _Alone:
    """The feed of a statement, which runs from its start until it is closed."""

    def __init__(self, shares: Shares) -> None:
        self._shares, self._running = shares, ExitStack()

    def start(self, emit: Callable[[Event], None]) -> None:
        self._running.enter_context(self._shares.statement(lambda line: None, session=self)).start(emit)

    def close(self) -> None:
        self._running.close()


def _described(share: ShareChanged) -> str:
    return f"share: {in_slots(share.slots)}; {share.reason}"


def _among(slots: float, running: int, sessions: int) -> str:
    """Why a statement has a part of the share only; empty if it has all of it."""
    if running == 1:
        return ""
    where = "" if sessions in (1, running) else f" in {sessions} sessions"
    return f"; {in_slots(slots)} of it for this statement, as {running} run{where}"
