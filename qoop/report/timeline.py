"""The time axis of a query's charts: changes of the share and switches as lines, and the share over time."""

from collections.abc import Iterator
from dataclasses import dataclass

from qoop.replan.events import ShareChanged
from qoop.report.record import Decided, QueryRecord
from qoop.run import wording
from yarn_plugin.report import Moment, Series, Span, TimeChart
from yarn_plugin.report.timechart import Points


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


def moments(record: QueryRecord, axis: Axis, told: bool = True) -> tuple[Moment, ...]:
    """The lines of a query; without labels where it is not `told` again what another chart above says."""
    switched = {made.at: made for made in record.switches}
    found = [*_shares(record, axis, switched), *(_switch(made, axis, "") for made in switched.values())]
    found += [Moment(axis(at), "arbiter away", reason) for at, reason in record.away]
    if told:
        return tuple(found)
    return tuple(Moment(one.at, "", f"{one.label}\n{one.detail}".strip(), one.kind) for one in found)


def _shares(record: QueryRecord, axis: Axis, switched: dict[float, Decided]) -> Iterator[Moment]:
    """Changes of the share; those that a switch followed at once are left to its line, and removed from `switched`."""
    for (_, before), (at, share) in zip(record.shares, record.shares[1:], strict=False):
        change = changed(before, share)
        if not change:
            continue
        made = switched.pop(at, None)
        yield _switch(made, axis, change) if made else Moment(axis(at), change, share.reason, "share")


def changed(before: ShareChanged, share: ShareChanged) -> str:
    """What is different in a share: "4 → 2 slots"; empty where nothing is."""
    if share.slots != before.slots:
        return f"{before.slots:g} → {share.slots:g} slots"
    if share.executors != before.executors:
        return f"{_executors(before)} → {_executors(share)} executors"
    return ""


def _executors(share: ShareChanged) -> str:
    return "?" if share.executors is None else str(share.executors)


def _switch(made: Decided, axis: Axis, change: str) -> Moment:
    decision = made.decision
    label = f"plan {decision.before} → {decision.plan}"
    return Moment(axis(made.at), f"{change}, {label}" if change else label, wording.verdict(decision), "switch")


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
