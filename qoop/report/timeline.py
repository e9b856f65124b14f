"""The time axis of a query's charts: changes of the share and switches as lines, and the share over time."""

from collections.abc import Iterator
from dataclasses import dataclass

from qoop.replan.events import ShareChanged
from qoop.report.record import QueryRecord, TimedDecision
from qoop.run import wording
from yarn_plugin.report import Moment, Series, Span, TimeChart
from yarn_plugin.report.timechart import Points


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis from `origin`, its 0, to `end` (both in seconds since the epoch); `since`: what happened at 0."""

    origin: float
    end: float
    since: str

    def __call__(self, at: float) -> float:
        """The position of a time on the axis, in seconds."""
        return at - self.origin

    @property
    def span(self) -> Span:
        """The range of the axis."""
        return Span(0.0, self.end - self.origin)

    @property
    def label(self) -> str:
        """The label of the axis."""
        return f"seconds since {self.since}"


def axis_of(record: QueryRecord) -> Axis:
    """The axis of one query, from its plans to its end."""
    return Axis(record.started, record.ended, "the query started")


def moments(record: QueryRecord, axis: Axis, labelled: bool = True) -> tuple[Moment, ...]:
    """Lines across a chart where the share changed, the plan was switched, or the arbiter was lost.

    Not `labelled`: labels become part of the details, for a chart below one that has them.
    """
    switched = {timed.at: timed for timed in record.switches}
    lines = [*_shares(record, axis, switched), *(_switch(timed, axis, "") for timed in switched.values())]
    lines += [Moment(axis(at), "arbiter lost", reason) for at, reason in record.arbiter_losses]
    if labelled:
        return tuple(lines)
    return tuple(Moment(line.at, "", f"{line.label}\n{line.detail}".strip(), line.kind) for line in lines)


def _shares(record: QueryRecord, axis: Axis, switched: dict[float, TimedDecision]) -> Iterator[Moment]:
    """Lines of share changes. A switch at the same time shares the line, and is removed from `switched`."""
    for (_, before), (at, share) in zip(record.shares, record.shares[1:], strict=False):
        change = share_change(before, share)
        if not change:
            continue
        timed = switched.pop(at, None)
        yield _switch(timed, axis, change) if timed else Moment(axis(at), change, share.reason, "share")


def share_change(before: ShareChanged, share: ShareChanged) -> str:
    """What changed between two shares, such as "4 → 2 slots"; empty if nothing did."""
    if share.slots != before.slots:
        return f"{before.slots:g} → {share.slots:g} slots"
    if share.executors != before.executors:
        return f"{_executors(before)} → {_executors(share)} executors"
    return ""


def _executors(share: ShareChanged) -> str:
    return "?" if share.executors is None else str(share.executors)


def _switch(timed: TimedDecision, axis: Axis, change: str) -> Moment:
    decision = timed.decision
    label = f"plan {decision.before} → {decision.plan}"
    return Moment(axis(timed.at), f"{change}, {label}" if change else label, wording.verdict(decision), "switch")


def share_chart(record: QueryRecord, title: str = "Share and executors", axis: Axis | None = None) -> TimeChart:
    """The slots of the share and of the executors, target and running executors, and running stages over time."""
    axis = axis or axis_of(record)
    slots = [(at, share.slots) for at, share in record.shares]
    series = [Series("slots of the share", _steps(slots, record, axis), 0)]
    if record.live_slots:
        series.append(Series("slots of the executors", _steps(record.live_slots, record, axis), 4))
    if record.target_executors:
        series.append(Series("target executors", _steps(record.target_executors, record, axis), 1, dashed=True))
    if record.running_executors:
        series.append(Series("running executors", _steps(record.running_executors, record, axis), 2))
    series.append(Series("running stages", _running(record, axis), 3))
    return TimeChart(
        title,
        "slots, executors, stages",
        tuple(each for each in series if each.points),
        time=axis.label,
        span=axis.span,
        moments=moments(record, axis, labelled=False),
        gutter=240.0,
        height=130.0,
    )


def _steps(values: list[tuple[float, float]] | list[tuple[float, int]], record: QueryRecord, axis: Axis) -> Points:
    """Values at their times; the last one lasts to the query's end."""
    if not values:
        return ()
    return (*((axis(at), float(value)) for at, value in values), (axis(record.ended), float(values[-1][1])))


def _running(record: QueryRecord, axis: Axis) -> Points:
    """The number of running stages, at each time that it changes."""
    changes = [(attempt.started, 1) for attempt in record.attempts]
    changes += [(record.ended if attempt.ended is None else attempt.ended, -1) for attempt in record.attempts]
    running = 0
    points = {axis(record.started): 0.0}
    for at, change in sorted(changes):
        running += change
        points[axis(at)] = float(running)
    return tuple(points.items())
