"""Bids come from others: what a bid may contain, checked against the offer that it answers."""

from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer, Offers
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Bid, GpuOffer, Row
from yarn_plugin.model.gpus import Piece

MIN_NUMBER, MAX_NUMBER = 1e-9, 1e15
"""Of rho and of seconds: what is computed from them stays finite."""

MAX_ROWS = 200
MAX_PIECES = 512
"""Of one row."""


def checked_bid(bid: Bid, offer: GpuOffer, offers: Offers | None = None) -> Bid:
    """The bid, if it can answer the offer. `offers`: the caller's, where it checks many bids.

    Raises:
        BadInputError: it cannot; names the field, such as `rows.3.pieces.0.gpus`, and its value.
    """
    _number("round", bid.round)
    if bid.round != offer.round:
        raise BadInputError("round", bid.round, f"must be {offer.round}, the round of the offer")
    if bid.rho is not None:
        _rho("rho", bid.rho)
    if bid.cluster_s is not None:
        _rho("cluster_s", bid.cluster_s)
    if len(bid.rows) > MAX_ROWS:
        raise BadInputError("rows", len(bid.rows), f"must be at most {MAX_ROWS} rows")
    if not bid.rows:
        return bid
    places = (offers or Offers()).of(offer.machines)
    seen: dict[tuple[tuple[str, str, int], ...], int] = {}
    for index, row in enumerate(bid.rows):
        _check_row(f"rows.{index}", row, places)
        pieces = tuple(sorted((piece.within, piece.level, piece.gpus) for piece in row.pieces))
        if (first := seen.setdefault(pieces, index)) != index:
            raise BadInputError(f"rows.{index}.pieces", _text(row), f"must differ from those of rows.{first}")
    return bid


def _check_row(field: str, row: Row, places: Offer) -> None:
    _rho(f"{field}.rho", row.rho)
    if not row.pieces:
        raise BadInputError(f"{field}.pieces", (), "must be at least one piece; rho without GPUs is the bid's rho")
    if len(row.pieces) > MAX_PIECES:
        raise BadInputError(f"{field}.pieces", len(row.pieces), f"must be at most {MAX_PIECES} pieces")
    wanted: dict[str, int] = {}
    before = None
    for number, piece in enumerate(row.pieces):
        # The pieces of a class are one object, unless they came over the wire.
        if piece is not before:
            _check_piece(f"{field}.pieces.{number}", piece, places)
            before = piece
        for place in {"", piece.within}:
            wanted[place] = wanted.get(place, 0) + piece.gpus
    for place, gpus in wanted.items():
        offered = places.offered(place)
        if gpus > offered:
            there = f" in {place!r}" if place else ""
            raise BadInputError(f"{field}.pieces", gpus, f"must be at most the {offered} GPUs offered{there}")


def _check_piece(field: str, piece: Piece, places: Offer) -> None:
    _number(f"{field}.gpus", piece.gpus)
    if piece.gpus < 1:
        raise BadInputError(f"{field}.gpus", piece.gpus, "must be 1 or more")
    if not isinstance(piece.within, str) or not places.has(piece.within):
        raise BadInputError(
            f"{field}.within", _shown(piece.within), "must be the id of a slot, machine or rack of the offer"
        )
    if not isinstance(piece.level, str) or piece.level not in ("machine", "slot"):
        raise BadInputError(f"{field}.level", _shown(piece.level), "must be machine or slot")
    most = places.largest(piece)
    if piece.gpus > most:
        kind = "slot" if places.bins(piece)[0] else "machine"
        raise BadInputError(
            f"{field}.gpus", piece.gpus, f"must be at most {most}, the most that one {kind} offers there"
        )


def _number(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError(field, _shown(value), "must be a whole number")


def _rho(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not MIN_NUMBER <= value <= MAX_NUMBER:
        raise BadInputError(field, _shown(value), f"must be a number from {MIN_NUMBER:g} to {MAX_NUMBER:g}")


def _shown(value: object) -> object:
    """The value; of a long one the beginning."""
    return value if len(repr(value)) <= _LONGEST else repr(value)[:_LONGEST]


_LONGEST = 100
"""Characters of a value in a message."""


def _text(row: Row) -> str:
    return ", ".join(f"{piece.gpus} in {piece.within or 'any'} {piece.level}" for piece in row.pieces)[:200]
