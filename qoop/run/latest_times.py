"""How long the queries of this process took as written: for the gate, which knows only how much they read."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

MAX_QUERIES = 1000
"""How many queries are kept; beyond that, those that ran longest ago are forgotten."""


@dataclass(frozen=True, slots=True)
class _Latest:
    """`seconds`, `slots`: those of the latest run as written. `unused`: for how many more runs they say nothing."""

    seconds: float
    slots: float
    unused: int


class LatestTimes:
    """The times of the latest runs as written, by what identifies a query roughly."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, _Latest] = OrderedDict()
        self._lock = threading.Lock()

    def seconds(self, query: int, slots: float) -> float | None:
        """What a query may take as written at a share, if all of its time is in proportion to that; None if unknown."""
        latest = self._known.get(query)
        return latest.seconds * latest.slots / slots if latest is not None and not latest.unused else None

    def add(self, query: int, seconds: float, slots: float, unused: int = 0) -> None:
        """Keep a run as written. `unused`: how many more runs do not ask for its time, as it was planned in vain."""
        with self._lock:
            before = self._known.pop(query, None)
            left = before.unused - 1 if before is not None else 0
            self._known[query] = _Latest(seconds, slots, max(unused, left, 0))
            if len(self._known) > MAX_QUERIES:
                self._known.popitem(last=False)
