"""One round of the partial allocation auction (Themis, thesis section 3.3.3): optimum, payments, leftovers."""

import math

import pytest

from tests.auction_rounds import (
    best_product,
    bid,
    check_exact,
    check_feasible,
    count,
    machine,
    problem,
    random_round,
    row,
    value_of,
)
from tests.sampled import all_in_one
from yarn_plugin.decide.mechanisms.partial_allocation import TAGS, AppWithoutBid, Gang, allocate
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.gpus import Machine, Slot


def test_two_apps_share_a_machine_and_each_pays_what_the_other_loses():
    # Alone each would take 4 GPUs (V = 1). Together 2 and 2 (V = 1/2 each): product 1/4; 4 and 0: 1/8. So c = 1/2.
    table = [row(4, 1), row(2, 2), row(1, 4)]
    result = allocate(problem([machine("m")], bid("a", 8, *table), bid("b", 8, *table), exact_shares=True))
    assert [award.row for award in result.awards] == [1, 1]
    assert [count(award.won) for award in result.awards] == [2, 2]
    assert [award.share_min for award in result.awards] == pytest.approx([0.5, 0.5], rel=1e-4)
    assert [count(award.kept) for award in result.awards] == [1, 1]
    assert (result.proven, result.gap) == (True, 0.0)
    assert result.value == pytest.approx(2 * math.log(4))


def test_who_loses_pays_nothing_and_who_displaces_it_pays():
    # One GPU: a gains log 4, b gains log 2. Without a, b would gain log 2: a keeps 1/2 of its GPU, rounded up.
    result = allocate(problem([machine("m", 1)], bid("a", 4, row(1, 1)), bid("b", 4, row(2, 1)), exact_shares=True))
    a, b = result.awards
    assert (a.row, a.share_max, count(a.kept)) == (0, pytest.approx(0.5, rel=1e-4), 1)
    assert (b.row, b.share_min, b.won) == (None, 1.0, ())


def test_without_payments_winners_keep_all():
    table = [row(4, 1), row(2, 2), row(1, 4)]
    result = allocate(problem([machine("m")], bid("a", 8, *table), bid("b", 8, *table), payments=False))
    assert [count(award.kept) for award in result.awards] == [2, 2]


@all_in_one("seed", range(150))
def test_optimum_and_shares_are_those_of_brute_force(seed):
    given = random_round(seed, exact_shares=True)
    result = allocate(given)
    check_feasible(given, result)
    assert result.proven
    bids = given.bids
    won = {award.app: award.row for award in result.awards}
    values = {one.app: value_of(one, won[one.app]) for one in bids}
    assert math.prod(values.values()) == pytest.approx(best_product(given.machines, bids), rel=1e-4)
    for award in result.awards:
        others = [one for one in bids if one.app != award.app]
        expected = math.prod(values[one.app] for one in others) / best_product(given.machines, others)
        assert award.share_min == award.share_max == pytest.approx(expected, rel=1e-4)


def test_a_row_that_spans_the_slots_of_machines_has_a_result():
    """8 GPUs fit m0 and 4 fit m1 only if a piece may lie in several slots; 1 GPU is left for the other."""
    machines = [
        Machine("m0", "r1", (Slot("m0/s0", 3), Slot("m0/s1", 5))),
        Machine("m1", "r1", (Slot("m1/s0", 4), Slot("m1/s1", 1))),
    ]
    large = bid("a", None, row(1.0, 4, (3, "r1"), 5))
    given = problem(machines, large, bid("honest", 5.0, row(1.0, 1)), exact_shares=True)
    result = allocate(given)
    check_exact(given, result)
    assert [count(award.won) for award in result.awards] == [12, 1]
    assert (result.proven, result.set_aside) == (True, ())


def test_a_round_and_its_result_can_be_journaled():
    codec = Codec(TAGS)
    for seed in range(20):
        given = random_round(seed)
        codec.check(given)
        codec.check(allocate(given))


def test_leftovers_go_to_apps_without_a_bid_then_to_other_bidders_and_the_rest_is_idle():
    table = [row(4, 1), row(2, 2), row(1, 4)]
    bids = [bid("a", 8, *table), bid("b", 8, *table)]
    result = allocate(problem([machine("m")], *bids, without_bid=(AppWithoutBid("c", 1),)))
    assert sorted(count(one.gpus) for one in result.leftovers) == [1, 1]
    assert ("c", 1) in [(one.app, count(one.gpus)) for one in result.leftovers]
    assert result.idle == ()
    bids = [bid("a", 8, row(4, 1)), bid("b", 8, row(4, 1))]
    result = allocate(problem([machine("m")], *bids))
    assert [(one.gpus, one.reason) for one in result.idle] == [(2, "not wanted")]
    gang = AppWithoutBid("c", 4, gangs=(Gang(4, 4),))
    result = allocate(problem([machine("m")], *bids, without_bid=(gang,)))
    assert result.leftovers == ()
    assert [(one.gpus, one.reason) for one in result.idle] == [(2, "gang")]
