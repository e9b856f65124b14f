"""Bid tables (Themis, thesis section 3.3.2, table 3.2): which GPUs of an offer would make rho how good."""

from collections.abc import Iterator, Sequence

from themis_agent.bids.finish_time import FinishTime, ideal_s, round_rho
from themis_agent.bids.spread import Place, Spread, places_of
from themis_agent.search.work import Work
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Row
from yarn_plugin.model.gpus import Machine, Piece


def estimate(work: Work, request: EstimateRequest, elapsed_s: float) -> Estimate:
    """Rho with what is held. `elapsed_s`: seconds since the application arrived."""
    held = Spread.of(places_of(request.held, request.machines))
    shared = elapsed_s + FinishTime(work).remaining_s(held)
    ideal = ideal_s(work, request.contention, request.cluster_gpus)
    return Estimate(request.round, round_rho(shared / ideal), work.jobs)


def bid_table(work: Work, offer: GpuOffer, elapsed_s: float) -> Bid:
    """The bid table for an offer. `elapsed_s`: seconds since the application arrived.

    Held GPUs count in every row. The rho of a row holds for every choice of GPUs that fits its pieces.
    """
    finish = FinishTime(work)
    ideal = ideal_s(work, offer.contention, offer.cluster_gpus)
    held = places_of(offer.held, offer.machines)

    def rho(places: Sequence[Place]) -> float | None:
        return round_rho((elapsed_s + finish.remaining_s(Spread.of([*held, *places]))) / ideal)

    nothing = rho(())
    rows: list[Row] = []
    for pieces, places in _candidates(offer.machines):
        value = rho(places)
        if value is not None and (nothing is None or value < nothing):
            rows.append(Row(pieces, value))
    return Bid(offer.round, nothing, tuple(_undominated(rows)))


def _candidates(machines: Sequence[Machine]) -> Iterator[tuple[tuple[Piece, ...], list[Place]]]:
    racks = sorted({machine.rack for machine in machines})
    for within in ["", *racks]:
        inside = [machine for machine in machines if within in ("", machine.rack)]
        for size in sorted({size for machine in inside for size in _up_to(machine.gpus)}):
            most = sum(machine.gpus // size for machine in inside)
            for count in _up_to(most):
                places = [
                    Place(within or (racks[0] if len(racks) == 1 else f"rack {i}"), f"machine {i}", f"slot {i}", size)
                    for i in range(count)
                ]
                yield tuple(Piece(size, within) for _ in range(count)), places


def _up_to(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    return sorted({most, *(2**power for power in range(most.bit_length()))} - {0}) if most > 0 else []


def _undominated(rows: list[Row]) -> list[Row]:
    """Without rows that have as many GPUs as another or more, and no better rho."""
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: (sum(piece.gpus for piece in row.pieces), row.rho)):
        if all(row.rho < other.rho or other.pieces[0].within != row.pieces[0].within for other in kept):
            kept.append(row)
    return kept
