"""The lease controller: leases the GPUs of a pool in rounds (Themis, thesis section 3.4.2.2).

A GPU is owned until its lease ends, then auctioned while its holder trains on. Who wins back what it held is not
disturbed; who loses it has a grace period; the winner's lease starts when the GPUs are vacated. While the arbiter is
away, holders keep all: nothing ends unseen.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.leases.excess import next_list
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.mechanisms import partial_allocation
from yarn_plugin.decide.pools.commands import Ask, Command, Offer, Revoke, SetTimer
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome, Restarted
from yarn_plugin.decide.pools.lease import (
    baselines,
    estimates,
    excess,
    handover,
    leases,
    members,
    refusal,
    room,
    rounds,
)
from yarn_plugin.decide.pools.lease.derived import Derived
from yarn_plugin.decide.pools.lease.index import LeaseIndex
from yarn_plugin.decide.pools.lease.settings import THEMIS, LeaseSettings, check_disjoint
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Release
from yarn_plugin.model.causes import AppEnded
from yarn_plugin.model.share import Pool

NEXT = "next"
"""The key of the only timer."""

READS = frozenset({"claims", "topology", "use", "steering", "superseded"})


class LeaseController:
    """Leases the GPUs of a pool (see the module)."""

    def __init__(self, pool: str, settings: LeaseSettings) -> None:
        self._pool, self._settings = pool, settings
        self.reads = READS | ({"node_used"} if settings.has_task_size else set())
        self._derived = Derived()
        self._last: _Last | None = None

    def initial_state(self) -> LeaseState:
        """A pool without applications."""
        return LeaseState()

    def report(self, state: LeaseState) -> None:
        """None: the state itself is immutable."""

    def advance(self, state: LeaseState, view: View, at: float, what: Input) -> tuple[LeaseState, tuple[Command, ...]]:
        """Learn what changed, process the input, hand GPUs over, go on with the round or open one."""
        # An exception leaves nothing behind: the index may have been changed in part. Nor does a state that is not the
        # last one: that of a step which failed, or of a journal.
        last, self._last = self._last, None
        last = last if last is not None and last.state is state else None
        turn = Turn(self._pool, self._settings, state, view, at, None if last is None else last.index, self._derived)
        if view.superseded is not None:
            handover.stand_down(turn, view.superseded)
            estimates.count_work(turn)
            return self._ended(turn, math.inf), (*turn.commands, SetTimer(NEXT, None))
        if last is not None and last.changes_nothing_else(view, at, what):
            _take(turn, what)
            assert turn.state.round is not None
            if turn.state.round.asked:
                return self._ended(turn, last.due), tuple(turn.commands)
            state = self._ended(turn, last.due)
            turn = Turn(self._pool, self._settings, state, view, at, turn.index, self._derived)
        is_known = last is not None and view.claims is last.view.claims
        gone = [] if is_known else members.update_members(turn)
        if gone:
            self._derived.descriptions.forget(gone)
            freed = leases.end_all(turn, {app: AppEnded(app) for app in gone})
            turn.freed(freed, members.ENDED)
            members.admit_waiting(turn)
        handover.update_machines(turn)
        room.update_crowded(turn)
        _take(turn, what)
        handover.take_back_unplaced(turn, what)
        handover.end_vacated(turn)
        rounds.proceed(turn)
        # What the round revoked, if there is no grace period.
        handover.end_vacated(turn)
        handover.end_due(turn)
        rounds.open_if_due(turn)
        excess.find_excess(turn)
        estimates.count_work(turn)
        due = min((time for time in _deadlines(turn) if time > at), default=math.inf)
        return self._ended(turn, due), (*turn.commands, SetTimer(NEXT, due if due < math.inf else None))

    def _ended(self, turn: Turn, due: float) -> LeaseState:
        """The state after a call. Kept, as is what follows from it: the next call may begin with it."""
        state = turn.end()
        self._last = _Last(state, turn.view, due, turn.index)
        return state


@dataclass(frozen=True, slots=True)
class _Last:
    """The state and the view of the last call, the next deadline, and the index of the leases."""

    state: LeaseState
    view: View
    due: float
    index: LeaseIndex

    def changes_nothing_else(self, view: View, at: float, what: Input) -> bool:
        """Whether the input is one of several answers in a round, with nothing else changed and nothing due since the
        last. The rest of `advance` would find nothing to do, and takes time proportional to the applications: a round
        would take the square of that.
        """
        if at >= self.due or self.state.round is None or not isinstance(what, FromApp):
            return False
        return isinstance(what.message, Estimate | Bid) and view.is_like(self.view)


def _take(turn: Turn, what: Input) -> None:
    match what:
        case FromApp(app, Estimate() as estimate):
            rounds.take_estimate(turn, app, estimate)
        case FromApp(app, Bid() as bid):
            rounds.take_bid(turn, app, bid)
        case FromApp(app, Release() as release):
            handover.release(turn, app, release)
        case Outcome(_, "done", ContainersListed() as found):
            excess.signal(turn, found)
        case Outcome(id, kind, result, error):
            rounds.take_result(turn, id, kind, result, error)
        case Restarted():
            _repeat(turn)


def _repeat(turn: Turn) -> None:
    """Issue open commands again. Whoever is to answer or to vacate has the whole time for it again: it may not have
    received the first one, or could not answer while the arbiter was away."""
    settings, now = turn.settings, turn.state.round
    if now is not None and now.deadline is not None:
        wait = settings.estimate_s if now.phase == "estimating" else settings.bid_s
        turn.change(round=replace(now, deadline=turn.at + wait))
    for held in list(turn.state.leases.values()):
        if held.by is not None:
            turn.set_lease(replace(held, by=turn.at + settings.grace_s))
    repeated = {}
    for id, command in turn.state.open.items():
        match command:
            case Ask():
                command = replace(command, answer_by=turn.at + settings.estimate_s)
            case Offer():
                command = replace(command, bid_by=turn.at + settings.bid_s)
            case Revoke():
                command = replace(command, by=turn.at + settings.grace_s)
        repeated[id] = command
    turn.change(open=repeated)
    turn.commands += repeated.values()  # type: ignore[arg-type]


def _deadlines(turn: Turn) -> Iterator[float]:
    state, settings = turn.state, turn.settings
    if state.round is not None:
        yield from (due for due in (state.round.deadline, state.round.decide_at) if due is not None)
    elif state.open_at is not None:
        yield state.open_at
    yield from turn.index.ends()
    for lease in turn.index.leaving:
        if (by := state.leases[lease].by) is not None:
            yield by
    for held in state.leases.values() if settings.place_within_s else ():
        if held.started_at is not None and not held.is_placed:
            yield (held.started_at if held.listed_at is None else held.listed_at) + settings.place_within_s
    for one in state.excess.values():
        yield next_list(one, settings.grace_s)


def _make(pool: Pool, registry: Registry) -> LeaseController:
    settings = pool.parameters or LeaseSettings()
    assert isinstance(settings, LeaseSettings)
    if settings.policy != THEMIS:
        registry.lease_policy(settings.policy)
    return LeaseController(pool.name, settings)


KIND = Kind(
    "lease",
    _make,
    {
        "lease/1": LeaseState,
        "lease.settings/1": LeaseSettings,
        "lease.estimate-request": EstimateRequest,
        "lease.estimate": Estimate,
        "lease.offer": GpuOffer,
        "lease.bid": Bid,
        "lease.release": Release,
        **partial_allocation.TAGS,
        "lease.policy-problem": baselines.PolicyProblem,
        "lease.assignments": baselines.Assignments,
    },
    parameters=LeaseSettings,
    fixed={"rules": RULES},
    messages=frozenset({"lease.estimate", "lease.bid", "lease.release"}),
    solvers={"partial-allocation.problem/1": partial_allocation.allocate},
    policy_solvers={"lease.policy-problem": baselines.solve},
    check=refusal.check,
    check_pools=check_disjoint,
)
