"""When the share changed and when the plan was switched, as lines across the charts of a query."""

from collections.abc import Iterator

from qoop.replan.events import ShareChanged
from qoop.report.axis import Axis
from qoop.report.record import Decided, QueryRecord
from qoop.run import wording
from yarn_plugin.report import Moment


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
