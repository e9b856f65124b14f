"""Causes as a sentence for a person, and as a JSON object for a program."""

from dataclasses import fields
from typing import Any, assert_never

from yarn_plugin.model import causes as cause
from yarn_plugin.model.causes import TAGS, Cause, Causes, Happening, LeaseCause, ShareCause, UserShare, WeightedShare
from yarn_plugin.model.resources import Resources
from yarn_plugin.quantities import count


def text(why: Cause) -> str:
    """The cause in words, such as "app_17 arrived; the pool now has 2 applications (...)"."""
    match why:
        case ShareCause(causes, apps, explanation):
            return f"{text(causes)}; the pool now has {count(apps, 'application')} ({text(explanation)})"
        case Causes(named, more):
            return "; ".join([*map(_happening, named), *([f"{more} more"] if more else [])])
        case WeightedShare(weight, total):
            return _share(f"weight {weight:g} of a total of {total:g}", why)
        case UserShare(users, weight, total, apps):
            within = f", weight {weight:g} of a total of {total:g} of the user's applications" if apps > 1 else ""
            return _share(f"1 of {count(users, 'user')}{within}", why)
        case cause.OverShare(app, holds, share, overstay_s):
            over = f"{app} has been over its share for {overstay_s:g} s (preempt_after_s) while others wait"
            return f"{over}: it holds {holds}, its share is {share}"
        case cause.Preempted(app, share):
            return f"{app} stayed over its share of {share} after the grace period, while others waited"
        case cause.UseAsked(app):
            return f"the containers of {app} were listed, since its pool's controller reads use per node"
        case cause.RegisteredBy(user, queue):
            return f"registered by {user} in queue {queue}"
        case cause.ControllerFailed(pool, error):
            return f"pool {pool} is stopped: its controller failed: {error}"
        case cause.ControllerResumed(pool):
            return f"pool {pool} resumed: its controller works again"
        case cause.ControllerNotified(pool, what):
            return f"message {what!r} from the controller of pool {pool}"
        case cause.NoLongerKnown(app):
            return f"{app} ended too long ago: the reason is no longer stored"
        case cause.LegacyText(words):
            return words
        case (
            cause.LeaseRound()
            | cause.LeaseWon()
            | cause.LeaseLost()
            | cause.LeaseVacated()
            | cause.LeaseReleased()
            | cause.RecordRefused()
            | cause.NotPlaced()
            | cause.PoolSuperseded()
            | cause.BeyondLease()
            | cause.TooManyApps()
            | cause.BidSetAside()
            | cause.Evicted()
            | cause.CellsReconfigured()
            | cause.QuotaReduced()
            | cause.LeasePlaced()
            | cause.LeaseDropped()
            | cause.LeaseReplaced()
            | cause.LeaseLapsed()
        ):
            return _lease(why)
        case _:
            return _happening(why)


_HOW = {
    "bid": "won by its bid",
    "leftover": "left over by those that bid",
    "policy": "by the pool's policy",
    "kept": "kept: nobody else could use them",
    "recorded": "as its application recorded it",
}


_REFUSED = {
    "unknown": "not among the usable GPUs of the pool",
    "leased": "leased to others",
    "unused": "YARN lists fewer GPUs in use by it on that node",
    "policy": "the pool's allocator does not lease them so; a quota may be used up",
}


def _lease(why: LeaseCause) -> str:
    match why:
        case cause.LeaseRound():
            return _lease_round(why)
        case cause.LeaseWon(number, gpus, how, waited_s):
            waited = f", after {waited_s:g} s of waiting for the former holders" if waited_s else ""
            return f"round {number}: {count(gpus, 'GPU')}, {_HOW[how]}{waited}"
        case cause.LeaseLost(number, gpus):
            return f"round {number}: the lease of {count(gpus, 'GPU')} ended and was not renewed"
        case cause.LeaseVacated(after_s):
            return f"vacated {after_s:g} s after the lease was revoked"
        case cause.LeaseReleased(app):
            return f"{app} released the GPUs before the end of the lease"
        case cause.RecordRefused(lease, gpus, why_refused):
            return f"{', '.join(gpus)} of its lease {lease}: {_REFUSED[why_refused]}"
        case cause.NotPlaced(node, leased, used, within_s):
            return (
                f"{count(leased, 'GPU')} of {node} were leased, but only {used} are in use there after {within_s:g} s"
            )
        case cause.BeyondLease(app, node, used, leased):
            return f"{app} uses {count(used, 'GPU')} of {node}, but leases {leased} there"
        case cause.TooManyApps(app, limit, allowed):
            return f"{app} waits: the pool is at its limit ({limit} {allowed:g})"
        case cause.BidSetAside(app, error):
            return f"the bid of {app} was set aside, since the auction failed on it: {error}"
        case cause.PoolSuperseded(by):
            return f"another arbiter, {by}, controls the pool now"
        case cause.Evicted(app, job, cluster, priority):
            who = f"job {job} of {app}" if job else app
            return f"{who} needs the cells: guaranteed work of virtual cluster {cluster}, priority {priority}"
        case cause.CellsReconfigured():
            return "the cells are no longer part of the configuration of virtual clusters"
        case cause.QuotaReduced(job, cluster):
            return (
                f"{f'job {job}' if job else 'it'} becomes opportunistic: in the new configuration, virtual cluster "
                f"{cluster} has no cells for it; any guaranteed work may evict it"
            )
        case cause.LeasePlaced(note, waited_s):
            waited = f", after {waited_s:g} s of waiting for the former holders" if waited_s else ""
            return f"{note or 'leased by the pool allocator'}{waited}"
        case cause.LeaseDropped(note):
            return note
        case cause.LeaseReplaced():
            return "another lease of the same application takes its place"
        case cause.LeaseLapsed():
            return "the lease ended and was not renewed"
        case _:
            assert_never(why)


def _lease_round(why: cause.LeaseRound) -> str:
    opened = f"round {why.round} ({why.policy}, {count(why.gpus, 'GPU')}, opened by {', '.join(why.opened_by)})"
    if why.error is not None:
        return f"{opened}: no result: {why.error}"
    rhos = ", ".join(f"{app} {'unbounded' if rho is None else f'{rho:.3g}'}" for app, rho in why.rhos)
    parts = [f"rho {rhos}"] if rhos else []
    parts += [f"bids by {', '.join(why.bidders)}"] if why.bidders else []
    for name, amounts in (("won", why.won), ("paid", why.paid), ("leftover", why.leftover), ("idle", why.idle)):
        parts += [f"{name} {', '.join(f'{who} {gpus}' for who, gpus in amounts)}"] if amounts else []
    parts += map(_lease, why.set_aside)
    if why.discounted:
        who = ", ".join(f"{app} x {part:.3g}" for app, part in why.discounted)
        parts.append(f"discounted for a rho worse than promised: {who}")
    if why.ahead:
        parts.append(f"served after others, having had more than an equal part: {', '.join(why.ahead)}")
    if why.gap is not None:
        parts.append("optimal" if why.gap == 0 else f"within {why.gap:.2g} nats of the optimum")
    return f"{opened}: {'; '.join(parts)}" if parts else opened


def _happening(what: Happening) -> str:
    match what:
        case cause.AppArrived(app):
            return f"{app} arrived"
        case cause.AppEnded(app):
            return f"{app} ended"
        case cause.AppMatched(app, yarn_app):
            return f"{app} is YARN application {yarn_app}"
        case cause.AppRevised(app):
            return f"{app} changed its weight or demand"
        case cause.JobsChanged(app):
            return f"{app} changed its jobs"
        case cause.AppVacated(app):
            return f"{app} released the containers over its share"
        case cause.AppQuiet(app):
            return f"{app} requests no resources now"
        case cause.NotSubmitted(app, within_s):
            return f"{app} ended: not submitted within {within_s:g} s (submit_timeout_s)"
        case cause.PoolGone(app, pool):
            return f"{app} ended: pool {pool} was removed"
        case cause.OtherUser(app, yarn_app):
            return f"{yarn_app} was submitted to the queue of {app} by another user, so it is not matched"
        case cause.NodeLost(host):
            return f"node {host} lost"
        case cause.NodeJoined(host):
            return f"node {host} joined"
        case cause.NodeChanged(host):
            return f"node {host} changed"
        case cause.ForeignWeights(queues):
            return f"{count(queues, 'queue weight')} changed outside the arbiter"
        case cause.QueueTreeChanged():
            return "the queues changed"
        case cause.ArbiterStarted():
            return "the arbiter started"
        case cause.ManagerAnswers():
            return "the ResourceManager responded"
        case cause.ManagerPolled():
            return "the ResourceManager was polled"
        case cause.WeightsRead():
            return "queue weights were read"
        case cause.WeightsApplied():
            return "queue weights were written"
        case cause.WeightsRejected():
            return "queue weights were refused"
        case cause.GraceOver():
            return "a grace period ended"
        case cause.DemandsChanged():
            return "the resources that applications use or request changed"
        case _:
            assert_never(what)


def _share(of: str, why: WeightedShare | UserShare) -> str:
    guaranteed = f"{of}: guarantee {why.guarantee:.1%}"
    entitlement = f"{why.entitlement:.1%}"
    match why.entitled_by:
        case "others-want-less":
            return f"{guaranteed}; the others request less: entitlement {entitlement}"
        case "own-demand":
            return f"{guaranteed}; it requests only {entitlement}: entitlement {entitlement}"
        case "guarantee":
            return guaranteed


def as_json(why: Cause) -> dict[str, Any]:
    """The cause as a JSON object: its `kind`, and its fields by name. Amounts of resources are objects by name."""
    found: dict[str, Any] = {"kind": why.kind}
    for name in _FIELDS[why.kind]:
        value = getattr(why, name)
        found[name] = value if type(value) in _PLAIN else _to_json(value)
    return found


_FIELDS = {kind: tuple(one.name for one in fields(one_of) if one.name != "kind") for kind, one_of in TAGS.items()}
_PLAIN = (str, int, float, type(None))


def _to_json(value: Any) -> Any:
    if isinstance(value, Resources):
        return value.as_dict()
    if isinstance(value, tuple):
        return [one if type(one) in _PLAIN else _to_json(one) for one in value]
    return as_json(value)
