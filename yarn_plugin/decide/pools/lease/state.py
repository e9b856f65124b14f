"""The state of a pool whose GPUs are leased."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from yarn_plugin.decide.leases.state import Excess
from yarn_plugin.decide.mechanisms.cached_table import CachedTable
from yarn_plugin.decide.mechanisms.partial_allocation import Gang
from yarn_plugin.decide.pools.lease.inventory import BySlot
from yarn_plugin.model.auction import Bid, Estimate
from yarn_plugin.model.causes import BidSetAside, How, LeaseRound
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Lease


@dataclass(frozen=True, slots=True)
class Member:
    """An application that takes part. `arrived_at`: seconds. `area`: the contention integral at its arrival, less what
    was counted for it alone (`members.count_until_now`).

    `demand`: GPUs that it registered; None: unlimited. `rho`: its last estimate, None: unbounded or not known.
    `estimated_in`: the round of that estimate; None: none so far. `waits`: it is not admitted yet. `gangs` and
    `cluster_s`: of the jobs in its last estimate, what they can use, and the seconds that they take on the whole pool
    (None: not known). `user`: whose it is. `table`: its last bid, made in round `table_round`; `counted_at`: until when
    the work done since is taken off. `attained_gpu_s`: GPU seconds that it leased until `attained_at` (None: it has
    held none). `unkept`: what is missing of what its bids promised, in nats (see `promises`).
    `parts_gpu_s`: `LeaseState.parts_gpu_s` at its arrival, less what was counted for it alone; None: it arrived when
    that was not counted.
    """

    arrived_at: float
    area: float
    demand: int | None = None
    rho: float | None = None
    estimated_in: int | None = None
    waits: bool = False
    gangs: tuple[Gang, ...] = ()
    cluster_s: float | None = None
    table: CachedTable | None = None
    table_round: int = 0
    counted_at: float = 0.0
    attained_gpu_s: float = 0.0
    attained_at: float | None = None
    unkept: float = 0.0
    user: str = ""
    parts_gpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A lease. `round`, `how`, `won_at`: the round that it was won in, how, and when. `started_at`: None while former
    holders still have some of its GPUs. `revoked_at`: when GPUs of it were last revoked, by
    the command `revoke`.

    `leaving`: those of its GPUs that are revoked, to be vacated `by` then. `is_placed`: it was seen in use, or is no
    longer expected to be; `listed_at`: when containers were last listed once more before that is decided.
    `lists_tell`: whether YARN's container lists tell when the revoked GPUs are vacated (see `handover`); None: not
    looked at yet. `released`: those of `leaving` that the holder says it has vacated.
    """

    lease: Lease
    round: int
    how: How
    won_at: float
    started_at: float | None = None
    leaving: tuple[str, ...] = ()
    by: float | None = None
    revoked_at: float | None = None
    revoke: str | None = None
    is_placed: bool = False
    listed_at: float | None = None
    lists_tell: bool | None = None
    released: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """Its GPUs."""
        return tuple([holding.cell for holding in self.lease.holdings])

    @property
    def stays(self) -> bool:
        """Whether it has any GPUs that are not revoked."""
        return len(self.leaving) < len(self.lease.holdings)

    @property
    def staying(self) -> tuple[str, ...]:
        """Its GPUs that are not revoked."""
        return tuple(gpu for gpu in self.gpus if gpu not in self.leaving) if self.leaving else self.gpus


@dataclass(frozen=True, slots=True)
class FaultyBids:
    """The search for bids with which the solver's process is lost (see `faulty_bids`). `admitted`: bidders with whose
    bids it is not. `waiting`: groups of others; the first is tried now."""

    admitted: tuple[str, ...] = ()
    waiting: tuple[tuple[str, ...], ...] = ()
    set_aside: tuple[BidSetAside, ...] = ()


Phase = Literal["estimating", "offered", "solving"]


@dataclass(frozen=True, slots=True)
class Round:
    """A round in progress.

    `opened_by`: what opened it. `asked`: the commands that wait for an answer, by application. `deadline`: of answers;
    None while the solver works. `offer`: its GPUs (earlier versions listed them). `ending`: the leases that some belong
    to; their holders train on. `solve`: the id of the command, tried `tries` times. `decide_at`:
    when its result takes effect. `faulty`: the search for bids with which the solver's process is lost, if it was.
    """

    number: int
    opened_at: float
    opened_by: tuple[str, ...]
    phase: Phase
    asked: Mapping[str, str] = field(default_factory=dict)
    deadline: float | None = None
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    rhos: tuple[tuple[str, float | None], ...] = ()
    offer: BySlot | tuple[str, ...] = field(default_factory=dict)
    ending: tuple[str, ...] = ()
    bidders: tuple[str, ...] = ()
    bids: Mapping[str, Bid] = field(default_factory=dict)
    solve: str | None = None
    tries: int = 0
    decide_at: float | None = None
    result: Annotated[object, Tagged()] = None
    faulty: FaultyBids | None = None


@dataclass(frozen=True, slots=True)
class LeaseState:
    """`counter`: of ids. `area` and `counted_at`: the integral of the number of applications over time, until then.

    `machines`: usable machines and their GPUs as last seen. `triggers`: what the next round will be opened by, at
    `open_at`. `idle`: GPUs that the last round left idle. `open`: commands that are issued again after a restart, by
    id. `excess`: where an application uses more GPUs of a node than it leases, by "app node". `last`: the record of
    the last round. `crowded`: GPUs in no lease that cannot be offered now (see `room`). `parts_gpu_s`: the GPU
    seconds of an equal part of the pool, until `counted_at`.
    """

    counter: int = 0
    round_number: int = 0
    area: float = 0.0
    counted_at: float | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    machines: tuple[tuple[str, int], ...] = ()
    leases: Mapping[str, Held] = field(default_factory=dict)
    round: Round | None = None
    triggers: tuple[str, ...] = ()
    open_at: float | None = None
    idle: BySlot | tuple[str, ...] = field(default_factory=dict)
    open: Mapping[str, Annotated[object, Tagged()]] = field(default_factory=dict)
    excess: Mapping[str, Excess] = field(default_factory=dict)
    last: LeaseRound | None = None
    crowded: tuple[str, ...] = ()
    parts_gpu_s: float = 0.0
