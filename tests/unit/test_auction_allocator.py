"""The auction as an allocator: rounds through the ledger, end to end."""

from dataclasses import replace

import pytest

from tests.lease_world import World, ledger_pool, node, row
from tests.small_cells import in_prod
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated
from yarn_plugin.api.missed_bids import MissedBid, missed_bids
from yarn_plugin.decide.allocators.auction import Auction, AuctionSettings, _Last
from yarn_plugin.decide.allocators.happenings import Answer, Changed
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.events import Configured, Deregistered, JobsDeclared, ManagerLost, ManagerReached
from yarn_plugin.decide.leases.book import LeasesSeen
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.pools.commands import Ask, CancelRevoke, Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.ledger import _Known, cells_of_pool
from yarn_plugin.drive.replay import rerun_records
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.records import MemoryRecords
from yarn_plugin.model import share
from yarn_plugin.model.auction import Bid, Estimate
from yarn_plugin.model.cluster import Capabilities
from yarn_plugin.model.gpus import Job
from yarn_plugin.model.resources import GPU


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


@pytest.mark.parametrize(("rules", "grace_s"), [(4, 30.0), (RULES, 4.0)])
def test_rounds_count_with_the_grace_period_of_their_pool(rules, grace_s):
    """By earlier rules, with 30 s: results that came late took from the grace period of a shorter one."""
    assert AuctionSettings().of_rounds(1, rules, 4.0).grace_s == grace_s


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


@pytest.mark.parametrize("late", [Estimate(1, 2.0), Bid(0, 2.0)])
def test_an_offer_is_open_until_its_own_bid_comes_and_is_made_again_after_a_restart(late):
    world = started()
    a = world.arrive("a", rho=2.0, bids=False)
    world.wait(4.0)
    (offer,) = world.sent(Offer)
    world.stage.say(a, late)
    world.stage.take(Configured(world.stage.intake.state.pools), 0.01)
    assert [one.id for one in world.sent(Offer)] == [offer.id, offer.id]
    world.stage.say(a, Bid(offer.offer.round, 2.0))
    assert not world.stage.state().ledger.asked


def test_while_yarn_does_not_answer_no_round_opens():
    world = started()
    world.stage.take(ManagerLost("refused"))
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),))
    world.wait(30.0)
    assert not world.sent()
    world.stage.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
    world.wait(10.0)
    assert world.held() == {a: {"n1/0", "n1/1"}}


def test_an_answer_that_others_are_still_waited_for_is_taken_alone_with_the_same_decisions(monkeypatch):
    records, learnt = MemoryRecords(), []
    learn = Auction._learn
    monkeypatch.setattr(Auction, "_learn", lambda *given: learnt.append(given[3]) or learn(*given))
    world = started(stage=Simulated(ledger_pool({"lease_s": 60.0, "f": 0.0}), journal=records))
    for number in range(6):
        world.arrive(str(number), rho=2.0 + number, rows=(row(1.0, 1),), delay=0.1 + 0.1 * number)
    world.wait(200.0)
    assert len(world.rounds()) > 2
    assert not [one for one in learnt if isinstance(one, Answer)]
    monkeypatch.setattr(_Last, "is_all_but", lambda *given: False)
    monkeypatch.setattr(_Known, "is_all_but", lambda *given: False)
    assert rerun_records(records.read(), TOYS).first_difference() is None
    assert len([one for one in learnt if isinstance(one, Answer)]) > 2 * 2 * 6


def test_the_jobs_of_an_application_bid_as_one():
    world = started()
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),))
    world.stage.take(JobsDeclared(a, (share.Job("x", ""), share.Job("y", ""))), 0.01)
    world.wait(10.0)
    assert [message.app for message in world.sent(Ask, Offer)] == [a, a]
    assert world.held() == {a: {"n1/0", "n1/1"}}


def test_a_faulty_bid_is_refused_by_its_field():
    world = started()
    a = world.arrive("a", rho=2.0, bids=False)
    world.wait(3.0)
    (pool,) = [pool for pool in world.stage.intake.state.pools if pool.name == "gpu"]
    assert_refused(pool, world.stage.state(), a, world.sent(Offer)[0].offer.round)


def test_a_part_of_a_lease_that_is_still_being_vacated_stays_revoked_when_the_rest_is_renewed():
    world = started(lease_s=20.0, grace_s=5.0)
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),))
    world.wait(10.0)
    world.run(a, n1=(1, 1))
    b = world.arrive("b", rho=9.0, rows=(row(1.0, 1),))
    world.agents[a].rows = (row(1.5, 1),)
    world.wait(30.0)
    (entry,) = [one for one in world.stage.state().ledger.leases.values() if one.app == a]
    assert len(entry.leased.leaving) == 1
    world.stage.take(Deregistered(b), 0.01)
    world.wait(20.0)
    assert world.stage.pool_state().failure is None
    assert not world.sent(CancelRevoke)
    assert len(world.sent(Renew)) > 1


def test_a_lease_on_a_node_that_breaks_while_it_goes_on_is_revoked_and_the_node_is_not_offered():
    world = started()
    a = world.arrive("a", rho=2.0, rows=(row(1.0, 2),))
    world.wait(10.0)
    state, settings = world.stage.state(), world.stage.intake.state.pools[-1].parameters
    topology = world.stage.intake.state.cells
    broken = {name: replace(cell, broken=True) for name, cell in topology.cells.items()}
    cells = cells_of_pool(replace(topology, cells=broken), settings)
    leases = LeasesSeen(state.ledger.leases)
    seen = Seen(1100.0, 1, cells, {(a, ""): state.ledger.claims[0]}, leases, Occupancy(cells, {}))
    after, plan = Auction(settings.settings).propose(state.allocated, seen, Changed((), ("n1",)))
    (drop,) = plan.drop
    assert (drop.cause.kind, set(leases[drop.key].cells)) == ("node-lost", {"n1/0", "n1/1"})
    assert not plan.ask
    assert not Auction(settings.settings).propose(after, seen, Changed((), ()))[1].place


# Inside a virtual cluster.


def test_inside_a_virtual_cluster_it_auctions_the_clusters_cells_and_leases_do_not_lapse():
    world = in_prod()
    a = world.arrive("a", {GPU: 4})
    world.wait(30.0)
    held = world.leases()
    assert held[a]
    world.wait(100.0)
    assert world.leases() == held
    assert world.sent(Renew)
    assert not world.sent(Revoke)
    records = [one for each in world.stage.decided for one in each.commands if isinstance(one, RecordRound)]
    assert {one.pool for one in records} == {"gpu/prod"}


def test_inside_a_virtual_cluster_a_faulty_bid_is_refused_by_its_field():
    world = in_prod()
    world.answer = lambda decided: None
    a = world.arrive("a", {GPU: 4})
    world.wait(2.0)
    world.say(a, Estimate(1, None, (Job("j", 1.0, 1.0),)))
    (pool,) = [pool for pool in world.stage.intake.state.pools if pool.name == "gpu"]
    assert_refused(pool, world.state, a, 1)


def test_who_makes_no_bid_in_a_round_of_a_virtual_cluster_is_named():
    world = in_prod()
    world.answer = lambda decided: None
    a = world.arrive("a", {GPU: 4})
    world.wait(2.0)
    world.say(a, Estimate(1, None, (Job("j", 1.0, 1.0),)))
    world.wait(20.0)
    assert missed_bids(world.stage.decided) == {("gpu/prod", 1): (MissedBid(a, "none"),)}


def assert_refused(pool, state, app, number):
    with pytest.raises(BadInputError) as refused:
        TOYS.check_message(pool, state, app, Bid(number, None, (row(-1.0, 1),)))
    assert refused.value.field == "rows.0.rho"
