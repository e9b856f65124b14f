"""The parts of an auction round: what starving is worth, whole GPUs, which GPUs, fitting, leftovers."""

import math
import random
from collections import Counter

import pytest

from tests.auction_rounds import bid, count, fits, machine, problem, row
from yarn_plugin.decide.mechanisms.partial_allocation import AppWithoutBid, Gang, allocate
from yarn_plugin.decide.mechanisms.partial_allocation.binding import bind
from yarn_plugin.decide.mechanisms.partial_allocation.blocks import Blocks
from yarn_plugin.decide.mechanisms.partial_allocation.candidates import Candidate, candidates
from yarn_plugin.decide.mechanisms.partial_allocation.capacities import measures
from yarn_plugin.decide.mechanisms.partial_allocation.fitting import fit, kinds_of
from yarn_plugin.decide.mechanisms.partial_allocation.leftovers import draw_order, hand_out
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Offer
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import kept_of, usable
from yarn_plugin.decide.mechanisms.partial_allocation.slots import from_slots, keep
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import NAT, STARVED, gains, log_rho_without
from yarn_plugin.model.gpus import Machine, Piece, Slot


def test_an_unbounded_rho_counts_as_ten_times_the_worst_row():
    starved = bid("a", None, row(4, 1), row(2, 2))
    assert math.exp(log_rho_without(starved)) == pytest.approx(STARVED * 4) == pytest.approx(40)
    assert [gain / NAT for gain in gains(starved)] == pytest.approx([math.log(10), math.log(20)])


def test_values_at_the_ends_of_the_number_range_are_solved():
    table = [row(1.7e308, 1), row(5e-324, 2)]
    result = allocate(problem([machine("m")], bid("a", None, *table), bid("b", 1e-300, row(5e-324, 1))))
    assert [award.row for award in result.awards] == [1, 0]


def test_scaling_the_table_of_a_starved_app_changes_nothing():
    rows = [(4, 1), (2, 2), (1, 4)]
    other = bid("b", 9, row(3, 1), row(2, 3))
    results = {
        allocate(problem([machine("m")], bid("a", None, *(row(scale * rho, gpus) for rho, gpus in rows)), other)).awards
        for scale in (1, 0.25, 8)
    }
    assert len(results) == 1


def test_a_starved_app_is_served_before_one_that_would_only_improve():
    # One GPU. A starved app gains log 10, one that halves its rho log 2, whatever their rho.
    result = allocate(problem([machine("m", 1)], bid("a", 200, row(100, 1)), bid("b", None, row(1, 1))))
    assert [award.row for award in result.awards] == [None, 0]


@pytest.mark.parametrize(
    ("share", "won", "numbers", "up", "nearest", "down"),
    [
        (0.5, 1, [1], 1, 1, 1),
        (0.5, 2, [1, 2], 1, 1, 1),
        (0.6, 4, [1, 2, 3, 4], 3, 2, 2),
        (0.7, 4, [1, 2, 3, 4], 3, 3, 2),
        (0.6, 8, [4, 8], 8, 4, 4),
        (0.1, 8, [4, 8], 4, 4, 4),
        (1.0, 8, [4, 8], 8, 8, 8),
        (0.625, 4, [1, 2, 3, 4], 3, 3, 2),
        (0.999999999, 4, [1, 2, 3, 4], 4, 4, 4),
        (0.500000001, 4, [1, 2, 3, 4], 2, 2, 2),
    ],
)
def test_shares_become_usable_numbers_of_gpus(share, won, numbers, up, nearest, down):
    kept = [kept_of(share, won, numbers, rule) for rule in ("up", "nearest", "down")]
    assert kept == [up, nearest, down]


@pytest.mark.parametrize(
    ("gangs", "held", "won", "numbers"),
    [
        ((), 0, 3, [1, 2, 3]),
        ((Gang(2, 4, 2),), 0, 4, [2, 4]),
        ((Gang(2, 4, 1),), 0, 4, [2, 3, 4]),
        ((Gang(4, 4, 1, 2),), 0, 8, [4, 8]),
        ((Gang(2, 8, 2),), 4, 4, [2, 4]),
        ((Gang(4, 8, 4),), 2, 6, [2, 6]),
        ((Gang(3, 3, 1, 2), Gang(2, 2, 1, 1)), 0, 8, [2, 3, 5, 6, 8]),
        ((Gang(1, 1, 1, 1),), 0, 4, [1]),
        ((Gang(8, 8),), 0, 4, [4]),
    ],
)
def test_usable_numbers_follow_the_gangs_of_all_trials(gangs, held, won, numbers):
    assert usable(gangs, held, won) == numbers


def test_a_winner_with_a_gang_keeps_whole_gangs():
    # As two equal apps that want 8 of 8 GPUs and get 4 each: c = 1/2, but 2 GPUs are less than a gang of 4.
    table = [row(2, 4), row(1, 4, 4)]
    gang = (Gang(4, 4, 1, 2),)
    machines = [machine("m0"), machine("m1")]
    result = allocate(problem(machines, bid("a", 4, *table, gangs=gang), bid("b", 4, *table, gangs=gang)))
    assert [(count(award.won), count(award.kept)) for award in result.awards] == [(4, 4), (4, 4)]


def test_the_kept_gpus_are_on_few_machines():
    homes = {"a/0": "a", "a/1": "a", "b/0": "b", "c/0": "c"}
    won = (("a/0", 2), ("a/1", 2), ("b/0", 3), ("c/0", 1))
    assert keep(won, 4, homes, {}) == (("a/0", 2), ("a/1", 2))
    assert keep(won, 3, homes, {}) == (("b/0", 3),)
    assert keep(won, 5, homes, {}) == (("a/0", 2), ("a/1", 2), ("c/0", 1))
    assert keep(won, 1, homes, {}) == (("c/0", 1),)
    assert keep(won, 8, homes, {}) == won


def test_equal_machines_are_kept_where_the_app_holds_gpus():
    homes = {"a/0": "a", "b/0": "b"}
    assert keep((("a/0", 2), ("b/0", 2)), 2, homes, {"b/0": 2}) == (("b/0", 2),)


def test_winners_are_bound_where_they_hold_gpus():
    offer = Offer.of([machine(f"m{k}", rack=f"r{k // 2}") for k in range(4)])
    rows = [(Piece(4),), (Piece(4, "r0"),), (Piece(2, "r0"), Piece(2, "r0"))]
    assert bind(offer, rows, [{"m3/s0": 4}, {"m1/s0": 4}, {"m0/s0": 2}]) == (
        (("m3/s0", 4),),
        (("m1/s0", 4),),
        (("m0/s0", 4),),
    )


def test_what_is_held_is_given_up_if_not_everything_fits_otherwise():
    # `a` holds part of m0, the only machine that has room for b.
    offer = Offer.of([machine("m0"), machine("m1", 2)])
    assert bind(offer, [(Piece(2),), (Piece(4),)], [{"m0/s0": 2}, {}]) == ((("m1/s0", 2),), (("m0/s0", 4),))


def _random_pieces(seed):
    draw = random.Random(seed)
    machines = [
        Machine(f"m{k}", f"r{draw.randrange(2)}", tuple(Slot(f"m{k}/{s}", draw.randint(0, 4)) for s in range(2)))
        for k in range(draw.randint(1, 3))
    ]
    places = ["", *(one.rack for one in machines), *(one.id for one in machines), "m0/0"]
    level = draw.choice([("machine",), ("machine", "slot")])
    pieces = [
        Piece(draw.choice((1, 2, 3, 4)), draw.choice(places), draw.choice(level)) for _ in range(draw.randint(1, 5))
    ]
    return machines, pieces


@pytest.mark.parametrize("block", range(10))
def test_fitting_and_binding_agree_with_trying_every_place(block):
    for seed in range(40 * block, 40 * block + 40):
        machines, pieces = _random_pieces(seed)
        offer = Offer.of(machines)
        found = fit(offer, offer.slot_gpus, kinds_of(offer, pieces))
        possible = fits(machines, pieces)
        assert (found.steps is not None, found.impossible) == (possible, not possible), seed
        bound = bind(offer, [(piece,) for piece in pieces], [{} for _ in pieces])
        assert (bound is not None) == possible
        if bound is not None:
            used = Counter()
            for piece, gpus in zip(pieces, bound, strict=True):
                used.update(dict(gpus))
                only = [
                    Machine(one.id, one.rack, tuple(Slot(s.id, dict(gpus).get(s.id, 0)) for s in one.slots))
                    for one in machines
                ]
                assert count(gpus) == piece.gpus
                assert fits(only, [piece])
            assert all(used[slot.id] <= slot.gpus for one in machines for slot in one.slots)


@pytest.mark.parametrize(
    ("machines", "pieces"),
    [
        # A piece may span the slots of a machine: 1 + 3 and 2 + 2.
        ([(2, 2), (2, 2)], [Piece(1, "r0"), Piece(2, "r0"), Piece(2), Piece(3)]),
        # Sizes that divide each other, on machines of unequal size: 1 + 4 and 4.
        ([(5,), (4,)], [Piece(1, "r0"), Piece(4), Piece(4)]),
        ([(7,), (6,), (4,)], [Piece(1, "r0"), Piece(2, "r0"), Piece(2, "r0"), Piece(4), Piece(4), Piece(4)]),
        # A piece needs one slot, and the slots of the other machine are joined nevertheless.
        ([(2, 2), (3, 1)], [Piece(3, "", "slot"), Piece(4)]),
    ],
)
def test_close_packings_are_found(machines, pieces):
    offer = Offer.of([
        Machine(f"m{k}", "r0", tuple(Slot(f"m{k}/s{s}", gpus) for s, gpus in enumerate(slots)))
        for k, slots in enumerate(machines)
    ])  # fmt: skip
    found = fit(offer, offer.slot_gpus, kinds_of(offer, pieces))
    assert (found.steps is not None, found.impossible) == (True, False)
    assert bind(offer, [(piece,) for piece in pieces], [{} for _ in pieces]) is not None


@pytest.mark.parametrize("block", range(10))
def test_what_fits_exceeds_no_measured_capacity(block):
    for seed in range(40 * block, 40 * block + 40):
        machines, pieces = _random_pieces(1000 + seed)
        if fits(machines, pieces):
            for use, capacity in measures(Offer.of(machines), [tuple(pieces[:2]), tuple(pieces[2:])]):
                assert (use.sum(axis=0) <= capacity).all(), seed


@pytest.mark.parametrize("block", range(10))
def test_what_fits_satisfies_the_condition_on_blocks(block):
    for seed in range(40 * block, 40 * block + 40):
        machines, pieces = _random_pieces(1000 + seed)
        if fits(machines, pieces):
            tables = [[Candidate(1, 0, tuple(part))] for part in (pieces[:2], pieces[2:])]
            blocks = Blocks.of(Offer.of(machines), tables, 1)
            assert blocks.fitting(blocks.use[:, 0].sum(axis=0, keepdims=True)).all(), seed


def test_remainders_of_two_racks_are_no_block():
    machines = [machine(f"m{k}", rack=f"r{k}") for k in range(2)]
    tables = [[Candidate(1, 0, (Piece(3, f"r{k}"),))] for k in range(2)]
    for size, possible in ((1, True), (2, False)):
        blocks = Blocks.of(Offer.of(machines), [*tables, [Candidate(1, 0, (Piece(size),))]], 1)
        assert blocks.fitting(blocks.use[:, 0].sum(axis=0, keepdims=True)).all() == possible


def test_tables_too_large_for_the_condition_on_blocks_go_without_it(monkeypatch):
    monkeypatch.setattr("yarn_plugin.decide.mechanisms.partial_allocation.blocks.MAX_NUMBERS", 1)
    machines = [machine(f"m{k}", rack=f"r{k}") for k in range(2)]
    tables = [[Candidate(1, 0, (Piece(3, f"r{k}"),))] for k in range(2)]
    blocks = Blocks.of(Offer.of(machines), [*tables, [Candidate(1, 0, (Piece(2),))]], 1)
    assert blocks.fitting(blocks.use[:, 0].sum(axis=0, keepdims=True)).all()


def test_rows_that_need_more_for_no_more_are_dropped():
    rows = [row(4, 1), row(4, 2), row(2, (2, "m")), row(2, (2, "m"), 1), row(9, 1, 1), row(1, 2, 2)]
    assert sorted(one.row for one in candidates(bid("a", 8, *rows))) == [0, 2, 5]


def test_the_draw_depends_on_seed_and_round_only():
    names = [f"app-{k}" for k in range(12)]
    order = draw_order(3, 7, names)
    assert order == draw_order(3, 7, list(reversed(names)))
    assert [name for name in order if name != "app-4"] == draw_order(3, 7, [name for name in names if name != "app-4"])
    assert len({tuple(draw_order(3, round, names)) for round in range(20)}) == 20


def test_every_app_without_a_bid_is_first_about_equally_often():
    firsts = Counter(draw_order(1, round, ["a", "b", "c"])[0] for round in range(3000))
    assert all(900 < firsts[name] < 1100 for name in "abc")


def test_leftovers_come_in_whole_gangs_where_the_app_holds_gpus():
    offer = Offer.of([machine("m0"), machine("m1")])
    app = AppWithoutBid("a", 6, held=(("m1/s0", 2),), gangs=(Gang(2, 2, 1, 4),))
    leftovers, idle = hand_out(offer, {"m0/s0": 3, "m1/s0": 2}, [app], 1, 1)
    assert [(one.app, one.gpus) for one in leftovers] == [("a", (("m0/s0", 2), ("m1/s0", 2)))]
    assert [(one.slot, one.gpus, one.reason) for one in idle] == [("m0/s0", 1, "gang")]


def test_a_search_cut_off_states_its_gap_and_keeps_shares_in_bounds():
    draw = random.Random(1)
    machines = [machine(f"m{k}", rack=f"r{k % 2}") for k in range(8)]
    bids = [
        bid(
            f"app-{k}",
            12,
            *(row(draw.uniform(0.5, 8), *([(draw.choice((1, 2, 3)), f"r{j % 2}")] * (j % 5 + 1))) for j in range(20)),
        )
        for k in range(10)
    ]
    exact = allocate(problem(machines, *bids, work_limit=10**6))
    cut_off = allocate(problem(machines, *bids, work_limit=1))
    assert exact.proven
    assert exact.gap == 0
    assert not cut_off.proven
    assert cut_off.value <= exact.value <= cut_off.value + cut_off.gap + 1e-6
    for award in cut_off.awards:
        assert 0 <= award.share_min <= award.share_max <= 1


def test_leftovers_go_to_the_machine_that_the_rule_names():
    chance = random.Random(11)
    for _ in range(300):
        machines = [machine(f"m{k}", chance.randint(1, 4), rack=f"r{chance.randint(0, 2)}") for k in range(7)]
        offer = Offer.of(machines)
        free = {slot: chance.randint(0, gpus) for slot, gpus in zip(offer.slots, offer.slot_gpus, strict=True)}
        held = tuple(sorted((slot, 1) for slot in chance.sample(offer.slots, 2)))
        gang = Gang(1, 1, 1, 9) if chance.random() < 0.5 else Gang(5, 5, 1)
        app = AppWithoutBid("a", 7 if gang.trials > 1 else 3, held, (), (gang,))
        leftovers, _ = hand_out(offer, free, [app], 1, 1)
        expected = _by_the_rule(offer, free, dict(held), app.wants, gang.trials > 1)
        assert [one.gpus for one in leftovers] == ([tuple(sorted(expected.items()))] if expected else [])


def test_what_is_drawn_for_an_app_lies_together_in_its_rack():
    """Two that hold nothing do not take turns, GPU by GPU, on the same machines; a third stays in its rack."""
    machines = [machine("m0", 4, rack="r0"), machine("m1", 4, rack="r0"), machine("m2", 2, rack="r1")]
    offer = Offer.of([*machines, machine("m3", 1, rack="r1")])
    free = {"m0/s0": 4, "m1/s0": 4, "m2/s0": 2}
    apps = [AppWithoutBid("a", 4), AppWithoutBid("b", 4)]
    for round in range(20):
        leftovers, _ = hand_out(offer, {"m0/s0": 4, "m1/s0": 4}, apps, 1, round)
        assert sorted(one.gpus for one in leftovers) == [(("m0/s0", 4),), (("m1/s0", 4),)]
    leftovers, _ = hand_out(offer, free, [AppWithoutBid("c", 1, held=(("m1/s0", 1),))], 1, 1)
    assert leftovers[0].gpus == (("m1/s0", 1),)
    leftovers, _ = hand_out(offer, {"m0/s0": 1, "m2/s0": 2}, [AppWithoutBid("c", 1, held=(("m3/s0", 1),))], 1, 1)
    assert leftovers[0].gpus == (("m2/s0", 1),), "the fullest machine is in the other rack"


def _by_the_rule(offer, free, held, wanted, singly):
    """Of machines with enough (else the freest): where most is held, then the rack where most is, then the fullest.

    `singly`: any number can be used, so a turn takes as much as a machine has.
    """
    left, taken = {slot: gpus for slot, gpus in free.items() if gpus}, {}
    while wanted and left and (singly or taken or sum(left.values()) >= wanted):
        room, holds, near = Counter(), Counter(), Counter()
        for slot, gpus in left.items():
            room[offer.machine_of[slot]] += gpus
        rack_of = {one.id: one.rack for one in offer.machines}
        for slot, gpus in [*held.items(), *taken.items()]:
            holds[offer.machine_of[slot]] += gpus
            near[rack_of[offer.machine_of[slot]]] += gpus
        enough = min(1 if singly else wanted, max(room.values()))
        name = min((-holds[name], -near[rack_of[name]], gpus, name) for name, gpus in room.items() if gpus >= enough)[
            -1
        ]
        here = {slot: gpus for slot, gpus in left.items() if offer.machine_of[slot] == name}
        for slot, gpus in from_slots(here, wanted, held).items():
            taken[slot] = gpus
            left[slot] -= gpus
            wanted -= gpus
        left = {slot: gpus for slot, gpus in left.items() if gpus}
    return taken
