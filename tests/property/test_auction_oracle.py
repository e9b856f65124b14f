"""The auction against an integer program of another kind, on rounds too large for brute force."""

import math
from dataclasses import replace

import pytest

from tests.auction_oracle import best_value
from tests.auction_rounds import best_product, random_round, value_of
from tests.bench.auction_rounds import round_of
from yarn_plugin.decide.mechanisms.partial_allocation import allocate

TOLERANCE = 1e-6


def check(given):
    """The optimum, of the round and of each leave-one-out problem, is what the auction proves or lies in its gap."""
    result = allocate(given)
    found, bound = best_value(given.machines, given.bids)
    # Of allocations that tie within 1e-5 the one that serves more wins, and each counts 2e-5 for this.
    tie = 1e-5 + 2e-5 * len(given.bids)
    assert result.value <= bound + TOLERANCE
    assert found <= result.value + result.gap + tie + TOLERANCE
    return result, found, tie


@pytest.mark.parametrize("seed", range(6))
def test_rounds_of_ten_bidders_on_machines_of_several_kinds(seed):
    given = random_round(seed, bidders=10, machines=8, rows=12, payments=False)
    result, found, tie = check(given)
    assert result.proven
    assert result.value == pytest.approx(found, abs=tie + TOLERANCE)


@pytest.mark.parametrize("demand", ["spread", "contended"])
def test_rounds_of_128_gpus_in_classes(demand):
    result, _, _ = check(replace(round_of(8, 128, demand, "classes", 1), payments=False))
    assert result.proven


def test_the_oracle_agrees_with_trying_all():
    for seed in range(10):
        given = random_round(seed)
        brute = best_product(given.machines, given.bids)
        nothing = 1.0
        for one in given.bids:
            nothing *= value_of(one, None)
        assert best_value(given.machines, given.bids)[0] == pytest.approx(math.log(brute / nothing), abs=1e-6)


def test_payments_follow_from_the_oracle_too():
    given = random_round(3, bidders=8, machines=6, rows=8, exact_shares=True)
    _check_shares(given)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(40))
def test_shares_of_many_rounds(seed):
    _check_shares(random_round(1000 + seed, bidders=8, machines=6, rows=10, exact_shares=True))


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("demand", ["spread", "contended"])
@pytest.mark.parametrize("names", ["classes", "machines"])
def test_many_rounds_of_256_gpus(names, demand, seed):
    check(replace(round_of(16, 256, demand, names, seed), payments=False))


def _check_shares(given):
    result, found, tie = check(given)
    assert result.proven
    values = {
        one.app: award for one, award in zip(sorted(given.bids, key=lambda one: one.app), result.awards, strict=True)
    }
    for one in given.bids:
        award = values[one.app]
        if award.row is None:
            continue
        own = math.log(value_of(one, award.row) / value_of(one, None))
        without, _ = best_value(given.machines, [other for other in given.bids if other is not one])
        assert math.log(award.share_min) == pytest.approx(min(0.0, found - own - without), abs=3 * tie)
        assert award.share_min == award.share_max
