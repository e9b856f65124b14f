"""What a controller wants done. Beside these it may give the arbiter's `TellShare`, `ListContainers` and
`SignalContainers`; one that hosts others, also `PoolStopped` and `PoolResumed` of those.

The `id` of a command is unique in its pool: the pool's path and a counter in the controller's state, such as
`gpu/prod-a#17`. A command that is given again under the same id is the same command.
"""

from dataclasses import dataclass

from yarn_plugin.decide.commands import ListContainers, PoolResumed, PoolStopped, SignalContainers, TellShare
from yarn_plugin.decide.pools.inputs import Message
from yarn_plugin.model.causes import Cause
from yarn_plugin.model.share import Lease, LeaseClass


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake this controller at a time (in the arbiter's); None: not at all. One timer for each key."""

    key: str
    at: float | None


@dataclass(frozen=True, slots=True)
class WantWeights:
    """These weights are wanted for the pool's leaf queues, and no others; the arbiter sees to it."""

    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Solve:
    """Have a problem solved in the worker process; what comes of it is an `Outcome` with this id."""

    id: str
    problem: Message


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask an application something; what it answers by then is a `FromApp`."""

    id: str
    app: str
    question: Message
    answer_by: float


@dataclass(frozen=True, slots=True)
class Offer:
    """Offer an application something to bid on until then."""

    id: str
    app: str
    offer: Message
    bid_by: float


@dataclass(frozen=True, slots=True)
class Grant:
    """An application has these leases."""

    id: str
    app: str
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Renew:
    """A lease goes on until a later time; None: until it is revoked."""

    id: str
    app: str
    lease: str
    until: float | None


@dataclass(frozen=True, slots=True)
class Revoke:
    """A lease ends at a time: what it holds is to be vacated by then."""

    id: str
    app: str
    lease: str
    by: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class CancelRevoke:
    """A lease that was to end goes on after all."""

    id: str
    app: str
    lease: str


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A lease is over: what it held is not its application's any more. A controller says so of each of its leases, so
    that others (a host, the application) need not know how long it takes."""

    id: str
    app: str
    lease: str


@dataclass(frozen=True, slots=True)
class Downgrade:
    """A lease is of another class from now on."""

    id: str
    app: str
    lease: str
    to: LeaseClass


@dataclass(frozen=True, slots=True)
class Accept:
    """An application takes part."""

    id: str
    app: str


@dataclass(frozen=True, slots=True)
class Hold:
    """An application takes part later."""

    id: str
    app: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Reject:
    """An application does not take part."""

    id: str
    app: str
    cause: Cause


ToApp = Ask | Offer | Grant | Renew | Revoke | CancelRevoke | LeaseEnded | Downgrade | Accept | Hold | Reject
"""What an application is told on its stream."""

Command = (
    SetTimer | WantWeights | Solve | ToApp | TellShare | ListContainers | SignalContainers | PoolStopped | PoolResumed
)

TO_APP: dict[str, type] = {
    "ask": Ask,
    "offer": Offer,
    "grant": Grant,
    "renew": Renew,
    "revoke": Revoke,
    "cancel_revoke": CancelRevoke,
    "lease_ended": LeaseEnded,
    "downgrade": Downgrade,
    "accept": Accept,
    "hold": Hold,
    "reject": Reject,
}
"""Their tags, in journals and as the events of a stream."""

TAGS: dict[str, type] = {**TO_APP, "set_timer": SetTimer, "want_weights": WantWeights, "solve": Solve}
"""The tags of all: a controller may keep what it has given, to give it again, and a host what it holds back."""
