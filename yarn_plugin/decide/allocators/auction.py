"""Rounds in which GPUs are leased for a time: by the auction of Themis (thesis, sections 3.3.3 and 3.4), or by a policy
without auctions (section 3.6.1).

A round is a conversation: everyone says its finish-time fairness, the worst off are offered the GPUs that are free or
whose leases have ended, they bid, the worker process solves, and leases are placed, kept and dropped. Holders train on
until then, so leases of this allocator do not lapse: a round opens when they end. How rounds decide is in
`decide.pools.lease`; here they are driven by what the ledger says happened. Each claim is an application; of one that
declares jobs, leases are of the first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    ClaimKey,
    Freed,
    Reconfigured,
    Recorded,
    Restarted,
    Solved,
    Unplaced,
    Vacated,
    What,
)
from yarn_plugin.decide.allocators.ledger_turn import Learnt, LedgerTurn
from yarn_plugin.decide.allocators.plan import NOTHING, Idle, Plan, Wake
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.leases.settings import MAX_SECONDS, RULES, LedgerSettings, Rules
from yarn_plugin.decide.mechanisms import partial_allocation
from yarn_plugin.decide.mechanisms.partial_allocation.problem import Rounding
from yarn_plugin.decide.pools.lease import estimates, handover, members, refusal, room, rounds
from yarn_plugin.decide.pools.lease.derived import Derived
from yarn_plugin.decide.pools.lease.index import LeaseIndex
from yarn_plugin.decide.pools.lease.inventory import Inventory, inventory_of
from yarn_plugin.decide.pools.lease.leases import adopt
from yarn_plugin.decide.pools.lease.settings import THEMIS, Entitlement, LeaseSettings
from yarn_plugin.decide.pools.lease.state import Held, LeaseState
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer
from yarn_plugin.model.share import Claim

ROUND = "round"
"""The key of the only wake."""

STEERING_S = 2.0
"""How often a round that is due tries to open while YARN does not answer."""


@dataclass(frozen=True, slots=True)
class AuctionSettings:
    """Of `decide.pools.lease.LeaseSettings`, those that are about rounds; see there."""

    policy: str = THEMIS
    f: float = 0.8
    lease_s: float = 600.0
    grid_s: float | None = None
    round_window_s: float = 2.0
    estimate_s: float = 5.0
    bid_s: float = 10.0
    decide_s: float = 0.5
    table_rounds: int = 4
    payments: bool = True
    rounding: Rounding = "up"
    work_limit: int = 200_000
    max_bidders: int | None = None
    max_apps: int | None = None
    max_demand: float | None = None
    max_gpus_per_user: int | None = None
    entitlement: Entitlement = "application"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        self.of_rounds(1, RULES, 0.0)

    def of_rounds(self, seed: int, rules: Rules, grace_s: float) -> LeaseSettings:
        """The same for the rounds. What they do not read are the ledger's settings."""
        # By earlier rules, the default.
        grace_s = grace_s if rules > 4 else LeaseSettings().grace_s
        return LeaseSettings(seed=seed, rules=rules, grace_s=grace_s, **asdict(self))


OF_ROUNDS = frozenset(one.name for one in fields(AuctionSettings))


def on_ledger(settings: LeaseSettings, records_s: float = 0.0) -> LedgerSettings:
    """The parameters of a ledger whose allocator leases as a pool with these does, and goes on with the leases of such
    a pool. Rules 1 are not the ledger's."""
    given = {one.name: getattr(settings, one.name) for one in fields(LeaseSettings)}
    rounds = AuctionSettings(**{name: value for name, value in given.items() if name in OF_ROUNDS})
    of_ledger = {name: value for name, value in given.items() if name not in OF_ROUNDS}
    return LedgerSettings(THEMIS, rounds, **of_ledger, records_s=records_s, adopts_leases=True)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last call: the state after it, the index of its leases, what it learnt of the ledger's, what was seen, and
    when there is something to do."""

    state: LeaseState
    index: LeaseIndex
    learnt: Learnt
    seen: Seen
    due: float | None

    def is_all_but(self, what: What, seen: Seen) -> bool:
        """Whether nothing has changed since and nothing is due, but that an application answers in a round, or that one
        more of the leases was vacated that have ended at once."""
        before = self.seen
        return (
            isinstance(what, Answer | Vacated)
            and (self.due is None or seen.at < self.due)
            and seen.leases is before.leases
            and seen.claims is before.claims
            and seen.cells is before.cells
            and seen.steering == before.steering
        )

    def leaves_nothing_to_do(self, turn: LedgerTurn) -> bool:
        """Whether a turn that took no more than that need not go on: others are still asked, or no round opens now."""
        now = turn.state
        if now.round is not None:
            return bool(now.round.asked)
        opens = now.open_at is not None and now.open_at <= turn.at
        return turn.at == self.seen.at and now.open_at == self.state.open_at and not opens


class Auction:
    """See the module. What it keeps beside the state only saves time."""

    def __init__(self, settings: AuctionSettings) -> None:
        self._settings = settings
        self._of_rounds = settings.of_rounds(1, RULES, 0.0)
        self._given: tuple[int, Rules, float] | None = None
        self._derived = Derived()
        self._inventory: tuple[Cells, Inventory] | None = None
        self._claims: tuple[Mapping[ClaimKey, Claim], dict[str, ClaimKey], tuple[Claim, ...]] | None = None
        self._last: _Last | None = None

    def initial_state(self) -> LeaseState:
        """No application yet."""
        return LeaseState()

    def report(self, state: LeaseState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: LeaseState, seen: Seen, what: What) -> tuple[LeaseState, Plan]:
        """Learn what changed, take the event, go on with the round or open one."""
        # An exception leaves nothing behind: the index may have been changed in part.
        last, self._last = self._last, None
        last = last if last is not None and last.state is state else None
        turn, claims = self._begin(state, seen, last)
        if last is not None and last.is_all_but(what, seen):
            if isinstance(what, Vacated):
                _free_vacated(turn, what.freed, state.leases)
            _take(turn, what)
            if last.leaves_nothing_to_do(turn):
                # The rest takes time proportional to the applications.
                return self._ended(turn, seen, last.due), NOTHING
        else:
            self._learn(turn, seen, what, state.leases, last)
            _take(turn, what)
        rounds.proceed(turn)
        handover.end_due(turn)
        is_starting = turn.is_starting()
        if not is_starting:
            rounds.open_if_due(turn)
        estimates.count_work(turn)
        due = _due(turn, is_starting)
        plan = replace(turn.plan(seen.leases, claims, Wake(ROUND, due)), idle=seen.everywhere(_idle(turn)))
        return self._ended(turn, seen, due), plan

    def _learn(self, turn: LedgerTurn, seen: Seen, what: What, before: Mapping[str, Held], last: _Last | None) -> None:
        """Learn what became of leases, members, machines and their room. `before`: the leases before this call."""
        turn.take_leases(seen.leases)
        gone = [] if last is not None and last.seen.claims is seen.claims else members.update_members(turn)
        if isinstance(what, Vacated):
            _free_vacated(turn, what.freed, before)
        if gone:
            self._derived.descriptions.forget(gone)
            members.admit_waiting(turn)
        handover.update_machines(turn)
        if isinstance(what, Began | Changed | Restarted | Reconfigured):
            _update_crowded(turn, seen)

    def _ended(self, turn: LedgerTurn, seen: Seen, due: float | None) -> LeaseState:
        """The state after a call. Kept, as is what follows from it: the next call may begin with it."""
        state = turn.end()
        self._last = _Last(state, turn.index, turn.learnt, seen, due)
        return state

    def _begin(self, state: LeaseState, seen: Seen, last: _Last | None) -> tuple[LedgerTurn, dict[str, ClaimKey]]:
        """A turn on this state, and the claim that an application's leases are of."""
        given = seen.seed, seen.rules, seen.grace_s
        if self._given != given:
            self._given, self._of_rounds = given, self._settings.of_rounds(*given)
        if self._inventory is None or self._inventory[0] is not seen.cells:
            self._inventory = seen.cells, inventory_of(seen.cells)
        if self._claims is None or self._claims[0] is not seen.claims:
            self._claims = seen.claims, *_by_application(seen.claims)
        _, keys, claims = self._claims
        view = View(claims=claims, steering=seen.steering)
        index, learnt = (None, Learnt()) if last is None else (last.index, last.learnt)
        settings, inventory = self._of_rounds, self._inventory[1]
        return LedgerTurn(settings, state, view, seen.at, index, self._derived, inventory, learnt), keys


def _by_application(claims: Mapping[ClaimKey, Claim]) -> tuple[dict[str, ClaimKey], tuple[Claim, ...]]:
    """The claim of each application that its leases are of, and all claims, those of one application together."""
    mine: dict[str, list[Claim]] = {}
    for (app, _), claim in claims.items():
        mine.setdefault(app, []).append(claim)
    return {app: (app, some[0].job) for app, some in mine.items()}, tuple(one for some in mine.values() for one in some)


def _free_vacated(turn: LedgerTurn, freed: Iterable[Freed], before: Mapping[str, Held]) -> None:
    """GPUs that were vacated, or given back, open a round. `before`: the leases before this call."""
    here = turn.state.members
    gone = [gpu for one in freed if one.claim[0] not in here for gpu in one.cells]
    if gone:
        turn.freed(gone, members.ENDED)
    for one in freed:
        held = before.get(one.key)
        # A leftover that its winner gives back, since it cannot use it, would be dealt again and again.
        is_refused = held is not None and held.how == "leftover" and not held.leaving
        if one.claim[0] in here and not is_refused:
            turn.freed(one.cells, handover.RELEASED)


def _update_crowded(turn: LedgerTurn, seen: Seen) -> None:
    """Note which GPUs in no lease lack room. Those that have room again open a round."""
    found = tuple(sorted([gpu for gpu in turn.free() if not seen.room.is_free(gpu)]))
    before = turn.state.crowded
    if found != before:
        turn.change(crowded=found)
        turn.freed(set(before).difference(found), room.ROOM)


def _take(turn: LedgerTurn, what: What) -> None:
    match what:
        case Answer(app, Estimate() as estimate):
            rounds.take_estimate(turn, app, estimate)
        case Answer(app, Bid() as bid):
            rounds.take_bid(turn, app, bid)
        case Recorded(app, leases) if app in turn.state.members:
            adopt(turn, app, leases)
        case Solved(key, outcome, result, error):
            rounds.take_result(turn, key, outcome, result, error)
        case Broken() if turn.offerable():
            turn.trigger(handover.NODES, turn.settings.round_window_s)
        case Unplaced():
            # Alone, an application would be offered the same again and again: once a lease is often enough.
            is_alone = len(turn.active()) < 2
            turn.trigger(handover.RELEASED, turn.settings.lease_s if is_alone else turn.settings.round_window_s)
        case Restarted():
            now, settings = turn.state.round, turn.settings
            if now is not None and now.deadline is not None:
                wait = settings.estimate_s if now.phase == "estimating" else settings.bid_s
                turn.change(round=replace(now, deadline=turn.at + wait))


def _due(turn: LedgerTurn, is_starting: bool) -> float | None:
    """When there is something to do next: at once, if the next round waits for the leases of this one to start."""
    if is_starting and turn.state.open_at is not None and turn.state.open_at <= turn.at:
        return turn.at
    return min((time for time in _deadlines(turn) if time > turn.at), default=None)


def _deadlines(turn: LedgerTurn) -> Iterator[float]:
    state = turn.state
    if state.round is not None:
        yield from (due for due in (state.round.deadline, state.round.decide_at) if due is not None)
    elif state.open_at is not None:
        yield state.open_at if turn.view.steering else max(state.open_at, turn.at + STEERING_S)
    yield from turn.index.ends()


def _idle(turn: LedgerTurn) -> Idle:
    """Why GPUs are free."""
    state = turn.state
    if not turn.active():
        return Idle.NOT_WANTED
    if state.round is not None or state.open_at is not None:
        return Idle.DECIDING
    said = dict(state.last.idle) if state.last is not None else {}
    return Idle.NO_ANSWERS if Idle.NO_ANSWERS.value in said else Idle.NOT_WANTED


def _policy(settings: AuctionSettings | None) -> str | None:
    return None if settings is None or settings.policy == THEMIS else settings.policy


def _no_lapse(settings: AuctionSettings | None, kinds: Mapping[str, AllocatorKind]) -> float:
    """Leases do not lapse: each round decides on those that have ended."""
    return MAX_SECONDS


KIND = AllocatorKind(
    THEMIS,
    lambda settings, kinds: Auction(settings or AuctionSettings()),
    {
        "lease/1": LeaseState,
        "auction.settings/1": AuctionSettings,
        "lease.estimate-request": EstimateRequest,
        "lease.estimate": Estimate,
        "lease.offer": GpuOffer,
        "lease.bid": Bid,
        **partial_allocation.TAGS,
    },
    parameters=AuctionSettings,
    messages=frozenset({"lease.estimate", "lease.bid"}),
    solvers={"partial-allocation.problem/1": partial_allocation.allocate},
    check=refusal.check,
    overtime_s=_no_lapse,
    policy=_policy,
)
"""Themis."""
