"""Statements take turns: so many run at the same time, and the next is always of the session that waits for longest."""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from qoop.server.errors import LimitError
from qoop.server.limits import Budget

log = logging.getLogger("qoop.server")

IDLE_S = 20.0
"""Seconds after which a thread without work ends."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose statement it is: a user's, in one of the user's sessions."""

    user: str
    session: Hashable


class FairQueue(Generic[Item]):
    """Items of several owners: one of each owner is taken in turn, its oldest first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Owner, deque[Item]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How many items wait."""
        return self._count

    def put(self, owner: Owner, item: Item) -> None:
        """Add an item."""
        self._waiting.setdefault(owner, deque()).append(item)
        self._count += 1

    def take(self, may: Callable[[Owner], bool] = lambda owner: True) -> tuple[Owner, Item] | None:
        """The next item, of the first owner that may have its turn; None if none waits."""
        owner = next(filter(may, self._waiting), None)
        if owner is None:
            return None
        items = self._waiting.pop(owner)
        item = items.popleft()
        if items:
            self._waiting[owner] = items
        self._count -= 1
        return owner, item

    def remove(self, owner: Owner, item: Item) -> bool:
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
        self._most = most
        self._running, self._waiting = Budget(most), Budget(max_waiting)
        self._changed = threading.Condition()
        self._queue = FairQueue[Job]()
        self._threads = self._idle = self._numbers = 0
        self._closed = False

    def submit(self, owner: Owner, job: Job) -> None:
        """Run a job when it is its owner's turn.

        Raises:
            LimitError: too many wait.
        """
        with self._changed:
            if self._closed:
                raise LimitError("server: shuts down; connect to another, or retry later")
            if not self._waiting.take(1, owner.user):
                raise LimitError(f"statements: too many wait to run already, {self._waiting.used} of them; retry later")
            self._queue.put(owner, job)
            if self._idle < len(self._queue) and self._threads < self._most:
                self._threads += 1
                self._numbers += 1
                threading.Thread(target=self._work, name=f"statement-{self._numbers}", daemon=True).start()
            self._changed.notify()

    def withdraw(self, owner: Owner, job: Job) -> bool:
        """Take back a job; False if it has started."""
        with self._changed:
            is_withdrawn = self._queue.remove(owner, job)
            if is_withdrawn:
                self._waiting.give_back(1, owner.user)
            return is_withdrawn

    def close(self) -> None:
        """Start no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            owner, job = taken
            try:
                job()
            except Exception:
                log.exception("a statement's thread has failed")
            with self._changed:
                self._running.give_back(1, owner.user)
                # A user who had too many running may have one more now: any thread may take it.
                self._changed.notify_all()
            # It holds the statement's text, which may be long.
            del taken, job

    def _next(self) -> tuple[Owner, Job] | None:
        taken: tuple[Owner, Job] | None = None

        def is_due() -> bool:
            nonlocal taken
            taken = None if self._closed else self._queue.take(lambda owner: self._running.take(1, owner.user))
            return self._closed or taken is not None

        with self._changed:
            self._idle += 1
            self._changed.wait_for(is_due, timeout=IDLE_S)
            self._idle -= 1
            if taken is None:
                self._threads -= 1
            else:
                self._waiting.give_back(1, taken[0].user)
            return taken
