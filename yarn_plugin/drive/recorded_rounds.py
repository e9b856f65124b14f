"""What a journal recorded of a pool of leased GPUs: its rounds, and who held which GPU. For operators and reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from yarn_plugin.api.missed_bids import MissedBid, missed_bids
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.commands import Admit, Command, Dismiss, RecordRound, SendToApp
from yarn_plugin.decide.events import AppSaid, Event, Solved
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.mechanisms.partial_allocation import Award, PartialAllocation
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.lease import LeaseSettings
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.auction import Bid, GpuOffer
from yarn_plugin.model.causes import How, LeaseLost, LeaseRound, LeaseWon
from yarn_plugin.model.gpus import total
from yarn_plugin.model.share import Pool


@dataclass(slots=True)
class RecordedApp:
    """An application of the pool; `ended_at`: None if it has not ended."""

    app: str
    name: str
    registered_at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedBid:
    """A bid: rho with nothing of the offer (None: unbounded), and with the best of `rows` subsets of it."""

    app: str
    rho: float | None
    rows: int
    best_rho: float | None
    best_gpus: int


@dataclass(frozen=True, slots=True)
class RecordedAward:
    """What a bidder won and kept, in GPUs. `share_min`, `share_max`: bounds of the part of its GPUs that it keeps by
    the hidden payment (Themis, thesis, Pseudocode 3: `c_i`), equal where it is known exactly."""

    app: str
    won: int
    kept: int
    share_min: float
    share_max: float


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """A round. `rhos`: everyone's finish-time fairness (None: unbounded), the worst first. `offered_to`: who could bid.

    `missed_bids`: those of them that made no bid that counts, and why.
    `leftovers`, `kept_unwanted`: GPUs dealt to applications that were not offered any, and left to silent holders.
    `idle`: GPUs that nobody got, by reason. `error`: why it had no result.
    """

    round: int
    at: float
    opened_by: tuple[str, ...]
    gpus: int
    rhos: tuple[tuple[str, float | None], ...]
    offered_to: tuple[str, ...]
    bids: tuple[RecordedBid, ...]
    awards: tuple[RecordedAward, ...]
    leftovers: tuple[tuple[str, int], ...]
    kept_unwanted: tuple[tuple[str, int], ...]
    idle: tuple[tuple[str, int], ...]
    error: str | None
    missed_bids: tuple[MissedBid, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedWin:
    """A lease was won in a round, or won again; `how`: None if the round had no result, or a ledger by rules before 4
    granted it."""

    round: int | None
    how: How | None
    at: float


@dataclass(slots=True)
class RecordedLease:
    """A GPU in a lease, from its grant to its end (None: held at the end of the journal).

    `revoked_at`, `lost_in`: when it was revoked, in which round. `ended_by`: the kind of the cause of its end.
    """

    app: str
    lease: str
    cell: str
    start: float
    wins: list[RecordedWin] = field(default_factory=list)
    revoked_at: float | None = None
    lost_in: int | None = None
    end: float | None = None
    ended_by: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedRounds:
    """See the module. Times are seconds since the epoch. `complete`: the journal goes back to the arbiter's start."""

    pool: str
    f: float
    lease_s: float
    payments: bool
    complete: bool
    apps: tuple[RecordedApp, ...]
    rounds: tuple[RecordedRound, ...]
    leases: tuple[RecordedLease, ...]


def round_settings(pool: Pool) -> LeaseSettings | None:
    """The settings of a pool's rounds; None if it has none, or only in virtual clusters."""
    match pool.parameters:
        case LeaseSettings() as settings:
            return settings
        case LedgerSettings() as ledger if ledger.allocator == THEMIS:
            own = ledger.settings if isinstance(ledger.settings, AuctionSettings) else AuctionSettings()
            return own.of_rounds(ledger.seed, ledger.rules, ledger.grace_s)
        case _:
            return None


def recorded_rounds(pool: Pool, history: Sequence[Decided[Event, Command]]) -> RecordedRounds:
    """What was recorded of a pool whose GPUs are leased."""
    settings = round_settings(pool)
    assert settings is not None
    reader = _Reader(pool.name)
    for decided in history:
        reader.take(decided)
    complete = bool(history) and history[0].seq == 1
    missed = missed_bids(history)
    rounds = tuple(replace(one, missed_bids=missed.get((pool.name, one.round), ())) for one in reader.rounds)
    found = tuple(reader.apps.values()), rounds, tuple(reader.leases)
    return RecordedRounds(pool.name, settings.f, settings.lease_s, settings.payments, complete, *found)


class _Reader:
    """Reads decisions in order. What a round was offered, bid and awarded comes before its record."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self.apps: dict[str, RecordedApp] = {}
        self.rounds: list[RecordedRound] = []
        self.leases: list[RecordedLease] = []
        self._held: dict[tuple[str, str], RecordedLease] = {}
        self._offered: dict[int, list[str]] = {}
        self._bids: dict[int, list[RecordedBid]] = {}
        self._result: PartialAllocation | None = None

    def take(self, decided: Decided[Event, Command]) -> None:
        """Take a decision."""
        match decided.event:
            case AppSaid(app, Bid() as bid) if app in self.apps:
                self._bids.setdefault(bid.round, []).append(_bid(app, bid))
            case Solved(pool=self._pool, result=PartialAllocation() as result):
                self._result = result
        for command in decided.commands:
            self._commanded(decided.wall, command)

    def _commanded(self, at: float, command: Command) -> None:
        match command:
            case Admit(registration) if registration.pool == self._pool:
                self.apps.setdefault(registration.id, RecordedApp(registration.id, registration.name, at))
            case Dismiss(app) if app in self.apps:
                self.apps[app].ended_at = at
            case RecordRound(self._pool, cause):
                self.rounds.append(self._round(at, cause))
            case SendToApp(self._pool, app, message):
                self._told(at, app, message)

    def _told(self, at: float, app: str, message: object) -> None:
        match message:
            case Offer(offer=GpuOffer(round=number)):
                self._offered.setdefault(number, []).append(app)
            case Grant(leases=leases, cause=cause):
                for lease in leases:
                    for holding in lease.holdings:
                        self._hold(RecordedLease(app, lease.id, holding.cell, at, [_win(at, cause)]))
            case Renew(lease=lease, cause=cause):
                for held in self._of(lease):
                    held.wins.append(_win(at, cause))
            case Revoke(lease=lease, cells=cells, cause=cause):
                for held in self._of(lease, cells):
                    held.revoked_at = at
                    held.lost_in = cause.round if isinstance(cause, LeaseLost) else None
            case LeaseEnded(lease=lease, cells=cells, cause=cause):
                for held in self._of(lease, cells):
                    held.end, held.ended_by = at, None if cause is None else cause.kind
                    del self._held[held.lease, held.cell]

    def _hold(self, lease: RecordedLease) -> None:
        """Note a grant, which is sent again after a restart of the arbiter."""
        key = lease.lease, lease.cell
        if key not in self._held:
            self._held[key] = lease
            self.leases.append(lease)

    def _of(self, lease: str, cells: Sequence[str] = ()) -> list[RecordedLease]:
        return [one for (name, cell), one in self._held.items() if name == lease and (not cells or cell in cells)]

    def _round(self, at: float, cause: LeaseRound) -> RecordedRound:
        result = self._result if self._result is not None and self._result.round == cause.round else None
        dealt = {} if result is None else {one.app: total(one.gpus) for one in result.leftovers}
        kept = [(app, gpus - dealt.get(app, 0)) for app, gpus in cause.leftover]
        return RecordedRound(
            cause.round,
            at,
            cause.opened_by,
            cause.gpus,
            cause.rhos,
            tuple(self._offered.pop(cause.round, ())),
            tuple(one for one in self._bids.pop(cause.round, ()) if one.app in cause.bidders),
            () if result is None else tuple(map(_award, result.awards)),
            tuple(dealt.items()),
            tuple((app, gpus) for app, gpus in kept if gpus > 0),
            cause.idle,
            cause.error,
        )


def _bid(app: str, bid: Bid) -> RecordedBid:
    best = min(bid.rows, key=lambda row: row.rho, default=None)
    if best is None:
        return RecordedBid(app, bid.rho, 0, None, 0)
    return RecordedBid(app, bid.rho, len(bid.rows), best.rho, sum(piece.gpus for piece in best.pieces))


def _award(award: Award) -> RecordedAward:
    return RecordedAward(award.app, total(award.won), total(award.kept), award.share_min, award.share_max)


def _win(at: float, cause: object) -> RecordedWin:
    return RecordedWin(cause.round, cause.how, at) if isinstance(cause, LeaseWon) else RecordedWin(None, None, at)
