"""The auction as an allocator: rounds through the ledger, end to end."""

from tests.lease_world import World, node, row
from yarn_plugin.decide.events import Configured
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer, Renew, Revoke


def started(**settings):
    return World.of(node("n1", 2), is_ledger=True, **{"lease_s": 60.0, "place_within_s": 0.0, **settings})


def test_a_round_asks_offers_solves_and_places_and_the_end_of_a_lease_opens_the_next_one():
    world = started()
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),))
    world.wait(10.0)
    assert [type(message) for message in world.sent()] == [Ask, Offer, Grant]
    assert world.held() == {a: {"n1/0", "n1/1"}}
    b = world.arrive("b", rho=9.0, rows=(row(1.0, 2),))
    world.wait(60.0)
    assert [one.opened_by for one in world.rounds()] == [("nodes", "arrival"), ("lease-end",)]
    assert world.rounds()[1].bidders == (b,)
    (revoke,) = world.sent(Revoke)
    assert (revoke.app, revoke.cause.kind) == (a, "lease-lost")
    world.wait(30.0)
    assert [message.app for message in world.sent(LeaseEnded)] == [a]
    assert world.held() == {b: {"n1/0", "n1/1"}}


def test_who_wins_back_what_it_held_is_not_disturbed():
    world = started()
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),))
    world.wait(100.0)
    assert not world.sent(Revoke)
    (renew,) = world.sent(Renew)
    assert (renew.app, renew.cause.how) == (a, "bid")


def test_a_restart_goes_on_with_the_round():
    world = started()
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),), delay=3.0)
    world.wait(3.0)
    world.stage.take(Configured(world.stage.intake.state.pools), 0.01)
    world.wait(20.0)
    assert world.held() == {a: {"n1/0", "n1/1"}}
