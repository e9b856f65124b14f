"""Causes of decisions, as values: what happened, what explains a share, why a command was issued.

No sentences: `yarn_plugin.api.causes` renders causes for people; programs read the fields. The `kind` of a class is its
name in journals and on the wire, and never changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from yarn_plugin.model.resources import Resources

# What happened to an application.


@dataclass(frozen=True, slots=True)
class AppArrived:
    """An application arrived. `app`: the arbiter's id, or YARN's if it is not registered."""

    app: str
    kind: Literal["app-arrived"] = "app-arrived"


@dataclass(frozen=True, slots=True)
class AppEnded:
    """An application ended or deregistered."""

    app: str
    kind: Literal["app-ended"] = "app-ended"


@dataclass(frozen=True, slots=True)
class AppMatched:
    """A registered application was found in YARN, under this id."""

    app: str
    yarn_app: str
    kind: Literal["app-matched"] = "app-matched"


@dataclass(frozen=True, slots=True)
class AppRevised:
    """An application changed its weight or its demand."""

    app: str
    kind: Literal["app-revised"] = "app-revised"


@dataclass(frozen=True, slots=True)
class JobsChanged:
    """An application declared other jobs than before."""

    app: str
    kind: Literal["jobs-changed"] = "jobs-changed"


@dataclass(frozen=True, slots=True)
class AppVacated:
    """An application confirmed that it is within its share."""

    app: str
    kind: Literal["app-vacated"] = "app-vacated"


@dataclass(frozen=True, slots=True)
class AppQuiet:
    """An unregistered application became idle."""

    app: str
    kind: Literal["app-quiet"] = "app-quiet"


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """A registered application was not submitted to YARN within `within_s` seconds."""

    app: str
    within_s: float
    kind: Literal["app-not-submitted"] = "app-not-submitted"


@dataclass(frozen=True, slots=True)
class PoolGone:
    """The pool of a registered application was removed from the configuration."""

    app: str
    pool: str
    kind: Literal["pool-gone"] = "pool-gone"


@dataclass(frozen=True, slots=True)
class OtherUser:
    """A YARN application of another user runs in the queue of a registered one."""

    app: str
    yarn_app: str
    kind: Literal["other-user"] = "other-user"


# What happened to the cluster.


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node was lost."""

    host: str
    kind: Literal["node-lost"] = "node-lost"


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node joined."""

    host: str
    kind: Literal["node-joined"] = "node-joined"


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node's capacity changed."""

    host: str
    kind: Literal["node-changed"] = "node-changed"


@dataclass(frozen=True, slots=True)
class QueueTreeChanged:
    """Queues were added or removed, or their capacities changed."""

    kind: Literal["queues-changed"] = "queues-changed"


@dataclass(frozen=True, slots=True)
class ForeignWeights:
    """The weights of `queues` queues were changed by someone else."""

    queues: int
    kind: Literal["foreign-weights"] = "foreign-weights"


# What happened to the arbiter and its connection to the ResourceManager.


@dataclass(frozen=True, slots=True)
class ArbiterStarted:
    """The arbiter started."""

    kind: Literal["arbiter-started"] = "arbiter-started"


@dataclass(frozen=True, slots=True)
class ManagerAnswers:
    """The ResourceManager responded."""

    kind: Literal["manager-answers"] = "manager-answers"


@dataclass(frozen=True, slots=True)
class ManagerPolled:
    """The ResourceManager's applications, nodes and queues were read."""

    kind: Literal["manager-polled"] = "manager-polled"


@dataclass(frozen=True, slots=True)
class WeightsRead:
    """The weights in the scheduler's configuration were read."""

    kind: Literal["weights-read"] = "weights-read"


@dataclass(frozen=True, slots=True)
class WeightsApplied:
    """The ResourceManager accepted the weights."""

    kind: Literal["weights-applied"] = "weights-applied"


@dataclass(frozen=True, slots=True)
class WeightsRejected:
    """The ResourceManager rejected the weights, or did not retain them."""

    kind: Literal["weights-rejected"] = "weights-rejected"


@dataclass(frozen=True, slots=True)
class GraceOver:
    """A timer fired, usually at the end of a grace period."""

    kind: Literal["grace-over"] = "grace-over"


@dataclass(frozen=True, slots=True)
class DemandsChanged:
    """Only the use or the demand of applications changed."""

    kind: Literal["demands-changed"] = "demands-changed"


# Frequent ones first: the codec tries the classes in this order.
Happening = (
    AppArrived
    | AppEnded
    | DemandsChanged
    | GraceOver
    | AppMatched
    | AppQuiet
    | AppRevised
    | JobsChanged
    | AppVacated
    | NodeLost
    | NodeJoined
    | NodeChanged
    | NotSubmitted
    | PoolGone
    | OtherUser
    | QueueTreeChanged
    | ForeignWeights
    | ArbiterStarted
    | ManagerAnswers
    | ManagerPolled
    | WeightsRead
    | WeightsApplied
    | WeightsRejected
)
"""Something that happened and may change shares or weights."""

MAX_NAMED = 3
"""How many happenings of a cycle are named; every share that changes carries them."""


@dataclass(frozen=True, slots=True)
class Causes:
    """The happenings of one cycle: the first ones, and the number of `more`."""

    named: tuple[Happening, ...]
    more: int = 0
    kind: Literal["causes"] = "causes"

    @staticmethod
    def of(happenings: Sequence[Happening]) -> "Causes":
        """All happenings up to MAX_NAMED; beyond that, the first MAX_NAMED - 1 and the number of the others."""
        if len(happenings) <= MAX_NAMED:
            return Causes(tuple(happenings))
        named = tuple(happenings[: MAX_NAMED - 1])
        return Causes(named, len(happenings) - len(named))


@dataclass(frozen=True, slots=True)
class LegacyText:
    """A sentence from an old journal, whose version had no causes as values."""

    text: str
    kind: Literal["said"] = "said"


# What explains a share.


@dataclass(frozen=True, slots=True)
class WeightedShare:
    """Weighted max-min: `weight` of `total_weight` over `apps` applications guarantees a fraction of the pool.

    `entitlement`: the fraction that it may hold now. `entitled_by`: what determines the entitlement: the guarantee,
    others that want less than their share, or its own demand below the guarantee.
    """

    weight: float
    total_weight: float
    apps: int
    guarantee: float
    entitlement: float
    entitled_by: Literal["guarantee", "others-want-less", "own-demand"]
    kind: Literal["weighted-share"] = "weighted-share"


@dataclass(frozen=True, slots=True)
class UserShare:
    """Max-min between users: each of `users` is guaranteed the same, of which `weight` of the `total_weight` of its
    `apps` applications guarantees this one a fraction of the pool. `entitlement`, `entitled_by`: see `WeightedShare`;
    the others may be the user's own applications."""

    users: int
    weight: float
    total_weight: float
    apps: int
    guarantee: float
    entitlement: float
    entitled_by: Literal["guarantee", "others-want-less", "own-demand"]
    kind: Literal["user-share"] = "user-share"


Explanation = WeightedShare | UserShare | LegacyText
"""A policy's explanation of a grant."""


# Why a command was issued.


@dataclass(frozen=True, slots=True)
class ShareCause:
    """Why a share changed: what happened, how many applications share the pool, and the policy's explanation."""

    causes: Causes
    apps: int
    explanation: Explanation
    kind: Literal["share"] = "share"


@dataclass(frozen=True, slots=True)
class OverShare:
    """An application is still over its share while others wait, `overstay_s` seconds after enforcement began."""

    app: str
    holds: Resources
    share: Resources
    overstay_s: float
    kind: Literal["overstays"] = "overstays"


@dataclass(frozen=True, slots=True)
class Preempted:
    """Containers are preempted since their application stayed over this share."""

    app: str
    share: Resources
    kind: Literal["overstayed"] = "overstayed"


@dataclass(frozen=True, slots=True)
class UseAsked:
    """The controller of the application's pool reads its use on each node."""

    app: str
    kind: Literal["use-asked"] = "use-asked"


@dataclass(frozen=True, slots=True)
class RegisteredBy:
    """A user registered an application; it was assigned this queue, or runs in it."""

    user: str
    queue: str
    kind: Literal["registered"] = "registered"


@dataclass(frozen=True, slots=True)
class ControllerFailed:
    """The controller of a pool raised an error; the pool stays unchanged until the retry."""

    pool: str
    error: str
    kind: Literal["controller-failed"] = "controller-failed"


@dataclass(frozen=True, slots=True)
class ControllerResumed:
    """The controller of a pool works again after a failure."""

    pool: str
    kind: Literal["controller-resumed"] = "controller-resumed"


@dataclass(frozen=True, slots=True)
class ControllerNotified:
    """The controller of a pool sent an application a message: `what` is "ask", "grant", "revoke", ..."""

    pool: str
    what: str
    kind: Literal["controller-says"] = "controller-says"


@dataclass(frozen=True, slots=True)
class NoLongerKnown:
    """An application was unregistered so long ago that the reason is no longer stored."""

    app: str
    kind: Literal["no-longer-known"] = "no-longer-known"


# Leases of GPUs.


@dataclass(frozen=True, slots=True)
class BidSetAside:
    """The auction failed on the bid of an application, with this error: it won nothing."""

    app: str
    error: str
    kind: Literal["bid-set-aside"] = "bid-set-aside"


@dataclass(frozen=True, slots=True)
class Evicted:
    """A lease is revoked for a gang of `app` (its `job`) in this virtual cluster, with this priority there."""

    app: str
    job: str
    virtual_cluster: str
    priority: int
    kind: Literal["evicted"] = "evicted"


@dataclass(frozen=True, slots=True)
class CellsReconfigured:
    """A lease is revoked since the cells are no longer part of the configuration of virtual clusters."""

    kind: Literal["cells-reconfigured"] = "cells-reconfigured"


@dataclass(frozen=True, slots=True)
class QuotaReduced:
    """A gang (a `job`) becomes opportunistic: the new quota of its virtual cluster has no cells for it."""

    job: str
    virtual_cluster: str
    kind: Literal["quota-reduced"] = "quota-reduced"


@dataclass(frozen=True, slots=True)
class LeaseRound:
    """A round in which GPUs were leased (Themis, thesis section 3.4.2.2).

    `opened_by`: "arrival", "lease-end", ... `gpus`: how many were allocated. `rhos`: everyone's finish-time fairness,
    None if unbounded, the worst first, but those that are ahead last. `bidders`: who was offered them and answered in
    time. `won`, `paid`: GPUs of each application, by the auction and withheld as hidden payment. `leftover`: GPUs
    given to applications that were not offered any. `idle`: how many nobody got, by reason. `gap`: how far the product
    of valuations may be from the optimum, in nats; None if the policy has no auction. `work`: of the solver, in its
    own units. `error`: why the round was without result. `set_aside`: the bids without which it was decided, since the
    auction failed on them. `discounted`: the factor for the bids of each application whose rho is worse than it
    promised. `ahead`: who has had more than an equal part of the pool's GPU time.
    """

    round: int
    policy: str
    opened_by: tuple[str, ...]
    gpus: int
    rhos: tuple[tuple[str, float | None], ...] = ()
    bidders: tuple[str, ...] = ()
    won: tuple[tuple[str, int], ...] = ()
    paid: tuple[tuple[str, int], ...] = ()
    leftover: tuple[tuple[str, int], ...] = ()
    idle: tuple[tuple[str, int], ...] = ()
    gap: float | None = None
    work: int = 0
    error: str | None = None
    set_aside: tuple[BidSetAside, ...] = ()
    discounted: tuple[tuple[str, float], ...] = ()
    ahead: tuple[str, ...] = ()
    kind: Literal["lease-round"] = "lease-round"


How = Literal["bid", "leftover", "policy", "kept", "recorded"]
"""How GPUs were won: by a bid, as leftover of the bidders, by a policy without auction, or kept since nobody else got
them; or their application has a record of it, and the arbiter had lost its own."""


@dataclass(frozen=True, slots=True)
class LeaseWon:
    """An application was allocated `gpus` GPUs of a round. `waited_s`: until former holders had vacated them."""

    round: int
    gpus: int
    how: How
    waited_s: float = 0.0
    kind: Literal["lease-won"] = "lease-won"


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The lease of `gpus` GPUs ended, and a round allocated them otherwise."""

    round: int
    gpus: int
    kind: Literal["lease-lost"] = "lease-lost"


@dataclass(frozen=True, slots=True)
class LeaseVacated:
    """GPUs were vacated, `after_s` seconds after they were revoked."""

    after_s: float
    kind: Literal["lease-vacated"] = "lease-vacated"


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """An application released GPUs before the end of their lease."""

    app: str
    kind: Literal["lease-released"] = "lease-released"


RefusedFor = Literal["unknown", "leased", "unused", "policy"]


@dataclass(frozen=True, slots=True)
class RecordRefused:
    """GPUs of a lease that an application has a record of are not leased to it.

    `why`: `unknown`, they are no usable GPUs of the pool; `leased`, to others; `unused`, YARN lists no containers of
    the application for them; `policy`, the pool's allocator does not lease them so, because of a quota, say.
    """

    lease: str
    gpus: tuple[str, ...]
    why: RefusedFor
    kind: Literal["record-refused"] = "record-refused"


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """GPUs on a node were leased, and YARN shows fewer in use there after `within_s` seconds."""

    node: str
    leased: int
    used: int
    within_s: float
    kind: Literal["not-placed"] = "not-placed"


@dataclass(frozen=True, slots=True)
class BeyondLease:
    """An application uses more GPUs of a node than it leases there."""

    app: str
    node: str
    used: int
    leased: int
    kind: Literal["beyond-lease"] = "beyond-lease"


@dataclass(frozen=True, slots=True)
class TooManyApps:
    """An application waits since the pool has its maximum number of applications, or their demand is at its limit."""

    app: str
    limit: Literal["max_apps", "max_demand"]
    allowed: float
    kind: Literal["too-many-apps"] = "too-many-apps"


@dataclass(frozen=True, slots=True)
class PoolSuperseded:
    """Another arbiter, at this address, controls the pool now, so that no lease of this one counts."""

    by: str
    kind: Literal["pool-superseded"] = "pool-superseded"


@dataclass(frozen=True, slots=True)
class LeasePlaced:
    """An allocator leased cells to an application, and says why, if it does. `waited_s`: until they were vacated."""

    note: str = ""
    waited_s: float = 0.0
    kind: Literal["lease-placed"] = "lease-placed"


@dataclass(frozen=True, slots=True)
class LeaseDropped:
    """An allocator took a lease back, and says why."""

    note: str
    kind: Literal["lease-dropped"] = "lease-dropped"


@dataclass(frozen=True, slots=True)
class LeaseReplaced:
    """Another lease of the same application took the place of a lease."""

    kind: Literal["lease-replaced"] = "lease-replaced"


@dataclass(frozen=True, slots=True)
class LeaseLapsed:
    """A lease reached its end, and its allocator did not keep it."""

    kind: Literal["lease-lapsed"] = "lease-lapsed"


LeaseCause = (
    LeaseRound
    | LeaseWon
    | LeaseLost
    | LeaseVacated
    | LeaseReleased
    | RecordRefused
    | NotPlaced
    | BeyondLease
    | TooManyApps
    | BidSetAside
    | PoolSuperseded
    | Evicted
    | CellsReconfigured
    | QuotaReduced
    | LeasePlaced
    | LeaseDropped
    | LeaseReplaced
    | LeaseLapsed
)
"""Why a lease was granted, revoked or ended."""

Ending = AppEnded | NotSubmitted | PoolGone | NoLongerKnown | LegacyText
"""Why an application is no longer followed."""

Cause = (
    Happening
    | Causes
    | WeightedShare
    | UserShare
    | ShareCause
    | OverShare
    | Preempted
    | UseAsked
    | RegisteredBy
    | ControllerFailed
    | ControllerResumed
    | ControllerNotified
    | NoLongerKnown
    | LeaseCause
    | LegacyText
)
"""Any cause; `kind` tells which."""

TAGS: dict[str, type] = {cause.__dataclass_fields__["kind"].default: cause for cause in get_args(Cause)}
"""Each class by its `kind`."""
