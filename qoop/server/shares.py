"""The server's share of the cluster: one registration, which all its statements plan with."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from qoop.replan.events import ArbiterAway, Event, ShareChanged
from qoop.run.query_run import Feed
from qoop.run.wording import in_slots

CHECK_S = 0.3
"""Seconds between checks whether executors have gone."""


class Holder(Protocol):
    """Keeps the application within its share."""

    def set_executors(self, target: int, by: float) -> None:
        """Request or decommission executors; surplus ones must have gone at `by` (seconds since the epoch)."""
        ...

    def executors(self) -> int:
        """How many there are."""
        ...


class Shares:
    """The share that a feed tells, for many statements. Thread-safe.

    Statements do not hold it themselves: executors are the application's.

    Args:
        holder: keeps the application within it; None where executors cannot be changed.
        confirm: tells the arbiter that the application holds no more than a share, by its number.
    """

    def __init__(
        self,
        feed: Feed,
        holder: Holder | None,
        confirm: Callable[[int], None] = lambda seq: None,
    ) -> None:
        self._feed, self._holder, self._confirm = feed, holder, confirm
        self._changed = threading.Condition()
        self._latest: ShareChanged | None = None
        self._listeners: list[Callable[[Event], None]] = []
        self._tellers: list[Callable[[str], None]] = []
        self._closed = False

    def start(self) -> None:
        """Follow the share."""
        if self._holder is not None:
            threading.Thread(target=self._confirm_shares, args=(self._holder,), name="confirm", daemon=True).start()
        self._feed.start(self._take)

    def close(self) -> None:
        """Follow it no more."""
        self._feed.close()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def slots(self) -> float | None:
        """The slots of the share; None before it is known."""
        latest = self._latest
        return None if latest is None else latest.slots

    @contextmanager
    def telling(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Within this context, call `tell` with a line about the share and each of its changes, with the reason."""
        with self._changed:
            self._tellers.append(tell)
            latest = self._latest
        tell("share: not known yet" if latest is None else _described(latest))
        try:
            yield
        finally:
            with self._changed:
                self._tellers.remove(tell)

    def feed(self) -> Feed:
        """A source of the share for one statement."""
        return _Listener(self)

    def listen(self, emit: Callable[[Event], None]) -> None:
        """Emit the share, and each change, until `emit` is forgotten."""
        with self._changed:
            self._listeners.append(emit)
            latest = self._latest
        if latest is not None:
            emit(_for_statements(latest))

    def forget(self, emit: Callable[[Event], None]) -> None:
        """Emit no more."""
        with self._changed:
            if emit in self._listeners:
                self._listeners.remove(emit)

    def _take(self, event: Event) -> None:
        if isinstance(event, ArbiterAway):
            self._tell(f"{event.reason}; the last known share stays in effect")
        if not isinstance(event, ShareChanged):
            return
        with self._changed:
            self._latest = event
            listeners = list(self._listeners)
            self._changed.notify_all()
        self._tell(_described(event))
        if self._holder is not None and event.executors is not None:
            self._holder.set_executors(event.executors, event.effective_at)
        for emit in listeners:
            emit(_for_statements(event))

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


class _Listener:
    """A statement's feed."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._emit: Callable[[Event], None] | None = None

    def start(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._shares.listen(emit)

    def close(self) -> None:
        if self._emit is not None:
            self._shares.forget(self._emit)


def _for_statements(share: ShareChanged) -> ShareChanged:
    return replace(share, executors=None, seq=None)


def _described(share: ShareChanged) -> str:
    return f"share: {in_slots(share.slots)}; {share.reason}"
