"""What the service takes on at a time, and how much it has refused."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service takes on at a time, whoever asks.

    `header_timeout`: seconds for the head of a request, and again for its body. `write_timeout`: seconds for which a
    client may leave unread what is sent to it. `metrics_apps`: applications with figures of their own in /metrics.
    """

    max_connections: int = 4096
    max_streams: int = 2048
    max_body: int = 256 * 1024
    header_timeout: float = 10.0
    write_timeout: float = 30.0
    metrics_apps: int = 200


class Refusals:
    """Counts what was refused, by reason. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, reason: str) -> None:
        """One more, for this reason: one of the service's own words, never a caller's."""
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> Mapping[str, int]:
        """How many were refused for each reason so far."""
        with self._lock:
            return dict(self._counts)
