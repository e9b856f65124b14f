"""Serve the best first, where the worth of what a candidate can get falls as others are served."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

Candidate = TypeVar("Candidate")
Rank = tuple[Any, ...]


def serve_best_first(
    candidates: Iterable[Candidate],
    rank: Callable[[Candidate], Rank | None],
    serve: Callable[[Candidate], bool],
) -> None:
    """Serve candidates, the one with the smallest rank first, until none has a rank.

    `rank`: None if a candidate can get nothing more. It is asked again before a candidate is served, and it must name
    the candidate, so that no two are equal. `serve`: whether the candidate may be served again.
    """
    # A rank that falls while others are served is noticed when its candidate's turn comes.
    waiting = [(place, number, one) for number, one in enumerate(candidates) if (place := rank(one)) is not None]
    heapify(waiting)
    while waiting:
        place, number, one = heappop(waiting)
        now = rank(one)
        if now is None:
            continue
        if now > place or (serve(one) and (now := rank(one)) is not None):
            heappush(waiting, (now, number, one))
