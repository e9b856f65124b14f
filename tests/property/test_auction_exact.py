"""Exact means exact: fitting, optimum, payments and "proven" against brute force, on what a busy pool has free."""

import random
from collections import Counter

import pytest

from tests.auction_rounds import PLANTED, check_exact, fits, planted_pieces, scattered_machines, scattered_round
from yarn_plugin.decide.mechanisms.partial_allocation import allocate, every_way
from yarn_plugin.decide.mechanisms.partial_allocation.binding import bind
from yarn_plugin.decide.mechanisms.partial_allocation.fitting import fit, kinds_of
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.model.gpus import Piece

BLOCK = 50


def check(seed):
    """Every tenth round has no time to search; it may state a gap, and must not call what it has proven."""
    given = scattered_round(seed, exact_shares=seed % 2 == 0, work_limit=1 if seed % 10 == 9 else 20_000)
    result = allocate(given)
    check_exact(given, result)
    assert result.set_aside == ()
    return result.proven or given.work_limit == 1


@pytest.mark.parametrize("block", range(10))
def test_rounds_are_those_of_brute_force(block):
    for seed in range(BLOCK * block, BLOCK * block + BLOCK):
        assert check(seed), seed


@pytest.mark.matrix
@pytest.mark.parametrize("block", range(200))
def test_10_000_rounds_are_those_of_brute_force(block):
    for seed in range(BLOCK * block, BLOCK * block + BLOCK):
        assert check(seed), seed


@pytest.mark.parametrize("seed", [*range(40), 354, 1206, 1428, 1526, 2302, 2551, 2745])
def test_what_no_way_was_found_for_is_not_called_impossible(seed, monkeypatch):
    monkeypatch.setattr(every_way, "MAX_STEPS", 0)
    given = scattered_round(seed, exact_shares=seed % 2 == 0)
    check_exact(given, allocate(given))


def _planted(seed):
    """Pieces that fill nearly all machines, in half of the cases with others in the place of some of them."""
    draw = random.Random(f"planted {seed}")
    machines = scattered_machines(draw)
    sizes = draw.choice(PLANTED)
    pieces = planted_pieces(draw, machines, sizes, draw.choice((0.0, 0.0, 0.5, 1.0)))
    if draw.random() < 0.5:
        others = draw.randint(1, 3)
        pieces += [Piece(draw.choice(sizes), draw.choice(("", machines[0].rack))) for _ in range(others)]
        draw.shuffle(pieces)
        pieces = pieces[draw.randint(0, others) :]
    return machines, pieces


@pytest.mark.parametrize("block", range(10))
def test_close_packings_fit_exactly_if_trying_every_place_says_so(block):
    for seed in range(150 * block, 150 * block + 150):
        machines, pieces = _planted(seed)
        offer = Offer.of(machines)
        found = fit(offer, offer.slot_gpus, kinds_of(offer, pieces))
        possible = fits(machines, pieces)
        assert (found.steps is not None, found.impossible) == (possible, not possible), seed
        if possible:
            bound = bind(offer, [(piece,) for piece in pieces], [{} for _ in pieces])
            used = sum(map(Counter, map(dict, bound)), Counter())
            assert [sum(dict(gpus).values()) for gpus in bound] == [piece.gpus for piece in pieces]
            assert all(used[slot.id] <= slot.gpus for one in machines for slot in one.slots), seed
