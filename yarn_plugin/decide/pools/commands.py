"""Commands of controllers. A controller may also issue the arbiter's `TellShare`, `ListContainers`, `SignalContainers`
and `RecordRound`.

The `id` of a command is unique in its pool: the pool's path and a counter in the controller's state, such as
`gpu/prod-a#17`. Commands are idempotent by id.
"""

from dataclasses import dataclass

from yarn_plugin.decide.commands import (
    ListContainers,
    RecordRound,
    SignalContainers,
    TellShare,
)
from yarn_plugin.decide.pools.inputs import Message
from yarn_plugin.model.causes import Cause, RecordRefused
from yarn_plugin.model.share import Lease, LeaseClass


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call this controller at a time (the arbiter's); None removes the timer. One timer per key."""

    key: str
    at: float | None


@dataclass(frozen=True, slots=True)
class WantWeights:
    """Set the weights of the pool's leaf queues to these, and no others. The arbiter enforces them."""

    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Solve:
    """Solve a problem in the worker process; the result is an `Outcome` with this id."""

    id: str
    problem: Message


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask an application a question; its answer, until `answer_by`, is a `FromApp`."""

    id: str
    app: str
    question: Message
    answer_by: float


@dataclass(frozen=True, slots=True)
class Offer:
    """Make an application an offer that it can bid on until `bid_by`."""

    id: str
    app: str
    offer: Message
    bid_by: float


@dataclass(frozen=True, slots=True)
class Grant:
    """Grant an application these leases."""

    id: str
    app: str
    leases: tuple[Lease, ...]
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Renew:
    """Extend a lease; `until` None: until it is revoked."""

    id: str
    app: str
    lease: str
    until: float | None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """Revoke a lease: its cells must be vacated by a time. `cells`: only these of its cells; empty: all."""

    id: str
    app: str
    lease: str
    by: float
    cause: Cause
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelRevoke:
    """Cancel the revocation of a lease."""

    id: str
    app: str
    lease: str


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A lease ended, and its cells are released. Issued for every lease, so that hosts and applications need not track
    times. `cells`: only these of its cells were released, and the lease goes on with the others; empty: all."""

    id: str
    app: str
    lease: str
    cells: tuple[str, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Downgrade:
    """Change the class of a lease. `effective_at`: it will change then, unless a later one says otherwise; None: it has
    changed."""

    id: str
    app: str
    lease: str
    to: LeaseClass
    cause: Cause | None = None
    effective_at: float | None = None


@dataclass(frozen=True, slots=True)
class Accept:
    """Accept an application."""

    id: str
    app: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Make an application wait."""

    id: str
    app: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Reject:
    """Reject an application."""

    id: str
    app: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell an application that GPUs it has a record of are not leased to it: it must leave them."""

    id: str
    app: str
    cause: RecordRefused


ToApp = Ask | Offer | Grant | Renew | Revoke | CancelRevoke | LeaseEnded | Downgrade | Accept | Hold | Reject | Refuse
"""Messages to an application, sent on its stream."""

ABOUT_LEASES = (Grant, Renew, Revoke, CancelRevoke, LeaseEnded, Downgrade)
"""Messages that someone who reads what an application leases need not have received."""

Command = SetTimer | WantWeights | Solve | ToApp | TellShare | ListContainers | SignalContainers | RecordRound

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
    "refuse": Refuse,
}
"""Their tags, in journals and as the events of a stream."""

TAGS: dict[str, type] = {**TO_APP, "set_timer": SetTimer, "want_weights": WantWeights, "solve": Solve}
"""The tags of all commands: controllers store commands to reissue them, and hosts to delay them."""
