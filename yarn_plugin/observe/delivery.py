"""Hands on what was observed; what nothing can be decided on is narrowed down to the single things that are why."""

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from yarn_plugin.decide.events import Event
from yarn_plugin.journal.intake import SetAsideError
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.observe.changes import Observation, halves, is_of_something, the_one
from yarn_plugin.observe.subjects import Subject

log = logging.getLogger("yarn_plugin.arbiter")

UNTAKEABLE = (SetAsideError, ArithmeticError, LookupError, TypeError, ValueError)
"""What the taker raises where an event itself is at fault."""

AGAIN_AFTER = 60.0
"""Seconds until one that changed meanwhile is handed on again."""


class Stopped(Exception):  # noqa: N818 - not an error: whoever waits for a decision learns that none will come
    """The arbiter ends; nothing more is decided."""


class Taker(Protocol):
    """Takes events in, and shows what is known of the cluster."""

    def known(self) -> ClusterView:
        """The cluster as known after all events taken so far."""
        ...

    def take(self, event: Event) -> Any:
        """Take an event in, and wait until it is decided on.

        Raises:
            Stopped: the arbiter ends.
            JournalUnavailableError: nothing is taken in now.
            SetAsideError: nothing could be decided on it, nor ever will be.
        """
        ...


class Delivery:
    """Hands events to a taker, and remembers what it could not decide on; counts that in `observations_refused`."""

    def __init__(self, taker: Taker, counters: Counter[str]) -> None:
        self._taker, self._counters = taker, counters
        self._refusals = Refusals()

    def hand_on(self, event: Event) -> None:
        """Hand on an event that is not an observation of many things."""
        try:
            self._taker.take(event)
        except UNTAKEABLE:
            self._counters["observations_refused"] += 1
            log.exception("%s is not taken in", type(event).__name__)

    def hand_on_changes(self, subject: Subject, present: Mapping[str, Any], gone: Iterable[str]) -> None:
        """Hand on what came or changed, and what is gone, but for what is known to be refused."""
        now = time.monotonic()
        event = subject.event(
            tuple(item for name, item in present.items() if self._refusals.allows(subject.name, name, item, now)),
            tuple(name for name in gone if self._refusals.allows(subject.name, name, None, now)),
        )
        if is_of_something(event):
            self._hand_on_in_parts(subject.name, event)

    def forget_all_but(self, subject: Subject, names: Iterable[str]) -> None:
        """Forget what was refused of things that are neither known nor seen any more."""
        self._refusals.keep(subject.name, set(names))

    def _hand_on_in_parts(self, kind: str, event: Observation) -> None:
        try:
            self._taker.take(event)
        except UNTAKEABLE as problem:
            parts = halves(event)
            for part in parts:
                self._hand_on_in_parts(kind, part)
            if not parts:
                self._refuse(kind, event, problem)

    def _refuse(self, kind: str, event: Observation, problem: Exception) -> None:
        self._counters["observations_refused"] += 1
        name, value = the_one(event)
        if self._refusals.add(kind, name, value, time.monotonic()):
            log.error("%s of %s is not taken in: %s", name, kind, problem)


@dataclass(frozen=True, slots=True)
class _Refusal:
    value: object
    at: float


class Refusals:
    """Remembers what was refused, by kind ("apps") and id; the value is None for what is gone."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], _Refusal] = {}

    def add(self, kind: str, name: str, value: object, now: float) -> bool:
        """Remember one. Returns whether it is the first time."""
        known = self._refused.get((kind, name))
        self._refused[kind, name] = _Refusal(value, now)
        return known is None

    def allows(self, kind: str, name: str, value: object, now: float) -> bool:
        """Whether an observation may be handed on."""
        refusal = self._refused.get((kind, name))
        if refusal is None:
            return True
        # What is gone stays the same for ever: that it was refused may have had another reason.
        return (refusal.value != value or value is None) and now >= refusal.at + AGAIN_AFTER

    def keep(self, kind: str, names: Collection[str]) -> None:
        """Forget what was refused of anything but these."""
        for key in [key for key in self._refused if key[0] == kind and key[1] not in names]:
            del self._refused[key]
