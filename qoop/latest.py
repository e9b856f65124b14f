"""The latest of many things, by key; called from several threads."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(Generic[Key, Value]):
    """The values that were put in last, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value of a key; None if there is none, or if it was forgotten."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Keep a value, and forget the one that was put in longest ago if there are too many."""
        with self._lock:
            self._known[key] = value
            self._known.move_to_end(key)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
