"""Statements take turns: so many run at the same time, and the next is always of the session that waits for longest."""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from qoop.server.errors import LimitError

log = logging.getLogger("qoop.server")

IDLE_S = 20.0
"""Seconds after which a thread without work ends."""

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Items of several owners: one of each owner is taken in turn, its oldest first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How many items wait."""
        return self._count

    def put(self, owner: Hashable, item: Item) -> None:
        """Add an item."""
        self._waiting.setdefault(owner, deque()).append(item)
        self._count += 1

    def take(self) -> Item:
        """The next item.

        Raises:
            IndexError: there is none.
        """
        if not self._waiting:
            raise IndexError("no item waits")
        owner, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[owner] = items
        self._count -= 1
        return item

    def remove(self, owner: Hashable, item: Item) -> bool:
        """Take out an item that will not get its turn; False if it has had it."""
        items = self._waiting.get(owner)
        if items is None or item not in items:
            return False
        items.remove(item)
        self._count -= 1
        if not items:
            del self._waiting[owner]
        return True


Job = Callable[[], None]


class Workers:
    """Threads that run statements; each has its own connection to the JVM, and ends when it has been idle for a while.

    Args:
        most: how many run at the same time.
        max_waiting: how many wait for their turn.
    """

    def __init__(self, most: int, max_waiting: int) -> None:
        self._most, self._max_waiting = most, max_waiting
        self._changed = threading.Condition()
        self._queue = FairQueue[Job]()
        self._threads = self._idle = self._numbers = 0
        self._closed = False

    def submit(self, owner: Hashable, job: Job) -> None:
        """Run a job when it is its owner's turn.

        Raises:
            LimitError: too many wait.
        """
        with self._changed:
            if self._closed:
                raise LimitError("server: shuts down; connect to another, or retry later")
            if len(self._queue) >= self._max_waiting:
                raise LimitError(f"statements: {self._max_waiting} wait to run already; retry later")
            self._queue.put(owner, job)
            if self._idle < len(self._queue) and self._threads < self._most:
                self._threads += 1
                self._numbers += 1
                threading.Thread(target=self._work, name=f"statement-{self._numbers}", daemon=True).start()
            self._changed.notify()

    def withdraw(self, owner: Hashable, job: Job) -> bool:
        """Take back a job; False if it has started."""
        with self._changed:
            return self._queue.remove(owner, job)

    def close(self) -> None:
        """Start no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:
                log.exception("a statement's thread has failed")

    def _next(self) -> Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._closed or len(self._queue) > 0, timeout=IDLE_S)
            self._idle -= 1
            if self._closed or not len(self._queue):
                self._threads -= 1
                return None
            return self._queue.take()
