"""What holds for every round of the auction: feasibility, determinism, no effect of any order."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.auction_rounds import check_feasible, count, random_round
from yarn_plugin.decide.mechanisms.partial_allocation import AppWithoutBid, Gang, allocate
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import usable

ROUNDS = settings(max_examples=20)


def _round(seed, bidders):
    draw = random.Random(seed)
    without = tuple(
        AppWithoutBid(f"idle-{k}", draw.randint(0, 5), gangs=draw.choice(((), (Gang(2, 4, 2, 2),)))) for k in range(3)
    )
    made = random_round(seed, bidders=bidders, machines=5, rows=8, without_bid=without)
    slots = [slot.id for machine in made.machines for slot in machine.slots]
    bids = tuple(replace(one, expiring=((draw.choice(slots), 1),)) for one in made.bids)
    return replace(made, bids=bids)


@given(st.integers(0, 10**6), st.integers(1, 9))
@ROUNDS
def test_no_gpu_twice_and_every_gpu_accounted_for(seed, bidders):
    problem = _round(seed, bidders)
    result = allocate(problem)
    check_feasible(problem, result)
    bids = {one.app: one for one in problem.bids}
    for award in result.awards:
        if award.row is not None:
            held = count(bids[award.app].held)
            assert count(award.kept) in usable(bids[award.app].gangs, held, count(award.won)) or award.kept == award.won
            assert count(award.kept) >= award.share_min * count(award.won) - 0.1
    without = {one.app: one for one in problem.without_bid}
    kept = {award.app: count(award.kept) for award in result.awards}
    for leftover in result.leftovers:
        if leftover.app in bids:
            assert kept[leftover.app] + count(leftover.gpus) <= _most(bids[leftover.app])
            continue
        app = without[leftover.app]
        assert count(leftover.gpus) <= app.wants
        assert count(leftover.gpus) in usable(app.gangs, 0, app.wants)


@given(st.integers(0, 10**6), st.integers(2, 7), st.randoms(use_true_random=False))
@ROUNDS
def test_the_order_of_bids_rows_and_machines_does_not_matter(seed, bidders, draw):
    problem = _round(seed, bidders)
    rows = {one.app: draw.sample(range(len(one.rows)), len(one.rows)) for one in problem.bids}
    shuffled = replace(
        problem,
        machines=tuple(draw.sample(problem.machines, len(problem.machines))),
        bids=tuple(
            replace(one, rows=tuple(one.rows[index] for index in rows[one.app]))
            for one in draw.sample(problem.bids, len(problem.bids))
        ),
        without_bid=tuple(draw.sample(problem.without_bid, len(problem.without_bid))),
    )
    result = allocate(shuffled)
    back = tuple(
        replace(award, row=rows[award.app][award.row]) if award.row is not None else award for award in result.awards
    )
    assert replace(result, awards=back) == allocate(problem)


@given(st.integers(0, 10**6), st.integers(1, 7))
@ROUNDS
def test_a_round_decided_twice_is_the_same(seed, bidders):
    problem = _round(seed, bidders)
    assert allocate(problem) == allocate(problem)


def test_bidders_get_leftovers_only_where_apps_without_a_bid_use_no_more():
    seen = Counter()
    for seed in range(30):
        problem = _round(seed, 4)
        result = allocate(problem)
        got = {one.app: count(one.gpus) for one in result.leftovers}
        seen.update(got)
        free = {app.app: app.wants - got.get(app.app, 0) for app in problem.without_bid if not app.gangs}
        if any(wants > 0 for wants in free.values()):
            assert not {award.app for award in result.awards} & set(got)
    assert {"idle-0", "idle-1", "idle-2"} < set(seen)


def _most(bid):
    """The GPUs of the largest row of a bid."""
    return max((sum(piece.gpus for piece in row.pieces) for row in bid.rows), default=0)
