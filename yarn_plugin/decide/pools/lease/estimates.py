"""Finish-time fairness: what applications say, and what their last bid tables say for them.

Between bids an application is not asked: it could adjust its answer to what it wants to win. Its table answers, for
what it holds (see `mechanisms.cached_table`). It is asked if it has not bid for `table_rounds` rounds, if its table
says nothing about what it holds, or if it never answered in time: then its jobs are not known, and a payment could
leave it a part of a gang.
"""

from dataclasses import replace

from yarn_plugin.decide.mechanisms.cached_table import CachedTable
from yarn_plugin.decide.pools.lease import promises
from yarn_plugin.decide.pools.lease.described import Described
from yarn_plugin.decide.pools.lease.members import contention
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer
from yarn_plugin.model.gpus import Gpus, total


def answer_from_table(turn: Turn, app: str, number: int) -> bool:
    """Whether an application's table answers for it in a round; then its estimate is noted."""
    member, settings = turn.state.members[app], turn.settings
    if settings.policy != THEMIS or member.table is None or number - member.table_round > settings.table_rounds:
        return False
    if member.estimated_in is None:
        return False
    holds = turn.index.holds(app)
    with_it = _rho_with(turn, app, member.table, holds)
    if holds and with_it is None:
        return False
    table = member.table.after(turn.at - member.counted_at, with_it)
    rho = table.now(turn.at, contention(turn, app), with_it)
    rho = promises.believed_rho(turn, app, rho, turn.index.gpus_of(app))
    turn.set_member(app, replace(member, table=table, counted_at=turn.at, rho=rho, estimated_in=number))
    return True


def who_can_use_more(turn: Turn) -> list[str]:
    """The applications but those that leases give all that their jobs can use, and go on: they need not be asked.

    They are when one of their leases ends or is given back: until then, a job that they add waits.
    """
    members, index, usable = turn.state.members, turn.index, turn.descriptions.usable
    disturbed = {turn.state.leases[lease].lease.app for lease in index.ending_or_leaving(turn.at)}
    return [
        app
        for app in turn.active()
        if app in disturbed or not 0 < usable(app, members[app].gangs) <= index.gpus_of(app)
    ]


def note_estimate(turn: Turn, app: str, estimate: Estimate, described: Described, question: EstimateRequest) -> None:
    """Note what an application says, as far as it is believed."""
    # Of what it was asked about: leases may have begun or ended since.
    promised = _promised(turn, app, question.held, question.contention)
    promises.compare(turn, app, estimate.rho, promised, total(question.held))
    work, most = described.work_s, min(described.max_gpus, len(turn.inventory.places))
    member = replace(
        turn.state.members[app],
        estimated_in=estimate.round,
        gangs=described.gangs,
        cluster_s=work / most if work > 0 and most > 0 else None,
    )
    # What is believed depends on it.
    turn.set_member(app, member)
    rho = promises.believed_rho(turn, app, estimate.rho, total(turn.staying(app)))
    turn.set_member(app, replace(member, rho=rho))


def note_bid(turn: Turn, app: str, bid: Bid, offer: GpuOffer) -> None:
    """Note a bid table, which answers for its application from now on."""
    holds = turn.staying(app)
    promised = _promised(turn, app, holds, offer.contention)
    member = turn.state.members[app]
    table = CachedTable(bid, member.arrived_at, turn.at, offer.contention, offer.held)
    turn.set_member(app, replace(member, table=table, table_round=bid.round, counted_at=turn.at))
    counts = dict(holds)
    # Else the table says nothing of what is there: GPUs of it were lost since the offer, or their lease has not begun.
    if all(counts.get(slot, 0) >= gpus for slot, gpus in offer.held):
        promises.compare(turn, app, _rho_with(turn, app, table, holds), promised, total(holds))


def count_work(turn: Turn) -> None:
    """Count the time until now of applications whose leases have changed: as service that they attained, and as work
    done, which is taken off their tables."""
    for app, (held, gpus) in turn.held_before.items():
        member = turn.state.members.get(app)
        if member is None or (held == turn.index.holds(app) and gpus == turn.index.gpus_of(app)):
            continue
        attained = member.attained_gpu_s + gpus * (turn.at - turn.counted_until(app))
        member = replace(member, attained_gpu_s=attained, attained_at=turn.at)
        if member.table is not None and member.counted_at < turn.at:
            table = member.table.after(turn.at - member.counted_at, _rho_with(turn, app, member.table, held))
            member = replace(member, table=table, counted_at=turn.at)
        turn.set_member(app, member)


def _promised(turn: Turn, app: str, holds: Gpus, contention: float) -> float | None:
    """What the last table of an application says of what it holds now, at this N_avg; None: nothing."""
    member = turn.state.members[app]
    if member.table is None or not holds:
        return None
    with_it = _rho_with(turn, app, member.table, holds)
    if with_it is None or with_it == member.table.bid.rho:
        # None of what was promised is there.
        return None
    rho = member.table.after(turn.at - member.counted_at, with_it).now(turn.at, contention, with_it)
    if rho is None or member.table.bid.cluster_s:
        return rho
    # The table does not count the time until its application got these GPUs.
    ideal_s = promises.known(turn, app).ideal_s
    waited_s = max((member.attained_at or turn.at) - member.table.made_at, 0.0)
    return rho + waited_s / ideal_s if ideal_s else None


def _rho_with(turn: Turn, app: str, table: CachedTable, holds: Gpus) -> float | None:
    return turn.descriptions.rho_with(app, table, holds, turn.inventory)
