"""The share of a query and the executors that it held, over time."""

from qoop.report.moments import moments
from qoop.report.record import QueryRecord
from yarn_plugin.report import Series, Span, TimeChart
from yarn_plugin.report.samples import Points


def share_chart(
    record: QueryRecord, title: str = "Share and executors", origin: float | None = None, span: Span | None = None
) -> TimeChart:
    """Slots to plan with, executors asked for and there, and the stages that ran side by side."""
    zero = record.began if origin is None else origin
    slots = [(at, share.slots) for at, share in record.shares]
    found = [Series("slots to plan with", _held(slots, record, zero), 0)]
    if record.wanted:
        found.append(Series("executors to hold", _held(record.wanted, record, zero), 1, dashed=True))
    if record.present:
        found.append(Series("executors there", _held(record.present, record, zero), 2))
    found.append(Series("stages running", _running(record, zero), 3))
    return TimeChart(
        title,
        "slots, executors, stages",
        tuple(one for one in found if one.points),
        time="seconds since the query began" if origin is None else "seconds",
        span=span or Span(record.began - zero, record.ended - zero),
        moments=moments(record, zero, told=False),
        gutter=240.0,
        height=130.0,
    )


def _held(values: list[tuple[float, float]] | list[tuple[float, int]], record: QueryRecord, zero: float) -> Points:
    """Values at their times, the last one held to the query's end."""
    if not values:
        return ()
    return (*((at - zero, float(value)) for at, value in values), (record.ended - zero, float(values[-1][1])))


def _running(record: QueryRecord, zero: float) -> Points:
    """How many stages ran, at each time that the number changed."""
    changes = [(attempt.began, 1) for attempt in record.attempts]
    changes += [(record.ended if attempt.ended is None else attempt.ended, -1) for attempt in record.attempts]
    running = 0
    found = {record.began - zero: 0.0}
    for at, change in sorted(changes):
        running += change
        found[at - zero] = float(running)
    return tuple(found.items())
