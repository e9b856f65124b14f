"""How fast an agent answers the arbiter."""

import threading
from dataclasses import dataclass
from typing import Literal

Kind = Literal["estimate", "bid"]


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers of one kind: how many, in how many seconds together, and how many of them after their deadline."""

    count: int = 0
    seconds: float = 0.0
    late: int = 0


class AnswerTimes:
    """Counts since the agent started; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: dict[str, Answered] = {}

    def add(self, kind: Kind, asked_at: float, answered_at: float, answer_by: float) -> None:
        """Count an answer. Times are seconds on one clock."""
        with self._lock:
            old = self._answered.get(kind, Answered())
            late = old.late + (answered_at > answer_by)
            self._answered[kind] = Answered(old.count + 1, old.seconds + answered_at - asked_at, late)

    def counts(self) -> dict[str, Answered]:
        """The answers by kind."""
        with self._lock:
            return dict(self._answered)
