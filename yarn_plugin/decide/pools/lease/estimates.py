"""Finish-time fairness: what applications say, and what their last bid tables say for them.

Between bids an application is not asked: it could adjust its answer to what it wants to win. Its table answers, for
what it holds (see `mechanisms.cached_table`). It is asked if it has not bid for `table_rounds` rounds, or if its table
says nothing about what it holds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from yarn_plugin.decide.mechanisms.cached_table import CachedTable
from yarn_plugin.decide.mechanisms.partial_allocation import Gang
from yarn_plugin.decide.pools.lease.members import contention
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.decide.pools.lease.state import Held, Member
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.auction import Bid, Estimate, GpuOffer
from yarn_plugin.model.gpus import Gpus, Job


def answer_from_table(turn: Turn, app: str, number: int) -> bool:
    """Whether an application's table answers for it in a round; then its estimate is noted."""
    member, settings = turn.state.members[app], turn.settings
    if settings.policy != THEMIS or member.table is None or number - member.table_round > settings.table_rounds:
        return False
    holds = _holds(turn, turn.state.leases, app)
    with_it = _rho_with(turn, member.table, holds)
    if holds and with_it is None:
        return False
    table = member.table.after(turn.at - member.counted_at, with_it)
    rho = table.now(turn.at, contention(turn, app), with_it)
    _set(turn, app, replace(member, table=table, counted_at=turn.at, rho=rho, estimated_in=number))
    return True


def note_estimate(turn: Turn, app: str, estimate: Estimate) -> None:
    """Note what an application says."""
    jobs, gpus = estimate.jobs, len(turn.inventory.places)
    work = sum((job.iterations_done + job.iterations_left) * job.iteration_s for job in jobs)
    most = min(sum(job.max_gpus for job in jobs), gpus)
    member = replace(
        turn.state.members[app],
        rho=estimate.rho,
        estimated_in=estimate.round,
        gangs=_gangs(jobs),
        cluster_s=work / most if work > 0 and most > 0 else None,
    )
    _set(turn, app, member)


def note_bid(turn: Turn, app: str, bid: Bid, offer: GpuOffer) -> None:
    """Note a bid table, which answers for its application from now on."""
    member = turn.state.members[app]
    table = CachedTable(bid, member.arrived_at, turn.at, offer.contention, offer.held)
    _set(turn, app, replace(member, table=table, table_round=bid.round, counted_at=turn.at))


def count_work(turn: Turn, before: Mapping[str, Held]) -> None:
    """Take the work done until now off the tables of applications whose leases have changed. `before`: the leases until
    now."""
    if turn.state.leases is before:
        return
    for app, member in turn.state.members.items():
        if member.table is None or member.counted_at >= turn.at:
            continue
        held = _holds(turn, before, app)
        if held != _holds(turn, turn.state.leases, app):
            table = member.table.after(turn.at - member.counted_at, _rho_with(turn, member.table, held))
            _set(turn, app, replace(member, table=table, counted_at=turn.at))


def _set(turn: Turn, app: str, member: Member) -> None:
    turn.change(members={**turn.state.members, app: member})


def _rho_with(turn: Turn, table: CachedTable, holds: Gpus) -> float | None:
    slots = {slot for slot, _ in holds}
    gpus = [gpu for gpu, place in turn.inventory.places.items() if place.slot in slots]
    return table.rho_with(holds, turn.inventory.machines((), gpus))


def _holds(turn: Turn, leases: Mapping[str, Held], app: str) -> Gpus:
    mine = (held for held in leases.values() if held.lease.app == app and held.started_at is not None)
    return turn.inventory.count(gpu for held in mine for gpu in held.gpus)


def _gangs(jobs: Iterable[Job]) -> tuple[Gang, ...]:
    trials = Counter((job.min_gpus, job.max_gpus, job.step_gpus) for job in jobs)
    return tuple(Gang(*gang, trials=count) for gang, count in sorted(trials.items()))
