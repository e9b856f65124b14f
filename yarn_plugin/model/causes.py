"""Why something was decided, as values: what happened, what explains a share, why a command was given.

Nothing here is a sentence: `yarn_plugin.api.causes` renders one for a person, and everybody else decides on the fields.
Each class has a `kind`, which names it in journals and on the wire whatever the class is called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from yarn_plugin.model.resources import Resources

# What happened to an application.


@dataclass(frozen=True, slots=True)
class AppArrived:
    """An application is new: the arbiter's id, or YARN's where it is not registered."""

    app: str
    kind: Literal["app-arrived"] = "app-arrived"


@dataclass(frozen=True, slots=True)
class AppEnded:
    """An application has ended, or has deregistered."""

    app: str
    kind: Literal["app-ended"] = "app-ended"


@dataclass(frozen=True, slots=True)
class AppMatched:
    """A registered application runs in YARN, under this id."""

    app: str
    yarn_app: str
    kind: Literal["app-matched"] = "app-matched"


@dataclass(frozen=True, slots=True)
class AppRevised:
    """An application changed its weight or its demand."""

    app: str
    kind: Literal["app-revised"] = "app-revised"


@dataclass(frozen=True, slots=True)
class AppVacated:
    """An application holds no more than it was told."""

    app: str
    kind: Literal["app-vacated"] = "app-vacated"


@dataclass(frozen=True, slots=True)
class AppQuiet:
    """An unregistered application wants nothing any more."""

    app: str
    kind: Literal["app-quiet"] = "app-quiet"


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """A registered application was not seen in YARN within so many seconds."""

    app: str
    within_s: float
    kind: Literal["app-not-submitted"] = "app-not-submitted"


@dataclass(frozen=True, slots=True)
class PoolGone:
    """The pool of a registered application is not configured any more."""

    app: str
    pool: str
    kind: Literal["pool-gone"] = "pool-gone"


@dataclass(frozen=True, slots=True)
class OtherUser:
    """A YARN application runs in the queue of a registered one, as a user who is not its owner."""

    app: str
    yarn_app: str
    kind: Literal["other-user"] = "other-user"


# What happened to the cluster.


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node takes no containers any more."""

    host: str
    kind: Literal["node-lost"] = "node-lost"


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node takes containers now."""

    host: str
    kind: Literal["node-joined"] = "node-joined"


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node's capacity is another."""

    host: str
    kind: Literal["node-changed"] = "node-changed"


@dataclass(frozen=True, slots=True)
class QueueTreeChanged:
    """Queues came, went, or have another capacity."""

    kind: Literal["queues-changed"] = "queues-changed"


@dataclass(frozen=True, slots=True)
class ForeignWeights:
    """Somebody else wrote the weights of so many queues."""

    queues: int
    kind: Literal["foreign-weights"] = "foreign-weights"


# What happened to the arbiter, or between it and the ResourceManager.


@dataclass(frozen=True, slots=True)
class ArbiterStarted:
    """The arbiter started, or was configured."""

    kind: Literal["arbiter-started"] = "arbiter-started"


@dataclass(frozen=True, slots=True)
class ManagerAnswers:
    """The ResourceManager was reached."""

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
    """The ResourceManager took the weights."""

    kind: Literal["weights-applied"] = "weights-applied"


@dataclass(frozen=True, slots=True)
class WeightsRejected:
    """The ResourceManager did not take the weights, or did not keep them."""

    kind: Literal["weights-rejected"] = "weights-rejected"


@dataclass(frozen=True, slots=True)
class GraceOver:
    """A timer fired: mostly, a grace is over."""

    kind: Literal["grace-over"] = "grace-over"


@dataclass(frozen=True, slots=True)
class DemandsChanged:
    """Nothing but how much applications use or want."""

    kind: Literal["demands-changed"] = "demands-changed"


# The frequent ones first: a journal's writer and reader try one after the other.
Happening = (
    AppArrived
    | AppEnded
    | DemandsChanged
    | GraceOver
    | AppMatched
    | AppQuiet
    | AppRevised
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
"""One thing that happened, and for which shares or weights may change."""

MAX_NAMED = 3
"""How many happenings of one cycle are named: every share that it changes carries them."""


@dataclass(frozen=True, slots=True)
class Causes:
    """What happened in one cycle: the first happenings, and how many `more` there were."""

    named: tuple[Happening, ...]
    more: int = 0
    kind: Literal["causes"] = "causes"

    @staticmethod
    def of(happenings: Sequence[Happening]) -> "Causes":
        """All of them up to MAX_NAMED; of more, one less than that, and the number of the others."""
        if len(happenings) <= MAX_NAMED:
            return Causes(tuple(happenings))
        named = tuple(happenings[: MAX_NAMED - 1])
        return Causes(named, len(happenings) - len(named))


@dataclass(frozen=True, slots=True)
class LegacyText:
    """A sentence from a journal whose version had no values. Nothing else makes one."""

    text: str
    kind: Literal["said"] = "said"


# What explains a share.


@dataclass(frozen=True, slots=True)
class WeightedShare:
    """Max-min by weight: `weight` of `total_weight` over `apps` applications guarantees a fraction of the pool.

    `entitlement`: the fraction that it may hold now. `entitled_by`: what makes it that: the guarantee itself, others
    that want less than theirs, or its own demand, which is below the guarantee.
    """

    weight: float
    total_weight: float
    apps: int
    guarantee: float
    entitlement: float
    entitled_by: Literal["guarantee", "others-want-less", "own-demand"]
    kind: Literal["weighted-share"] = "weighted-share"


Explanation = WeightedShare | LegacyText
"""How a policy came to a grant."""


# Why a command was given.


@dataclass(frozen=True, slots=True)
class ShareCause:
    """Why a share changed: what happened, how many applications share the pool now, what the policy made of it."""

    causes: Causes
    apps: int
    explanation: Explanation
    kind: Literal["share"] = "share"


@dataclass(frozen=True, slots=True)
class OverShare:
    """An application holds more than its share although others have waited for so many seconds."""

    app: str
    holds: Resources
    share: Resources
    overstay_s: float
    kind: Literal["overstays"] = "overstays"


@dataclass(frozen=True, slots=True)
class Preempted:
    """Containers end because their application held more than this share for too long."""

    app: str
    share: Resources
    kind: Literal["overstayed"] = "overstayed"


@dataclass(frozen=True, slots=True)
class UseAsked:
    """The controller of an application's pool reads what it holds on each node."""

    app: str
    kind: Literal["use-asked"] = "use-asked"


@dataclass(frozen=True, slots=True)
class RegisteredBy:
    """A user has registered an application, which was given this queue or runs in it."""

    user: str
    queue: str
    kind: Literal["registered"] = "registered"


@dataclass(frozen=True, slots=True)
class ControllerFailed:
    """The controller of a pool raised an error, and the pool stays as it was until it is called again."""

    pool: str
    error: str
    kind: Literal["controller-failed"] = "controller-failed"


@dataclass(frozen=True, slots=True)
class ControllerResumed:
    """The controller of a pool decides again after it had failed."""

    pool: str
    kind: Literal["controller-resumed"] = "controller-resumed"


@dataclass(frozen=True, slots=True)
class ControllerNotified:
    """The controller of a pool tells an application something: `what` (such as "ask", "grant", "revoke")."""

    pool: str
    what: str
    kind: Literal["controller-says"] = "controller-says"


@dataclass(frozen=True, slots=True)
class NoLongerKnown:
    """An application was let go of, so long ago that it is not remembered why."""

    app: str
    kind: Literal["no-longer-known"] = "no-longer-known"


Ending = AppEnded | NotSubmitted | PoolGone | NoLongerKnown | LegacyText
"""Why an application is no longer followed."""

Cause = (
    Happening
    | Causes
    | WeightedShare
    | ShareCause
    | OverShare
    | Preempted
    | UseAsked
    | RegisteredBy
    | ControllerFailed
    | ControllerResumed
    | ControllerNotified
    | NoLongerKnown
    | LegacyText
)
"""Any of them. A reader tells them apart by `kind`."""

TAGS: dict[str, type] = {cause.__dataclass_fields__["kind"].default: cause for cause in get_args(Cause)}
"""Each class by its `kind`."""
