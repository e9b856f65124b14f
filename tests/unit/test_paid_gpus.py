"""What winners pay is offered again in the same round: to who did not bid, then to the other bidders."""

from tests.auction_rounds import bid, check_feasible, count, machine, problem, random_round, row
from tests.sampled import all_in_one
from yarn_plugin.decide.mechanisms.partial_allocation import AppWithoutBid, Gang, allocate

HONEST = (row(4, 1), row(2, 2), row(1, 4))


def taken(result):
    """The GPUs of each application: what it kept and what it got beside."""
    found = {award.app: count(award.kept) for award in result.awards}
    for one in result.leftovers:
        found[one.app] = found.get(one.app, 0) + count(one.gpus)
    return found


def idle(result):
    return sum(one.gpus for one in result.idle)


def test_what_a_bid_for_everything_pays_goes_to_the_other_bidders():
    machines = [machine(f"m{number}") for number in range(4)]
    everything = row(1e-9, 4, 4, 4, 4)
    result = allocate(problem(machines, bid("liar", 1e15, everything), *(bid(name, 8, *HONEST) for name in "abc")))
    found = taken(result)
    assert count(next(one for one in result.awards if one.app == "liar").kept) == found["liar"] == 1
    assert [found[name] for name in "abc"] == [4, 4, 4]
    assert idle(result) == 3, "more than any of their rows has"


def test_who_did_not_bid_comes_first_then_who_paid_nothing():
    machines = [machine("m0"), machine("m1")]
    bids = [bid("liar", 1e15, row(1e-9, 4, 4)), bid("a", 8, *HONEST), bid("b", 8)]
    result = allocate(problem(machines, *bids, without_bid=(AppWithoutBid("c", 3),)))
    assert taken(result) == {"liar": 1, "a": 4, "b": 0, "c": 3}


def test_nobody_gets_back_what_it_paid_itself():
    result = allocate(problem([machine("m")], bid("liar", 1e15, row(1e-9, 4)), bid("a", 8, row(8.5, 1)), bid("b", 8)))
    assert (taken(result), idle(result)) == ({"liar": 4, "a": 0, "b": 0}, 0), "its bid costs nobody anything"
    result = allocate(problem([machine("m")], bid("liar", 1e15, row(1e-9, 4)), bid("a", 8, row(1, 3))))
    assert (taken(result), idle(result)) == ({"liar": 1, "a": 3}, 0), "its row has 3 GPUs"
    table = [row(4, 1), row(2, 2), row(1, 4)]
    result = allocate(problem([machine("m")], bid("a", 8, *table), bid("b", 8, *table)))
    assert (taken(result), idle(result)) == ({"a": 2, "b": 2}, 0), "each has what the other one paid"


def test_other_bidders_take_whole_gangs():
    gangs = (Gang(2, 4, 2),)
    bids = [bid("liar", 1e15, row(1e-9, 4)), bid("a", 8, row(2, 2), row(1, 4), gangs=gangs)]
    result = allocate(problem([machine("m")], *bids))
    assert (taken(result), idle(result)) == ({"liar": 1, "a": 2}, 1)
    assert [one.reason for one in result.idle] == ["gang"]


def test_more_gpus_that_are_worth_less_than_what_a_bidder_won_are_not_added():
    """Two fast GPUs are better than four of which two are slow."""
    table = (row(0.5, (2, "m0")), row(1, 1, 1, 1, 1))
    result = allocate(problem([machine("m0", 2), machine("m1", 2)], bid("a", 8, *table)))
    assert (taken(result), idle(result)) == ({"a": 2}, 2)


@all_in_one("seed", range(200))
def test_no_gpu_that_somebody_can_use_is_idle(seed):
    given = random_round(seed)
    result = allocate(given)
    check_feasible(given, result)
    paid = {award.app: count(award.won) - count(award.kept) for award in result.awards}
    for award, one in zip(result.awards, sorted(given.bids, key=lambda one: one.app), strict=True):
        if one.gangs or award.row is None or paid[award.app]:
            continue
        sizes = [(sum(piece.gpus for piece in row.pieces), row.rho) for row in one.rows if row.rho < (one.rho or 99)]
        better = [gpus for gpus, rho in sizes if all(rho < other for less, other in sizes if less < gpus)]
        has = taken(result)[award.app]
        assert all(gpus - has > idle(result) for gpus in better if gpus > has)
