"""Refused requests: counted by reason, and answered with problems (`wire.Problems`)."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from starlette.responses import Response

from yarn_plugin.api import wire

RETRY_AFTER = 2
"""Seconds after which a client may retry a request that could not be served."""

REASONS = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "unknown",
    405: "method",
    408: "slow_body",
    409: "conflict",
    410: "gone",
    413: "too_large",
    422: "invalid",
    429: "limit",
    500: "failed",
    503: "unavailable",
}


class Refusals:
    """Counts refused requests by reason. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, reason: str) -> None:
        """Count one for this reason, which is a word of the service's own, never a caller's."""
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> Mapping[str, int]:
        """The number of refused requests for each reason."""
        with self._lock:
            return dict(self._counts)


def answer(status: int, problems: Iterable[wire.Problem], headers: Mapping[str, str] | None = None) -> Response:
    """An answer that lists problems."""
    body = wire.Problems(problems=list(problems)).model_dump()
    return Response(json.dumps(body).encode(), status, headers, media_type="application/json")
