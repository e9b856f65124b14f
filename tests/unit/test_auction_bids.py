"""What a bid may contain: malformed and hostile ones are refused with the field and the value."""

import math
import random
from dataclasses import replace

import pytest

from tests.auction_rounds import bid as app_bid
from tests.auction_rounds import problem, row
from yarn_plugin.decide.mechanisms.partial_allocation import AppBid, allocate, checked_bid
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Bid, GpuOffer, Row
from yarn_plugin.model.gpus import Machine, Piece, Slot

MACHINES = (
    Machine("m0", "r0", (Slot("m0/s0", 2), Slot("m0/s1", 2))),
    Machine("m1", "r0", (Slot("m1", 4),)),
    Machine("m2", "r1", (Slot("m2/s0", 1), Slot("m2/s1", 0))),
)
OFFER = GpuOffer(7, MACHINES, 600.0, 2.0)
HONEST = Bid(
    7, None, (row(4, 1), row(2, 2), row(1, (4, "m1")), row(1.5, (2, "r0"), (2, "m0/s0")), row(3, (2, "", "slot")))
)


def _row(bid, index, new):
    return replace(bid, rows=(*bid.rows[:index], new, *bid.rows[index + 1 :]))


def _piece(bid, index, **fields):
    one = bid.rows[index]
    return _row(bid, index, Row((replace(one.pieces[0], **fields), *one.pieces[1:]), one.rho))


NOT_A_RHO = (0, -1.0, 1e-300, 1e300, 10**400, -(10**400), math.nan, math.inf, -math.inf, "1", None, True, [], {})
NOT_A_COUNT = (0, -3, 2.0, math.nan, "2", None, True, [])
NOT_A_PLACE = ("m9", "r9", "m0/s9", "M0", " ", "m0/", "../m0", "\x00", 3, None, [], "m0" * 5000)

HOSTILE = {
    "round": lambda draw, bid: ("round", replace(bid, round=draw.choice((6, 8, -7, 7.0, "7", None, True)))),
    "empty rho": lambda draw, bid: ("rho", replace(bid, rho=draw.choice([x for x in NOT_A_RHO if x is not None]))),
    "time alone": lambda draw, bid: (
        "cluster_s",
        replace(bid, cluster_s=draw.choice([x for x in NOT_A_RHO if x is not None])),
    ),
    "rho": lambda draw, bid: (
        "rows.{}.rho",
        lambda index: _row(bid, index, Row(bid.rows[index].pieces, draw.choice(NOT_A_RHO))),
    ),
    "no pieces": lambda draw, bid: ("rows.{}.pieces", lambda index: _row(bid, index, Row((), 1.0))),
    "gpus": lambda draw, bid: (
        "rows.{}.pieces.0.gpus",
        lambda index: _piece(bid, index, gpus=draw.choice(NOT_A_COUNT)),
    ),
    "too many in one machine": lambda draw, bid: (
        "rows.{}.pieces.0.gpus",
        lambda index: _piece(bid, index, gpus=draw.choice((5, 9, 10**30))),
    ),
    "place": lambda draw, bid: (
        "rows.{}.pieces.0.within",
        lambda index: _piece(bid, index, within=draw.choice(NOT_A_PLACE)),
    ),
    "level": lambda draw, bid: (
        "rows.{}.pieces.0.level",
        lambda index: _piece(bid, index, level=draw.choice(("rack", "", "Slot", None, 1, []))),
    ),
    "more than offered": lambda draw, bid: (
        "rows.{}.pieces",
        lambda index: _row(bid, index, Row((Piece(4),) * draw.randint(3, 400), 1.0)),
    ),
    "more than offered there": lambda draw, bid: (
        "rows.{}.pieces",
        lambda index: _row(bid, index, Row((Piece(1, "r1"),) * 2, 1.0)),
    ),
    "too many pieces": lambda draw, bid: (
        "rows.{}.pieces",
        lambda index: _row(bid, index, Row((Piece(1),) * draw.randint(513, 2000), 1.0)),
    ),
    "too many rows": lambda draw, bid: ("rows", replace(bid, rows=bid.rows * draw.randint(201, 400))),
    "the same row twice": lambda draw, bid: (
        f"rows.{len(bid.rows)}.pieces",
        replace(bid, rows=(*bid.rows, Row(tuple(reversed(bid.rows[draw.randrange(len(bid.rows))].pieces)), 9.0))),
    ),
}


def hostile(seed):
    """A bid with one thing wrong, and the field that the error must name."""
    draw = random.Random(seed)
    rows = list(HONEST.rows)
    draw.shuffle(rows)
    honest = replace(HONEST, rows=tuple(rows[: draw.randint(1, len(rows))]))
    field, made = HOSTILE[draw.choice(sorted(HOSTILE))](draw, honest)
    if callable(made):
        index = draw.randrange(len(honest.rows))
        field, made = field.format(index), made(index)
    return field, made


def check_refused(seeds):
    for seed in seeds:
        field, made = hostile(seed)
        with pytest.raises(BadInputError) as problem:
            checked_bid(made, OFFER)
        assert problem.value.field == field, (seed, str(problem.value))
        assert len(str(problem.value)) < 400, seed


def test_an_honest_bid_is_taken_as_it_is():
    assert checked_bid(HONEST, OFFER) is HONEST
    assert checked_bid(Bid(7, 3.5), OFFER) == Bid(7, 3.5)


def test_400_hostile_bids_are_refused():
    check_refused(range(400))


@pytest.mark.matrix
def test_10000_hostile_bids_are_refused():
    check_refused(range(400, 10_400))


@pytest.mark.parametrize("seed", range(8))
def test_an_empty_bid_changes_nothing_for_the_others(seed):
    # What the controller puts in the place of a refused bid.
    draw = random.Random(seed)
    rows = [row(draw.uniform(1, 4), draw.choice((1, 2))), row(draw.uniform(0.5, 1), (4, "r0"))]
    others = [app_bid(f"app-{k}", None, *rows) for k in range(3)]
    alone = allocate(problem(MACHINES, *others, seed=seed))
    beside = allocate(problem(MACHINES, AppBid("app-10", None, ()), *others, seed=seed))
    assert [award for award in beside.awards if award.app != "app-10"] == list(alone.awards)
    assert (beside.leftovers, beside.idle, beside.value) == (alone.leftovers, alone.idle, alone.value)


def test_a_piece_on_a_machine_that_has_lost_all_its_gpus_is_refused():
    offer = GpuOffer(1, (Machine("m0", "r0", ()), Machine("m1", "r0", (Slot("s1", 4),))), 60.0, 1.0)
    with pytest.raises(BadInputError, match="must be at most 0"):
        checked_bid(Bid(1, None, (Row((Piece(1, "m0"),), 1.0),)), offer)


def test_an_app_cannot_be_in_a_round_twice():
    with pytest.raises(BadInputError, match="app 'a': must appear once"):
        allocate(problem(MACHINES, app_bid("a", None), app_bid("a", 3.0)))
