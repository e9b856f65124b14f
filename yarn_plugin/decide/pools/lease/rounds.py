"""Rounds: everyone's finish-time fairness, an offer to the worst, their bids, the solver, the allocation.

A round goes through the phases estimating, offered and solving; its allocation ends it, and hand-overs go on beside the
next ones. Policies without auctions need no offer. What opens a round: GPUs that become free, leases that end, arrivals
while GPUs are free. What a round leaves idle opens none.
"""

from collections.abc import Sequence
from dataclasses import replace

from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.mechanisms.partial_allocation import PartialAllocation, checked_bid
from yarn_plugin.decide.pools.commands import Ask, Offer, Solve
from yarn_plugin.decide.pools.lease import (
    allocation,
    auctioning,
    choice,
    estimates,
    faulty_bids,
    leases,
    promises,
    room,
    service,
)
from yarn_plugin.decide.pools.lease.baselines import Assignments, lease_problem
from yarn_plugin.decide.pools.lease.inventory import BySlot
from yarn_plugin.decide.pools.lease.members import contention
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.decide.pools.lease.state import FaultyBids, Held, Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.pools.lease.validity import check_rho
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer
from yarn_plugin.model.causes import LeaseRound

MAX_TRIES = 3
"""How often a problem is given to the worker whose process is lost."""

RETRY = "retry"


def open_if_due(turn: Turn) -> None:
    """Open a round if something happened that may allocate GPUs, and there are GPUs and applications.

    Not while the ResourceManager does not answer: another arbiter may have taken the pool over meanwhile, and no
    container could be placed.
    """
    state = turn.state
    if not turn.view.steering or state.round is not None or state.open_at is None or state.open_at > turn.at:
        return
    apps, triggers = turn.active(), state.triggers
    turn.change(triggers=(), open_at=None)
    if not apps or not (turn.free() or turn.ending()):
        return
    if turn.settings.policy != THEMIS:
        apps = estimates.who_can_use_more(turn)
        if not apps:
            return
    number, deadline = state.round_number + 1, turn.at + turn.settings.estimate_s
    if not (turn.offerable() or turn.ending()):
        # Nothing was offered, so nothing was left: whatever gets room opens a round.
        turn.change(idle={})
        if set(triggers) != {room.ROOM}:
            idle = room.idle(turn)
            _record(turn, LeaseRound(number, turn.settings.policy, triggers, 0, _rhos(turn, apps), idle=idle))
            turn.change(round_number=number)
        # Else there was room for a moment: nothing has changed.
        return
    turn.change(round_number=number)
    asked = {}
    for app in apps:
        if estimates.answer_from_table(turn, app, number):
            continue
        held = turn.staying(app)
        where = turn.inventory.machines_of([slot for slot, _ in held])
        needs_rho = turn.settings.policy == THEMIS
        question = EstimateRequest(number, contention(turn, app), held, where, len(turn.inventory.places), needs_rho)
        ask = Ask(turn.new_id(), app, question, deadline)
        turn.give(ask)
        asked[app] = ask.id
    turn.change(round=Round(number, turn.at, triggers, "estimating", asked, deadline))
    if not asked:
        # Tables answer for all: there is nothing to wait for.
        proceed(turn)


# Answers.


def take_estimate(turn: Turn, app: str, estimate: Estimate) -> None:
    """Note an estimate; ignored if it is late, for another round, a second one, or invalid."""
    now = turn.state.round
    if now is None or now.phase != "estimating" or app not in now.asked or estimate.round != now.number:
        return
    try:
        check_rho(estimate)
        described = turn.descriptions.of(app, estimate.jobs)
    except BadInputError:
        return
    command = turn.state.open[now.asked[app]]
    assert isinstance(command, Ask)
    assert isinstance(command.question, EstimateRequest)
    turn.close(now.asked[app])
    asked = dict(now.asked)
    del asked[app]
    estimates.note_estimate(turn, app, estimate, described, command.question)
    turn.change(round=replace(now, asked=asked, estimates={**now.estimates, app: estimate}))


def take_bid(turn: Turn, app: str, bid: Bid) -> None:
    """Note a bid; ignored if it is late, for another round, a second one or malformed: then it is the empty bid."""
    now = turn.state.round
    if now is None or now.phase != "offered" or app not in now.asked or bid.round != now.number:
        return
    command = turn.state.open[now.asked[app]]
    assert isinstance(command, Offer)
    assert isinstance(command.offer, GpuOffer)
    checked = _checked(turn, bid, command.offer)
    bids = now.bids
    if checked is not None:
        estimates.note_bid(turn, app, checked, command.offer)
        bids = {**bids, app: checked}
    turn.close(now.asked[app])
    asked = {other: one for other, one in now.asked.items() if other != app}
    turn.change(round=replace(now, asked=asked, bids=bids))


def _checked(turn: Turn, bid: Bid, offer: GpuOffer) -> Bid | None:
    try:
        return checked_bid(bid, offer, turn.offers)
    except BadInputError:
        return None


def take_result(turn: Turn, id: str, kind: str, result: object, error: str | None) -> None:
    """Note the solver's result, which takes effect at `decide_at`. A lost problem is given to the worker again, then
    without some bids, to find those on which it is lost."""
    now = turn.state.round
    if now is None or now.phase != "solving" or id != now.solve or now.result is not None:
        return
    command = turn.state.open.get(id)
    if kind == "lost" and now.tries < MAX_TRIES and isinstance(command, Solve):
        turn.change(round=replace(now, tries=now.tries + 1))
        turn.commands.append(command)
        return
    turn.close(id)
    if kind == "lost" and _may_be_a_bid(turn, now):
        lost = error or "the worker process was lost"
        bidders = tuple(app for app in now.bidders if app in now.bids)
        search = faulty_bids.begin(bidders, lost) if now.faulty is None else faulty_bids.after(now.faulty, lost)
        _solve_with_some(turn, now, search)
        return
    if kind == "done" and now.faulty is not None and now.faulty.waiting:
        now = replace(now, faulty=faulty_bids.after(now.faulty, None))
        if now.faulty is not None and now.faulty.waiting:
            _solve_with_some(turn, now, now.faulty)
            return
    is_usable = kind == "done" and isinstance(result, PartialAllocation | Assignments) and result.round == now.number
    if is_usable:
        turn.change(round=replace(now, result=result))
    else:
        _fail(turn, now, error or f"the solver's result is {'lost' if kind == 'lost' else 'of another kind'}")


def _may_be_a_bid(turn: Turn, now: Round) -> bool:
    """Whether the process may have been lost because of a bid that can still be found."""
    if turn.settings.rules == 1 or not now.bids:
        return False
    return now.faulty is None or (bool(now.faulty.waiting) and now.tries < faulty_bids.max_tries(len(now.bids)))


def _solve_with_some(turn: Turn, now: Round, search: FaultyBids) -> None:
    problem, tried = auctioning.problem(turn, now), faulty_bids.tried(search)
    solve = Solve(turn.new_id(), replace(problem, bids=tuple(bid for bid in problem.bids if bid.app in tried)))
    turn.give(solve)
    turn.change(round=replace(now, solve=solve.id, tries=now.tries + 1, faulty=search))


# Phases.


def proceed(turn: Turn) -> None:
    """Go on to the next phases of the round, if they are due."""
    while (now := turn.state.round) is not None:
        asked = {app: id for app, id in now.asked.items() if app in turn.state.members}
        turn.close(*(id for app, id in now.asked.items() if app not in asked))
        now = now if len(asked) == len(now.asked) else replace(now, asked=asked)
        turn.change(round=now)
        is_answered = not asked or (now.deadline is not None and now.deadline <= turn.at)
        if now.phase == "estimating" and is_answered:
            _rank(turn, now)
        elif now.phase == "offered" and is_answered:
            _solve_auction(turn, now)
        elif now.phase == "solving" and now.result is not None and (now.decide_at or 0.0) <= turn.at:
            _decide(turn, now)
        else:
            return


def _rank(turn: Turn, now: Round) -> None:
    """Rank everyone; offer the GPUs to the worst, or, without auctions, have the policy decide at once."""
    turn.close(*now.asked.values())
    apps, ending = turn.active(), turn.ending()
    if turn.settings.policy != THEMIS:
        # Who was not asked, because its leases went on, takes no part even if one of them has ended meanwhile.
        ending = [held for held in ending if held.lease.app in now.asked or held.lease.app in now.estimates]
    offer = _offered(turn, ending)
    turn.index.offered = now.number, turn.index.freed_or_leased, sum([len(held.staying) for held in ending])
    now = replace(now, asked={}, deadline=None, offer=offer, ending=tuple(held.lease.id for held in ending))
    if not offer or not apps:
        turn.change(round=now, idle={})
        _finish(turn)
    elif turn.settings.policy == THEMIS:
        ranked = choice.worst_first([_standing(turn, app) for app in apps])
        now = replace(now, rhos=_rhos(turn, ranked))
        _offer(turn, now, _bidders(turn, ranked))
    else:
        _solve(turn, now, lease_problem(turn, now))


def _bidders(turn: Turn, ranked: Sequence[str]) -> tuple[str, ...]:
    settings = turn.settings
    if settings.entitlement == "application":
        return choice.bidders(ranked, settings.f, settings.max_bidders)
    users = {app: turn.user_of(app) for app in ranked}
    return choice.bidders_of_users(ranked, users, settings.f, max(turn.equal_part(), 1), settings.max_bidders)


def _offered(turn: Turn, ending: Sequence[Held]) -> BySlot:
    """The free GPUs and those of ending leases."""
    offerable, inventory = turn.offerable(), turn.inventory
    expiring = {gpu for held in ending for gpu in held.staying}
    shared = {
        slot: tuple([gpu for gpu in inventory.gpus_in[slot] if gpu in offerable or gpu in expiring])
        for slot in {inventory.places[gpu].slot for gpu in expiring}
    }
    # In the order of the machines, whatever became free first: the journal of a replay is the same to the byte.
    if turn.state.crowded:
        offer = {**inventory.by_slot(offerable), **shared}
        return {slot: offer[slot] for slot in inventory.gpus_in if slot in offer}
    return {slot: gpus for slot, gpus in {**turn.index.free_by_slot(), **shared}.items() if gpus}


def _rhos(turn: Turn, apps: Sequence[str]) -> tuple[tuple[str, float | None], ...]:
    """What everyone's rho is; only auctions ask for it."""
    return tuple((app, turn.state.members[app].rho) for app in apps) if turn.settings.policy == THEMIS else ()


def _standing(turn: Turn, app: str) -> choice.Standing:
    member = turn.state.members[app]
    facts = promises.known(turn, app)
    ideal = None if member.cluster_s is None or facts.ideal_s is None else facts.ideal_s / promises.discount(turn, app)
    waited, is_known = turn.at - member.arrived_at, member.estimated_in is not None
    return choice.Standing(app, member.rho, is_known, waited, ideal, service.is_ahead(turn, app))


def _offer(turn: Turn, now: Round, bidders: Sequence[str]) -> None:
    deadline, offered, asked = turn.at + turn.settings.bid_s, turn.by_slot(now.offer), {}
    for app in bidders:
        staying = [gpu for one in turn.leases_of(app) if one.lease.id not in now.ending for gpu in one.staying]
        machines, held = turn.index.offered_machines(offered, staying), turn.inventory.count(staying)
        what = GpuOffer(
            now.number, machines, turn.settings.lease_s, contention(turn, app), held, len(turn.inventory.places)
        )
        offer = Offer(turn.new_id(), app, what, deadline)
        turn.give(offer)
        asked[app] = offer.id
    turn.change(round=replace(now, phase="offered", bidders=tuple(bidders), asked=asked, deadline=deadline))


def _solve_auction(turn: Turn, now: Round) -> None:
    turn.close(*now.asked.values())
    now = replace(now, asked={}, deadline=None)
    _solve(turn, now, auctioning.problem(turn, now))


def _solve(turn: Turn, now: Round, problem: object) -> None:
    solve = Solve(turn.new_id(), problem)
    turn.give(solve)
    decide_at = turn.at + turn.settings.decide_s
    turn.change(round=replace(now, phase="solving", solve=solve.id, tries=1, decide_at=decide_at))


# The allocation.


def _decide(turn: Turn, now: Round) -> None:
    """Allocate by the solver's result, deal the rest, and record the round."""
    result = now.result
    turn.decided_at = _decision_time(turn, now)
    record = replace(_begun(turn, now), bidders=tuple(app for app in now.bidders if app in now.bids))
    reasons: dict[str, str] = {}
    if isinstance(result, Assignments):
        won = [((one.app, one.job), one.gpus) for one in result.assignments]
        allocated = allocation.allocate(turn, now, [(won, "policy")])
    else:
        assert isinstance(result, PartialAllocation)
        won, leftovers = auctioning.kept(result), auctioning.leftovers(result)
        allocated = allocation.allocate(turn, now, [(won, "bid"), (leftovers, "leftover")])
        paid = auctioning.paid(result)
        set_aside = (*result.set_aside, *(now.faulty.set_aside if now.faulty is not None else ()))
        record = replace(record, gap=result.gap, work=result.work, paid=paid, set_aside=set_aside)
        reasons = {one.slot: one.reason for one in result.idle}
    allocation.keep_unwanted(turn, now, allocated)
    leases.apply(turn, now, allocated)
    idle = (*allocation.idle(turn, now, allocated, reasons), *room.idle(turn))
    won_gpus, leftover = allocated.count("bid", "policy"), allocated.count("leftover", "kept")
    turn.change(idle=allocated.left)
    _finish(turn, replace(record, won=won_gpus, leftover=leftover, idle=idle))


def _decision_time(turn: Turn, now: Round) -> float:
    """`decide_at`, even if the result comes a little later: so the same inputs give the same leases, however long the
    solver takes. One that is very late counts from now: who loses GPUs needs the grace period."""
    due = turn.at if now.decide_at is None else now.decide_at
    return due if turn.at - due <= turn.settings.grace_s / 2 else turn.at


def _fail(turn: Turn, now: Round, error: str) -> None:
    """End a round without result: holders keep what they hold for another lease; then, GPUs are auctioned again."""
    leases.renew_all(turn, now)
    turn.trigger(RETRY, turn.settings.lease_s)
    _finish(turn, replace(_begun(turn, now), error=error))


def _begun(turn: Turn, now: Round) -> LeaseRound:
    """The record of a round, without its result."""
    gpus = sum(map(len, turn.by_slot(now.offer).values()))
    discounted = promises.discounts(turn) if turn.settings.policy == THEMIS else ()
    ahead = tuple(app for app in turn.active() if service.is_ahead(turn, app))
    return LeaseRound(
        now.number, turn.settings.policy, now.opened_by, gpus, now.rhos, discounted=discounted, ahead=ahead
    )


def _finish(turn: Turn, record: LeaseRound | None = None) -> None:
    turn.change(round=None)
    if not turn.state.leases:
        # No lease will end and open the next round: without this, one missed bid could leave all GPUs idle for good.
        turn.trigger(RETRY, turn.settings.lease_s)
    if record is not None:
        _record(turn, record)


def _record(turn: Turn, record: LeaseRound) -> None:
    turn.change(last=record)
    turn.commands.append(RecordRound(turn.pool, record))
