"""What a round of the auction is given, and what it decides. The solver's worker process exchanges these values."""

from dataclasses import dataclass
from typing import Literal

from yarn_plugin.model.auction import Row
from yarn_plugin.model.causes import BidSetAside
from yarn_plugin.model.gpus import Gpus, Machine

Rounding = Literal["up", "nearest", "down"]
"""To which usable number of GPUs the share that a winner keeps is rounded; see `rounding.kept_of`."""


@dataclass(frozen=True, slots=True)
class Gang:
    """What each of `trials` trials can use: min, min + step, min + 2 step, ... up to max GPUs."""

    min_gpus: int = 1
    max_gpus: int = 1
    step_gpus: int = 1
    trials: int = 1


@dataclass(frozen=True, slots=True)
class AppBid:
    """The bid table of an application, already checked (`validity.checked_bid`).

    `rho`: finish-time fairness with nothing of the offer; None: unbounded. `held`: the GPUs that it keeps whatever it
    wins. `expiring`: GPUs of the offer on which it runs until it loses them. Placement prefers the machines of both.
    `gangs`: of its trials; empty: it can use any number.
    """

    app: str
    rho: float | None
    rows: tuple[Row, ...]
    held: Gpus = ()
    expiring: Gpus = ()
    gangs: tuple[Gang, ...] = ()


@dataclass(frozen=True, slots=True)
class AppWithoutBid:
    """An application that does not bid in this round. `wants`: how many GPUs beyond `held` it could use."""

    app: str
    wants: int
    held: Gpus = ()
    expiring: Gpus = ()
    gangs: tuple[Gang, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOfUser(AppWithoutBid):
    """One of a `user`, whose applications take turns. `comes_last`: its user bids, or it has had more than its part, so
    it gets what the others cannot use. A type of its own, so that problems without it are journaled as before."""

    user: str
    comes_last: bool


@dataclass(frozen=True, slots=True)
class PartialAllocationProblem:
    """A round: who gets which of the free GPUs of `machines`.

    `work_limit`: steps of the search, after which the best allocation found is taken and its gap stated. `seed`: of the
    draw for leftovers, together with `round`. `exact_shares`: find the share that each winner keeps exactly, not only
    the number of GPUs that follows from it. `payments`: False leaves winners all they win.
    """

    round: int
    seed: int
    machines: tuple[Machine, ...]
    bids: tuple[AppBid, ...]
    without_bid: tuple[AppOfUser | AppWithoutBid, ...] = ()
    work_limit: int = 20_000
    rounding: Rounding = "up"
    exact_shares: bool = False
    payments: bool = True


@dataclass(frozen=True, slots=True)
class Award:
    """What a bidder gets.

    `row`: the index of the row that it wins; None: none. `won`: the GPUs of that row; `kept`: of these, what is left
    after the payment. `share_min`, `share_max`: bounds of the share of its GPUs that it keeps (thesis, Pseudocode 3:
    `c_i`), equal if it is known exactly; both 1 without a row. `decided`: `kept` is what the exact share gives.
    """

    app: str
    row: int | None
    won: Gpus = ()
    kept: Gpus = ()
    share_min: float = 1.0
    share_max: float = 1.0
    decided: bool = True


@dataclass(frozen=True, slots=True)
class Leftover:
    """GPUs that an application without a bid gets."""

    app: str
    gpus: Gpus


@dataclass(frozen=True, slots=True)
class Idle:
    """GPUs of one slot that nobody gets.

    `reason`: "not wanted": no application without a bid can use more GPUs, and no row that would improve the allocation
    contains these; "gang": those that could use more need more GPUs at once than are left.
    """

    slot: str
    gpus: int
    reason: Literal["not wanted", "gang"]


@dataclass(frozen=True, slots=True)
class PartialAllocation:
    """The result of a round.

    `awards`: one a bidder, sorted by name. `value`: the sum of log(rho without / rho with the row won), in nats. `gap`:
    no allocation is better by more, in nats; `proven`: it is 0, up to
    `search.TIE`. `work`: search steps taken. `set_aside`: the bids on which the auction failed; they win nothing.
    """

    round: int
    awards: tuple[Award, ...]
    leftovers: tuple[Leftover, ...]
    idle: tuple[Idle, ...]
    value: float
    gap: float
    proven: bool
    work: int
    set_aside: tuple[BidSetAside, ...] = ()
