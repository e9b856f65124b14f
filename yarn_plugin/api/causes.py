"""Causes as a sentence for a person, and as a JSON object for a program."""

from dataclasses import fields
from typing import Any, assert_never

from yarn_plugin.model import causes as cause
from yarn_plugin.model.causes import TAGS, Cause, Causes, Happening, ShareCause, WeightedShare
from yarn_plugin.model.resources import Resources
from yarn_plugin.quantities import count


def text(why: Cause) -> str:
    """The cause in words, such as "app_17 arrived; the pool now has 2 applications (...)"."""
    match why:
        case ShareCause(causes, apps, explanation):
            return f"{text(causes)}; the pool now has {count(apps, 'application')} ({text(explanation)})"
        case Causes(named, more):
            return "; ".join([*map(_happening, named), *([f"{more} more"] if more else [])])
        case WeightedShare():
            return _weighted_share(why)
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
        case _:
            return _happening(why)


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


def _weighted_share(why: WeightedShare) -> str:
    guaranteed = f"weight {why.weight:g} of a total of {why.total_weight:g}: guarantee {why.guarantee:.1%}"
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
_PLAIN = (str, int, float)


def _to_json(value: Any) -> Any:
    if isinstance(value, Resources):
        return value.as_dict()
    return [as_json(one) for one in value] if isinstance(value, tuple) else as_json(value)
