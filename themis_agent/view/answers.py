"""How fast an agent answers the arbiter."""

import threading
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["estimate", "bid"]


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers of one kind: how many were sent, in how many seconds together; how many came too late to be sent."""

    count: int = 0
    seconds: float = 0.0
    late: int = 0


class AnswerTimes:
    """Counts since the agent started; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: dict[str, Answered] = {}

    def sent(self, kind: Kind, seconds: float) -> None:
        """Count an answer that was sent so many seconds after its question."""
        with self._lock:
            old = self._answered.get(kind, Answered())
            self._answered[kind] = replace(old, count=old.count + 1, seconds=old.seconds + seconds)

    def too_late(self, kind: Kind) -> None:
        """Count an answer whose deadline was over before it could be sent."""
        with self._lock:
            old = self._answered.get(kind, Answered())
            self._answered[kind] = replace(old, late=old.late + 1)

    def counts(self) -> dict[str, Answered]:
        """The answers by kind."""
        with self._lock:
            return dict(self._answered)
