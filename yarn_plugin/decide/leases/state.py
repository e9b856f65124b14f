"""The state of a ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.allocators.plan import Idle
from yarn_plugin.decide.allocators.seen import Leased
from yarn_plugin.decide.pools.commands import Ask, Offer, Revoke, Solve
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim


@dataclass(frozen=True, slots=True)
class Entry:
    """A lease in the ledger. `id`: as applications know it. `said`: how many commands were about it.

    While cells of it are revoked: `revoke`, the command, which is issued again after a restart; `revoked_at`; and
    `lists_tell`, whether container lists tell when they are vacated (see `handover`; None: not looked at yet);
    `released`, those of them that the holder says it has vacated; `running`, the containers that its application
    had when they were revoked (None: by rules that do not look at them); `still_used`, the GPUs of each node that these
    use by a list which was asked for since (None: there is none yet).

    `succeeds`: it replaced another lease, so that containers of that one may go on.

    `is_placed`: it was seen in use, or is no longer expected to be; `listed_at`: when containers were last listed once
    more before that is decided. `granted`: of its cells that are no single GPUs, what its application knows them by:
    the GPUs that they had when it started. `told_end`: the end of which the allocator was told that it comes.
    """

    leased: Leased
    id: str
    said: int = 0
    revoke: Annotated[Revoke | None, Tagged()] = None
    revoked_at: float | None = None
    lists_tell: bool | None = None
    released: tuple[str, ...] = ()
    running: tuple[str, ...] | None = None
    still_used: Mapping[str, int] | None = None
    succeeds: bool = False
    is_placed: bool = False
    listed_at: float | None = None
    granted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    told_end: float | None = None

    @property
    def key(self) -> str:
        """The allocator's key."""
        return self.leased.key

    @property
    def app(self) -> str:
        """The application that holds it."""
        return self.leased.claim[0]

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that it holds as a whole."""
        whole = (one.cell for one in self.leased.holdings if not one.amounts)
        return tuple([gpu for cell in whole for gpu in self.granted.get(cell, (cell,))])

    @property
    def is_started(self) -> bool:
        """Whether its application was granted it."""
        return self.leased.started_at is not None

    def is_overdue(self, at: float) -> bool:
        """Whether cells of it are revoked, and the time to vacate them is over."""
        return self.leased.by is not None and self.leased.by <= at


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node as the allocator knows it: its parent, its capacity, its usable GPUs, and which cells of it are broken."""

    parent: str | None
    capacity: Resources
    gpus: int = 0
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """An open question or offer: the command, and how long it waits for an answer, in seconds."""

    command: Annotated[Ask | Offer, Tagged()]
    wait_s: float


@dataclass(frozen=True, slots=True)
class Problem:
    """An open problem: the allocator's key, and the command."""

    key: str
    command: Annotated[Solve, Tagged()]


@dataclass(frozen=True, slots=True)
class Excess:
    """An application uses more GPUs of a node than it leases. `since`: when that began. `listed_at`: when its
    containers were last listed to be signalled."""

    since: float
    listed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Strangers:
    """Applications outside the pool use so many GPUs of a node. `surplus`: what nothing else explained at the last
    call (see `room.strangers`)."""

    gpus: int = 0
    surplus: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """`leases`: by the allocator's key. `counter`: of ids. `has_begun`: the allocator has been told that the pool
    began. `records_due`: applications with records of earlier leases are awaited, until `records_until` (None: YARN is
    away).

    `claims` and `nodes`: as the allocator knows them. `asked`, `problems`: by the id of the command. `wakes`: by key.
    `excess`: by "app node". `strangers`: by node. `crowded`: free GPUs that cannot be leased now (see `room`). `idle`:
    why cells are free.
    """

    counter: int = 0
    has_begun: bool = False
    records_due: bool = False
    records_until: float | None = None
    leases: Mapping[str, Entry] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    nodes: Mapping[str, KnownNode] = field(default_factory=dict)
    asked: Mapping[str, Question] = field(default_factory=dict)
    problems: Mapping[str, Problem] = field(default_factory=dict)
    wakes: Mapping[str, float] = field(default_factory=dict)
    excess: Mapping[str, Excess] = field(default_factory=dict)
    strangers: Mapping[str, Strangers] = field(default_factory=dict)
    crowded: tuple[str, ...] = ()
    idle: Mapping[str, Idle] = field(default_factory=dict)


def key_of(claim: Claim) -> ClaimKey:
    """The key of a claim."""
    return claim.app, claim.job
