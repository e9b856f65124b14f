"""Where inputs of several threads arrive, before an intake takes them one at a time."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items in the order of their stamps. `stamp`: gives the time of one that arrives now (see `Intake.stamp`)."""

    def __init__(self, stamp: Callable[[], float]) -> None:
        self._stamp = stamp
        # Covers an item's stamp and its place: the order of both is the same.
        self._arrival = threading.Lock()
        self._items: queue.SimpleQueue[tuple[float, Item]] = queue.SimpleQueue()

    def put(self, item: Item) -> None:
        """Stamp an item and queue it."""
        with self._arrival:
            self._items.put((self._stamp(), item))

    def get(self, timeout: float | None) -> tuple[float, Item] | None:
        """The next item with its stamp; None after so many seconds without one (never, where that is None)."""
        try:
            return self._items.get(timeout=timeout)
        except queue.Empty:
            return None

    def quiet_until(self) -> float | None:
        """A time before which nothing can arrive any more: now, where nothing waits; None where something does.

        A timer that is due by then is due before everything that is still to come.
        """
        with self._arrival:
            return self._stamp() if self._items.empty() else None
