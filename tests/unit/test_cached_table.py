"""What a bid table says later."""

import pytest

from themis_agent.bids import bid_table, estimate
from themis_agent.search import plain
from yarn_plugin.decide.mechanisms.cached_table import CachedTable, contains
from yarn_plugin.model.auction import Bid, EstimateRequest, GpuOffer, Row
from yarn_plugin.model.gpus import Job, Machine, Piece, Slot

MACHINES = (
    Machine("m0", "r0", (Slot("m0/a", 2), Slot("m0/b", 2))),
    Machine("m1", "r0", (Slot("m1/a", 4),)),
    Machine("m2", "r1", (Slot("m2/a", 4),)),
)
BID = Bid(1, 5.0, (Row((Piece(2),), 4.0), Row((Piece(4),), 3.0), Row((Piece(1, "r1"), Piece(1, "r1")), 4.5)), 50.0)
TABLE = CachedTable(BID, arrived_at=0.0, made_at=100.0, contention=2.0)


def test_held_throughout_nothing_changes():
    # T_id is 100 s; with rho 3 the end is expected at 300, so 200 s are left at 100.
    assert TABLE.now(100.0, 2.0, 3.0) == 3.0
    assert TABLE.after(50.0, 3.0).left == 0.75
    assert TABLE.after(50.0, 3.0).now(150.0, 2.0, 3.0) == 3.0


def test_waiting_with_less_raises_rho():
    # Half of the 200 s with rho 3 are done; with rho 5, half of 400 s are left at 200.
    half = TABLE.after(100.0, 3.0)
    assert half.now(200.0, 2.0, 5.0) == (200 + 200) / 100
    assert TABLE.now(200.0, 2.0, 5.0) == (200 + 400) / 100


def test_no_progress_without_gpus():
    assert TABLE.after(1000.0, None) == TABLE
    assert TABLE.now(200.0, 2.0, None) is None


def test_all_done():
    assert TABLE.after(10_000.0, 3.0).left == 0.0
    assert TABLE.after(10_000.0, 3.0).now(300.0, 2.0, 3.0) == 3.0


def test_contention_counts_as_it_is_now():
    assert TABLE.now(100.0, 4.0, 3.0) == 1.5


def test_a_bid_that_does_not_tell_its_cluster_time():
    table = CachedTable(Bid(1, 5.0), 0.0, 100.0, 2.0)
    assert table.now(900.0, 4.0, 5.0) == 2.5
    assert table.after(50.0, 5.0) == table


@pytest.mark.parametrize(
    ("holds", "rho"),
    [
        ({}, 5.0),
        ({"m0/a": 1}, 5.0),
        ({"m0/a": 1, "m0/b": 1}, 4.0),
        ({"m0/a": 2, "m0/b": 2}, 3.0),
        ({"m1/a": 2, "m0/a": 2}, 4.0),
        ({"m2/a": 1, "m1/a": 1}, 5.0),
        ({"m2/a": 2}, 4.0),
    ],
)
def test_the_row_for_what_is_held(holds, rho):
    assert TABLE.rho_with(tuple(sorted(holds.items())), MACHINES) == rho


def test_rows_count_beside_what_was_held():
    table = CachedTable(BID, 0.0, 100.0, 2.0, held=(("m1/a", 2),))
    assert table.rho_with((("m1/a", 2),), MACHINES) == 5.0
    assert table.rho_with((("m1/a", 4),), MACHINES) == 4.0
    # Of less than what was held the table says nothing.
    assert table.rho_with((("m1/a", 1), ("m2/a", 4)), MACHINES) is None
    assert CachedTable(Bid(1, None), 0.0, 0.0, 1.0).rho_with((), ()) is None


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        ((Piece(4),), True),
        ((Piece(2, "m0", "slot"), Piece(1, "m0")), True),
        ((Piece(3, "m0", "slot"),), False),
        ((Piece(2), Piece(2, "r0"), Piece(2, "r0")), True),
        ((Piece(2, "r1"),), False),
        ((Piece(2, "m1/a", "slot"), Piece(3)), True),
        ((Piece(4), Piece(4)), False),
    ],
)
def test_pieces_among_gpus(pieces, found):
    assert contains({"m0/a": 2, "m0/b": 2, "m1/a": 3}, pieces, MACHINES) is found


def test_it_answers_as_the_application_would():
    """A job that holds what it won and progresses as expected is asked again and says the same."""
    offer = GpuOffer(1, MACHINES, 600.0, 3.0, (), 12)
    bid = bid_table(plain((Job("0", 100.0, 2.0, max_gpus=4),)), offer, elapsed_s=40.0)
    table = CachedTable(bid, arrived_at=10.0, made_at=50.0, contention=3.0)
    holds = (("m1/a", 4),)
    rho = table.rho_with(holds, MACHINES)
    # 30 s on 4 GPUs are 60 iterations of 2 s.
    later = plain((Job("0", 40.0, 2.0, iterations_done=60.0, max_gpus=4),))
    answer = estimate(later, EstimateRequest(2, 5.0, holds, MACHINES, 12), elapsed_s=70.0)
    assert table.after(30.0, rho).now(80.0, 5.0, rho) == pytest.approx(answer.rho)
