"""The latest of many things, by key; called from several threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(Generic[Key, Value]):
    """The values that were put in last, at most `most` by their weights, and always the last one."""

    def __init__(self, most: int, weight: Callable[[Value], int] = lambda value: 1) -> None:
        self._most, self._weight, self._total = most, weight, 0
        self._known: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value of a key; None if there is none, or if it was forgotten."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Keep a value, and forget those that were put in longest ago if there are too many."""
        with self._lock:
            if (old := self._known.pop(key, None)) is not None:
                self._total -= self._weight(old)
            self._known[key] = value
            self._total += self._weight(value)
            while self._total > self._most and len(self._known) > 1:
                self._total -= self._weight(self._known.popitem(last=False)[1])
