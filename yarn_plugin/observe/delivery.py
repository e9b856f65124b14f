"""Delivers observations. If the arbiter fails on one, it is split until the single items that cause it are found."""

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from yarn_plugin.decide.events import Event
from yarn_plugin.journal.intake import SkippedInputError
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.observe.changes import Observation, has_content, single_item, split_in_two
from yarn_plugin.observe.polled_lists import PolledList

log = logging.getLogger("yarn_plugin.arbiter")

BAD_EVENT_ERRORS = (SkippedInputError, ArithmeticError, LookupError, TypeError, ValueError)
"""Raised by the sink if the event itself is at fault."""

RETRY_AFTER = 60.0
"""Seconds until a refused item is delivered again, if it has changed."""


class Stopped(Exception):  # noqa: N818 - not an error: whoever waits for a decision learns that none will come
    """The arbiter has stopped; no further decisions are made."""


class EventSink(Protocol):
    """Takes events, and shows the cluster as known."""

    def known(self) -> ClusterView:
        """The cluster after all events so far."""
        ...

    def take(self, event: Event) -> Any:
        """Take an event and wait until it is decided on.

        Raises:
            Stopped: the arbiter has stopped.
            JournalUnavailableError: no event can be recorded now.
            SkippedInputError: the event raises an error, and would again.
        """
        ...


class Delivery:
    """Delivers events to a sink and remembers refused items; counts those in `observations_refused`."""

    def __init__(self, sink: EventSink, counters: Counter[str]) -> None:
        self._sink, self._counters = sink, counters
        self._refusals = Refusals()

    def deliver(self, event: Event) -> None:
        """Deliver an event that is not a list of changes."""
        try:
            self._sink.take(event)
        except BAD_EVENT_ERRORS:
            self._counters["observations_refused"] += 1
            log.exception(
                "internal error: event %s was skipped; the state of the ResourceManager may be outdated. Report this "
                "error",
                type(event).__name__,
            )

    def deliver_changes(self, polled: PolledList, present: Mapping[str, Any], gone: Iterable[str]) -> None:
        """Deliver changed and removed items, except refused ones."""
        now = time.monotonic()
        event = polled.event(
            tuple(item for name, item in present.items() if self._refusals.allows(polled.name, name, item, now)),
            tuple(name for name in gone if self._refusals.allows(polled.name, name, None, now)),
        )
        if has_content(event):
            self._deliver_in_parts(polled.name, event)

    def retain_refusals(self, polled: PolledList, names: Iterable[str]) -> None:
        """Forget refused items except these, which are known or listed."""
        self._refusals.retain(polled.name, set(names))

    def _deliver_in_parts(self, kind: str, event: Observation) -> None:
        try:
            self._sink.take(event)
        except BAD_EVENT_ERRORS as problem:
            parts = split_in_two(event)
            for part in parts:
                self._deliver_in_parts(kind, part)
            if not parts:
                self._refuse(kind, event, problem)

    def _refuse(self, kind: str, event: Observation, problem: Exception) -> None:
        self._counters["observations_refused"] += 1
        name, value = single_item(event)
        if self._refusals.add(kind, name, value, time.monotonic()):
            log.error(
                "%s: a change of %s was skipped, so its state is outdated: %s; report this error", kind, name, problem
            )


@dataclass(frozen=True, slots=True)
class _Refusal:
    value: object
    at: float


class Refusals:
    """Refused items by kind ("apps") and id, with their values; the value of a removed item is None."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], _Refusal] = {}

    def add(self, kind: str, name: str, value: object, now: float) -> bool:
        """Remember an item. Returns whether it is new."""
        known = self._refused.get((kind, name))
        self._refused[kind, name] = _Refusal(value, now)
        return known is None

    def allows(self, kind: str, name: str, value: object, now: float) -> bool:
        """Whether an item may be delivered."""
        refusal = self._refused.get((kind, name))
        if refusal is None:
            return True
        # A removal never changes, and may have been refused for a reason that has passed.
        return (refusal.value != value or value is None) and now >= refusal.at + RETRY_AFTER

    def retain(self, kind: str, names: Collection[str]) -> None:
        """Forget all items of a kind except these."""
        for key in [key for key in self._refused if key[0] == kind and key[1] not in names]:
            del self._refused[key]
