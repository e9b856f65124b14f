"""Bid tables (Themis, thesis section 3.3.2, table 3.2): which GPUs of an offer would make rho how good."""

from collections.abc import Sequence
from dataclasses import replace

from themis_agent.bids.candidates import candidates
from themis_agent.bids.finish_time import FinishTime, cluster_s, ideal_s, rounded
from themis_agent.bids.offered import OfferedGpus
from themis_agent.bids.pruning import selected, undominated
from themis_agent.bids.spread import in_one_slot, places_of
from themis_agent.search.work import Work
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Row

MAX_ROWS = 48

UNBOUNDED = (1 << 30,) * 4
"""More GPUs than any cell of a level has."""


def estimate(work: Work, request: EstimateRequest, elapsed_s: float, finish: FinishTime | None = None) -> Estimate:
    """Rho with what is held. `elapsed_s`: seconds since the application arrived. `finish`: of the same work, with the
    times that it has computed before."""
    if not request.needs_rho or (not request.held and work.jobs):
        # Without GPUs it never ends.
        return Estimate(request.round, None, work.jobs)
    finish = finish or FinishTime(work)
    shared = elapsed_s + finish.remaining_s(places_of(request.held, request.machines))
    return Estimate(request.round, fairness(shared, work, request), work.jobs)


def bid_table(
    work: Work, offer: GpuOffer, elapsed_s: float, finish: FinishTime | None = None, move_s: float = 0.0
) -> Bid:
    """The bid table for an offer. `elapsed_s`, `finish`: as in `estimate`. `move_s`: seconds that it costs to use what
    is won, since running jobs have to move there.

    What is held counts in every row. The rho of a row holds in the worst case of the GPUs that fit its pieces, also of
    their models. There
    are only rows with a better rho than without the offer and than every row that needs no other GPUs than some of
    its own; at most `MAX_ROWS`.
    """
    finish = finish or FinishTime(work)
    places = places_of(offer.held, offer.machines)
    without_s = finish.remaining_s(places)
    nothing = fairness(elapsed_s + without_s, work, offer)
    without_rows = Bid(offer.round, nothing, (), rounded(cluster_s(work, offer.cluster_gpus)))

    def may_help(largest: Sequence[int]) -> bool:
        return finish.least_s(largest) < without_s

    if not may_help(UNBOUNDED):
        return without_rows
    offered = OfferedGpus(offer.machines, places, finish.speeds)
    if not may_help(offered.largest):
        return without_rows
    held = sum(place.gpus for place in offered.held)

    def seconds_with(gpus: int) -> float:
        return elapsed_s + finish.remaining_with(in_one_slot(held + gpus))

    found = []
    for candidate in candidates(offered, finish.wants, seconds_with, may_help):
        remaining_s = min([finish.remaining_on(used, spread) for used, spread in offered.spreads(candidate)])
        rho = fairness(elapsed_s + remaining_s + move_s, work, offer)
        if rho is not None and (nothing is None or rho < nothing):
            found.append((candidate, rho))
    kept = selected(undominated(found, offered), offered, MAX_ROWS)
    return replace(without_rows, rows=tuple(Row(candidate.pieces, rho) for candidate, rho in kept))


def fairness(shared_s: float, work: Work, asked: EstimateRequest | GpuOffer) -> float | None:
    """Finish-time fairness of an application that takes `shared_s` from arrival to end: T_sh / T_id; None: unbounded.

    An application without any work has no T_id, and takes no part: None.
    """
    ideal = ideal_s(work, asked.contention, asked.cluster_gpus)
    return rounded(shared_s / ideal) if ideal > 0 else None
