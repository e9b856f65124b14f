"""The share of a query and the executors that it held, over time."""

from qoop.report.axis import Axis, axis_of
from qoop.report.moments import moments
from qoop.report.record import QueryRecord
from yarn_plugin.report import Series, TimeChart
from yarn_plugin.report.timechart import Points


def share_chart(record: QueryRecord, title: str = "Share and executors", axis: Axis | None = None) -> TimeChart:
    """Slots to plan with, executors asked for and there, and the stages that ran side by side."""
    axis = axis or axis_of(record)
    slots = [(at, share.slots) for at, share in record.shares]
    found = [Series("slots to plan with", _held(slots, record, axis), 0)]
    if record.wanted:
        found.append(Series("executors to hold", _held(record.wanted, record, axis), 1, dashed=True))
    if record.present:
        found.append(Series("executors there", _held(record.present, record, axis), 2))
    found.append(Series("stages running", _running(record, axis), 3))
    return TimeChart(
        title,
        "slots, executors, stages",
        tuple(one for one in found if one.points),
        time=axis.label,
        span=axis.span,
        moments=moments(record, axis, told=False),
        gutter=240.0,
        height=130.0,
    )


def _held(values: list[tuple[float, float]] | list[tuple[float, int]], record: QueryRecord, axis: Axis) -> Points:
    """Values at their times, the last one held to the query's end."""
    if not values:
        return ()
    return (*((axis(at), float(value)) for at, value in values), (axis(record.ended), float(values[-1][1])))


def _running(record: QueryRecord, axis: Axis) -> Points:
    """How many stages ran, at each time that the number changed."""
    changes = [(attempt.began, 1) for attempt in record.attempts]
    changes += [(record.ended if attempt.ended is None else attempt.ended, -1) for attempt in record.attempts]
    running = 0
    found = {axis(record.began): 0.0}
    for at, change in sorted(changes):
        running += change
        found[axis(at)] = float(running)
    return tuple(found.items())
