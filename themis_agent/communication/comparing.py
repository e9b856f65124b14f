"""Compares what the processes of a group call, so that none uses the result of operations that differ."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from themis_agent.communication.errors import DifferentOperationsError

Done = Callable[[BaseException | None], None]
"""Called once when something has ended, in any thread; the argument is what it failed with."""

WINDOW = 16
"""The most operations that are compared at once."""

_NOT_CALLED = -(2**63) + 1
"""Below every fingerprint and its negative."""


class Exchange(Protocol):
    """Begins to find the highest number of the processes at each place; `done` gets them, or the error."""

    def __call__(self, numbers: Sequence[int], done: Callable[[Sequence[int], BaseException | None], None]) -> None:
        """Begin. All processes begin their exchanges in the same order."""


class Comparisons:
    """Whether all processes of a group call the same operations in the same order.

    There is one exchange at a time, about what was called since the one before. Processes may be at different calls:
    what all of them have called is compared, and the rest stays for the next exchange, which each process begins when
    it has called more. A program that calls faster than an exchange takes thus has fewer of them than operations.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._lock = threading.Lock()
        self._called: deque[tuple[int, str, Done]] = deque()
        self._exchanging = False

    def compare(self, fingerprint: int, operation: str, done: Done) -> None:
        """Begin to compare the fingerprint (from 0 to 2^62) of the next operation with the others'. `done`: gets a
        DifferentOperationsError where they differ.
        """
        with self._lock:
            self._called.append((fingerprint, operation, done))
            if self._exchanging:
                return
            self._exchanging = True
        self._begin()

    def _begin(self) -> None:
        with self._lock:
            fingerprints = [fingerprint for fingerprint, _, _ in list(self._called)[:WINDOW]]
        # The highest of the negatives tells the lowest.
        numbers = [_NOT_CALLED] * (1 + 2 * WINDOW)
        numbers[0] = -len(fingerprints)
        for place, fingerprint in enumerate(fingerprints, 1):
            numbers[place], numbers[WINDOW + place] = fingerprint, -fingerprint
        try:
            self._exchange(numbers, self._exchanged)
        except RuntimeError as problem:
            self._exchanged((), problem)

    def _exchanged(self, highest: Sequence[int], error: BaseException | None) -> None:
        with self._lock:
            compared = len(self._called) if error is not None else -highest[0]
            ended = [self._called.popleft() for _ in range(compared)]
            self._exchanging = bool(self._called)
            again = self._exchanging
        if again:
            self._begin()
        for place, (_, operation, done) in enumerate(ended, 1):
            same = error is not None or highest[place] == -highest[WINDOW + place]
            done(error if same else different(operation))


def different(operation: str) -> DifferentOperationsError:
    """The error of processes that call different operations."""
    return DifferentOperationsError(
        f"{operation}: the processes call different operations, or under different plans; all must call the same in "
        "the same order"
    )
