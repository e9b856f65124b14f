"""Where times stand on the axes of a query's charts."""

from dataclasses import dataclass

from qoop.report.record import QueryRecord
from yarn_plugin.report import Span


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of time from `origin`, which is its 0, to `end` (seconds since the epoch); `since` says what 0 is."""

    origin: float
    end: float
    since: str

    def __call__(self, at: float) -> float:
        """The place of a time on the axis, in seconds."""
        return at - self.origin

    @property
    def span(self) -> Span:
        """The whole axis."""
        return Span(0.0, self.end - self.origin)

    @property
    def label(self) -> str:
        """What the axis counts."""
        return f"seconds since {self.since}"


def axis_of(record: QueryRecord) -> Axis:
    """The axis of a query alone: from its plans to its end."""
    return Axis(record.began, record.ended, "the query began")
