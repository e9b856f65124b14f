"""What an allocator wants done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.model.causes import Cause, LeaseRound, LeaseWon
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import LeaseClass

ADOPTED = "as its application recorded it"
"""The note of a lease that was granted before the journal was lost."""


class PlanError(ValueError):
    """A plan asks for what cannot be: it names the part and the reason."""


class Idle(StrEnum):
    """Why free cells are given to nobody."""

    NOT_WANTED = "not wanted"
    NO_ANSWERS = "no answers"
    TOO_FEW = "too few for any claim"
    QUOTA = "quotas are used up"
    RESERVED = "reserved"
    NOT_FASTER = "would make no claim faster"
    DECIDING = "a decision is under way"


@dataclass(frozen=True, slots=True)
class Holding:
    """A cell and what is held of it. No `amounts`: the whole cell, with all cells in it.

    Amounts are whole numbers of `vcores` and `memory-mb` of a node, or of `gpu-milli` (thousandths of the computing)
    and `gpu-memory-mb` of a GPU, where the pool allows to share GPUs: whole numbers, so that sums are exact.
    `container`: the container that hosts the sharers of the cell; None for an exclusive one.
    """

    cell: str
    amounts: Resources = field(default_factory=Resources)
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Lease cells to a claim, or to the pod number `member` of its gang.

    `alternative`: the index of the demand's alternative. `until`: the arbiter's time; None: no end. `gang`: a name that
    all leases which start together have. `replaces`: the key of a lease of the same claim that goes on until this one
    starts: cells of both pass over at once, the others are then revoked, with the grace period. `note`: told to the
    application. `job`: the one that it is for, of a claim that is of all jobs of its application. `won`: told
    instead of the note, if it was won in a round; the ledger counts the GPUs, and the time until it starts.
    """

    key: str
    claim: ClaimKey
    holdings: tuple[Holding, ...]
    member: int = 0
    alternative: int = 0
    kind: LeaseClass = "guaranteed"
    until: float | None = None
    gang: str | None = None
    replaces: str | None = None
    note: str = ""
    job: str = ""
    won: LeaseWon | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Let a lease end at this time instead; None: it has no end. If it is being revoked, the revocation is cancelled,
    unless it `is_revoked_still`. `cause`: why, for its holder."""

    key: str
    until: float | None
    cause: Cause | None = None
    is_revoked_still: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Revoke a lease: its holder has the grace period to vacate. `cells`: only these of its cells; empty: all."""

    key: str
    cause: Cause
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reclass:
    """Change the class of a lease."""

    key: str
    kind: LeaseClass
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell the holder of a lease which class it will have from a time on (the arbiter's). Nothing changes."""

    key: str
    kind: LeaseClass
    at: float
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take back a lease that has not started. Leases that were dropped for it go on leaving, unless they are kept."""

    key: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask an application; its answer, until `by`, is an `Answer`. `is_offer`: it may bid on what it is offered."""

    app: str
    question: Annotated[object, Tagged()]
    by: float
    is_offer: bool = False


@dataclass(frozen=True, slots=True)
class Solve:
    """Solve a problem in the worker process: `Solved` has the same key."""

    key: str
    problem: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class Wake:
    """Send `Due` at a time (the arbiter's), at once if it has come, after what else happened; None: not any more. One
    time for each key."""

    key: str
    at: float | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Tell an application that it has to wait, and why."""

    app: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a round, for reports. `inside`: the virtual cluster that it was of; empty: of the pool."""

    round: LeaseRound
    inside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """See the module, and rule 3 of the contract. `idle`: why cells stay free, by cell; None: as the last one said.

    `hold`, `accept`: applications that wait for others to leave, and those that waited.
    """

    withdraw: tuple[Withdraw, ...] = ()
    keep: tuple[Keep, ...] = ()
    reclass: tuple[Reclass, ...] = ()
    announce: tuple[Announce, ...] = ()
    drop: tuple[Drop, ...] = ()
    place: tuple[Place, ...] = ()
    ask: tuple[Ask, ...] = ()
    solve: tuple[Solve, ...] = ()
    wake: tuple[Wake, ...] = ()
    hold: tuple[Hold, ...] = ()
    accept: tuple[str, ...] = ()
    record: tuple[Record, ...] = ()
    idle: Mapping[str, Idle] | None = None


NOTHING = Plan()
