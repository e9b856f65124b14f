"""A bid on which the auction fails costs the others nothing: it is set aside, and its round says so."""

from dataclasses import replace

import pytest

from tests.auction_rounds import bid, check_feasible, count, machine, problem, random_round, row
from tests.lease_world import World, node
from tests.lease_world import row as rows_of
from tests.unit.test_lease_metrics import figures
from yarn_plugin.api.causes import text
from yarn_plugin.decide.mechanisms.partial_allocation import TAGS, Award, allocate, auction, binding
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.causes import BidSetAside


@pytest.fixture
def failing(monkeypatch):
    """The auction fails if all these applications bid. Returns the list of groups to fill."""
    groups, real = [], auction.allocate

    def fails(given):
        bidders = {one.app for one in given.bids}
        if any(set(group) <= bidders for group in groups):
            raise ValueError("no way\nat all")
        return real(given)

    monkeypatch.setattr(auction, "allocate", fails)
    return groups


@pytest.mark.parametrize("faulty", [["app-0"], ["app-6"], ["app-2", "app-3"], [f"app-{k}" for k in range(7)]])
def test_the_others_get_what_they_would_get_without_it(failing, faulty):
    given = random_round(5, bidders=7, machines=4)
    rest = [one for one in given.bids if one.app not in faulty]
    expected = allocate(replace(given, bids=tuple(rest)))
    failing += [[app] for app in faulty]
    result = allocate(given)
    check_feasible(given, result)
    nothing = [Award(app, None) for app in faulty]
    assert result.awards == tuple(sorted([*expected.awards, *nothing], key=lambda award: award.app))
    assert {one.app for one in result.set_aside} == set(faulty)
    assert {one.error for one in result.set_aside} == {"ValueError: no way at all"}
    assert (result.value, result.leftovers, result.idle) == (expected.value, expected.leftovers, expected.idle)
    Codec(TAGS).check(result)


def test_of_two_bids_that_fail_only_together_one_is_admitted(failing):
    given = random_round(5, bidders=7, machines=4)
    failing.append(["app-1", "app-5"])
    assert [one.app for one in allocate(given).set_aside] == ["app-5"]
    assert allocate(replace(given, bids=given.bids[::-1])) == allocate(given)


def test_a_round_without_bids_has_a_result():
    given = problem([machine("m")])
    result = allocate(given)
    check_feasible(given, result)
    assert (result.awards, result.value, result.proven) == ((), 0.0, True)


def test_an_application_that_appears_twice_is_still_refused():
    with pytest.raises(BadInputError, match="must appear once"):
        allocate(problem([machine("m")], bid("a", 4.0, row(1, 1)), bid("a", 4.0, row(1, 1))))


def test_a_row_that_was_not_placed_whole_is_no_result(monkeypatch):
    """What is won is compared with the row: an auction that loses pieces leases too few GPUs, or some twice."""
    real = binding._Binder.bound

    def loses(binder, placed, found):
        return tuple(gpus[:-1] for gpus in real(binder, placed, found))

    monkeypatch.setattr(binding._Binder, "bound", loses)
    result = allocate(problem([machine("m0"), machine("m1")], bid("a", 4.0, row(1, 4))))
    assert [(award.row, count(award.won)) for award in result.awards] == [(None, 0)]
    assert [one.app for one in result.set_aside] == ["a"]


def test_a_round_of_a_pool_names_the_bid_that_was_set_aside(failing):
    world = World.of(node("n1"), f=0.0)
    ann = world.arrive("ann", rho=4.0, rows=(rows_of(2.0, 2),))
    bob = world.arrive("bob", rho=4.0, rows=(rows_of(2.0, 4),))
    failing.append([bob])
    world.wait(60.0)
    (last, *_) = reversed(world.rounds())
    assert last.won == ((ann, 2),)
    assert last.set_aside == (BidSetAside(bob, "ValueError: no way at all"),)
    assert f"the bid of {bob} was set aside, since the auction failed on it: ValueError: no way at all" in text(last)
    assert figures(world)["bids_set_aside",] == 1
