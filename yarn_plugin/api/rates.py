"""A rate of requests for each owner."""

import time
from collections.abc import Callable
from dataclasses import dataclass

MAX_OWNERS = 10_000
"""Buckets that are kept; beyond that, the full ones are forgotten, which changes nothing."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class TokenBuckets:
    """A bucket of tokens for each owner: it holds `burst` of them and gains `per_s` a second; a request takes one.

    Used on the server's event loop alone.
    """

    def __init__(self, per_s: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._now = per_s, burst, now
        self._buckets: dict[str, _Bucket] = {}

    def take(self, owner: str) -> float:
        """Take a token: 0.0; or the seconds until there is one."""
        now = self._now()
        if len(self._buckets) >= MAX_OWNERS and owner not in self._buckets:
            self._forget_full(now)
        bucket = self._buckets.setdefault(owner, _Bucket(self._burst, now))
        bucket.tokens, bucket.at = self._level(bucket, now), now
        if bucket.tokens < 1.0:
            return (1.0 - bucket.tokens) / self._per_s
        bucket.tokens -= 1.0
        return 0.0

    def _level(self, bucket: _Bucket, now: float) -> float:
        return min(bucket.tokens + self._per_s * (now - bucket.at), self._burst)

    def _forget_full(self, now: float) -> None:
        self._buckets = {name: one for name, one in self._buckets.items() if self._level(one, now) < self._burst}
