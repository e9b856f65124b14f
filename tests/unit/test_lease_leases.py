"""Leases: renewed, revoked, handed over, ended; and containers beyond them."""

from dataclasses import replace

import pytest

from tests.lease_world import World, gpus_of, node, row
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    ContainersListed,
    Deregistered,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    NodeUseChanged,
    PartitionsChanged,
)
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer, Renew, Revoke
from yarn_plugin.decide.pools.lease import allocation
from yarn_plugin.decide.pools.lease.inventory import inventory
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.pools.view import View
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import AppEnded, BeyondLease, LeaseReleased, LeaseVacated, LeaseWon, NodeLost, NotPlaced
from yarn_plugin.model.cluster import Capabilities, Container, YarnApp
from yarn_plugin.model.gpus import GpuPlace, Job
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.topology import CellDescription, NodeDescription, TopologyDescription

N1, N2 = ({f"{machine}/{ordinal}" for ordinal in range(4)} for machine in ("n1", "n2"))


def commands(world, kind):
    return [(one.at, command) for one in world.stage.decided for command in one.commands if isinstance(command, kind)]


def times(world, kind):
    """When messages of a kind were sent."""
    return [(one.at, command.message) for one in world.stage.decided for command in one.commands
            if isinstance(getattr(command, "message", None), kind)]  # fmt: skip


def handing_over(*nodes, **settings):
    """ann holds all of n1 for 600 s; then bob, worse off, wins them all."""
    world = World.of(*(nodes or (node("n1"),)), **settings)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    b = world.arrive("bob", rho=9.0, rows=(row(1.0, 4),))
    return world, a, b


# Ends of leases.


def test_winning_back_disturbs_nothing():
    world = World.of(node("n1"))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(1300.0)
    (grant,) = world.sent(Grant)
    (lease,) = grant.leases
    assert gpus_of(lease) == N1
    assert [one.lease for one in world.sent(Renew)] == [lease.id] * 2
    assert (world.sent(Revoke), world.sent(LeaseEnded)) == ([], [])
    first, second = world.sent(Renew)
    assert first.until > lease.until + 599.0
    assert first.cause == LeaseWon(2, 4, "bid")
    assert world.stage.state().leases[lease.id].lease.until == second.until
    assert world.held() == {a: N1}


def test_without_container_lists_gpus_are_handed_over_at_the_end_of_the_grace_period():
    world, a, b = handing_over()
    world.wait(600.0)
    ((revoked_at, revoke),) = times(world, Revoke)
    assert (revoke.app, revoke.by, revoke.cells) == (a, pytest.approx(revoked_at + 30.0), ())
    assert world.held() == {a: N1}, "who loses keeps the GPUs for the grace period"
    world.wait(40.0)
    ((ended_at, ended),) = times(world, LeaseEnded)
    assert (ended.app, ended.cells, ended.cause) == (a, (), LeaseVacated(30.0))
    (_, (granted_at, grant)) = times(world, Grant)
    assert (ended_at, granted_at) == (revoke.by, revoke.by)
    assert (grant.app, grant.cause) == (b, LeaseWon(2, 4, "bid", 30.0))
    assert world.held() == {b: N1}
    assert len(world.rounds()) == 2


def test_without_a_grace_period_gpus_are_handed_over_at_once():
    world, a, b = handing_over(grace_s=0.0, decide_s=0.0, round_window_s=0.0)
    world.wait(590.0)
    end = world.sent(Grant)[0].leases[0].until
    world.wait(end + 0.11 - world.stage.clock.time)
    assert world.held() == {b: N1}
    assert world.sent(Grant)[1].cause == LeaseWon(2, 4, "bid")
    assert world.sent(LeaseEnded)[0].app == a


def test_a_holder_trains_on_until_the_auction_of_its_gpus_is_decided():
    world, a, _ = handing_over(bid_s=40.0)
    world.agents[a].bids = True
    end = world.sent(Grant)[0].leases[0].until
    for agent in world.agents.values():
        agent.bids = False
    world.wait(end + 20.0 - world.stage.clock.time)
    assert world.stage.state().round.phase == "offered"
    assert world.held() == {a: N1}
    assert world.sent(Revoke) == world.sent(LeaseEnded) == []


def test_a_win_of_half_renews_one_half_and_revokes_the_other():
    world = World.of(node("n1"), f=0.0, payments=False)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4), row(1.2, 2)))
    world.wait(20.0)
    b = world.arrive("bob", rho=9.0, rows=(row(1.0, 2),))
    world.wait(600.0)
    (renew,), (revoke,) = world.sent(Renew), world.sent(Revoke)
    assert renew.lease == revoke.lease
    assert revoke.cells == ("n1/2", "n1/3")
    world.wait(40.0)
    assert world.held() == {a: {"n1/0", "n1/1"}, b: {"n1/2", "n1/3"}}
    (ended,) = world.sent(LeaseEnded)
    assert ended.cells == ("n1/2", "n1/3")
    (held,) = [one for one in world.stage.state().leases.values() if one.lease.app == a]
    assert (held.leaving, held.by, held.revoke) == ((), None, None)


def test_leases_end_on_the_grid():
    settings = LeaseSettings(lease_s=600.0, grid_s=60.0)
    assert settings.end_of_lease(1002.7) == 1620.0
    assert settings.end_of_lease(1020.0) == 1620.0
    assert LeaseSettings(lease_s=600.0, grid_s=0.0).end_of_lease(1002.7) == 1602.7
    assert LeaseSettings(lease_s=600.0).end_of_lease(1002.7) == 1620.0
    assert LeaseSettings(lease_s=0.1, grid_s=0.1).end_of_lease(0.2) == pytest.approx(0.3), "0.2 + 0.1 is above 3 x 0.1"
    world = World.of(node("n1"), grid_s=60.0)
    for wait, name in ((20.0, "ann"), (20.0, "bob")):
        world.arrive(name, rho=3.0, rows=(row(1.0, 2),))
        world.wait(wait)
    assert {lease.until for grant in world.sent(Grant) for lease in grant.leases} == {1620.0, 1680.0}
    world.wait(700.0)
    assert [one.gpus for one in world.rounds()] == [4, 2, 2, 2]


# Container lists.


def test_with_container_lists_the_winner_starts_when_the_containers_are_gone():
    world, a, b = handing_over()
    world.run(a, n1=(2, 2))
    world.wait(600.0)
    world.run(a, n1=(2,))
    assert world.held() == {a: N1}, "two GPUs are still in use"
    world.run(a)
    assert world.held() == {b: N1}
    (_, (granted_at, _)), ((revoked_at, _),) = times(world, Grant), times(world, Revoke)
    assert granted_at < revoked_at + 29.0


def test_lists_that_do_not_show_all_leased_gpus_in_use_do_not_tell_which_ones_are_vacated():
    """The holder may have started its containers since they were listed, or use the very GPUs that it loses."""
    world, a, b = handing_over(place_within_s=0.0)
    world.run(a, n1=(2,))
    world.wait(600.0)
    world.run(a, n1=())
    (revoke,) = world.sent(Revoke)
    world.wait(revoke.by - 1.0 - world.stage.clock.time)
    assert world.held() == {a: N1}
    world.wait(2.0)
    assert world.held() == {b: N1}


def test_lists_and_the_word_of_the_holder_tell_that_gpus_are_vacated():
    world, a, b = handing_over(place_within_s=0.0)
    world.run(a, n1=(2,))
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    world.stage.say(a, Release(revoke.lease))
    assert world.held() == {a: N1}, "two are still listed"
    world.run(a, n1=())
    assert world.held() == {b: N1}


def test_a_container_that_ends_on_another_gpu_of_the_machine_vacates_no_revoked_one():
    world, a, b = handing_over()
    world.agents[a].rows = world.agents[b].rows = (row(1.0, 2),)
    world.run(a, n1=(1, 1, 1, 1))
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    assert len(revoke.cells) == 2, "it goes on with the others"
    world.run(a, n1=(1, 1))
    assert world.held() == {a: N1}, "which two are idle is not known"
    world.stage.say(a, Release(revoke.lease, revoke.cells))
    assert world.held() == {a: N1 - {*revoke.cells}, b: {*revoke.cells}}


def test_of_several_revoked_gpus_those_are_vacated_that_their_holder_names():
    world, a, _ = handing_over()
    world.run(a, n1=(1, 1, 1, 1))
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    world.stage.say(a, Release(revoke.lease, ("n1/2",)))
    assert world.held() == {a: N1}, "it is still listed"
    world.run(a, n1=(1, 1, 1))
    assert world.held() == {a: N1 - {"n1/2"}}
    world.run(a)
    assert world.held().get(a) is None


def test_who_overstays_the_grace_period_is_named_and_signalled_and_the_winner_waits():
    world, a, _ = handing_over()
    world.run(a, n1=(2, 2))
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    world.wait(revoke.by + 1.0 - world.stage.clock.time)
    assert world.held() == {a: N1}
    listed = [one for _, one in commands(world, ListContainers) if isinstance(one.cause, BeyondLease)]
    assert [one.cause for one in listed] == [BeyondLease(a, "n1", 4, 0)]
    assert commands(world, SignalContainers) == [], "it may have complied in the meantime"
    world.run(a, n1=(2, 2))
    ((_, signal),) = commands(world, SignalContainers)
    assert signal.containers == (f"container_{a}_n1_001", f"container_{a}_n1_000"), "never the master"
    assert signal.cause == BeyondLease(a, "n1", 4, 0)


def test_containers_beyond_a_lease_are_signalled_after_the_grace_period():
    world = World.of(node("n1"))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    world.run(a, n1=(1, 1, 1))
    world.wait(29.0)
    assert not [one for _, one in commands(world, ListContainers) if isinstance(one.cause, BeyondLease)]
    world.wait(2.0)
    world.run(a, n1=(1, 1, 1))
    ((_, signal),) = commands(world, SignalContainers)
    assert signal.containers == (f"container_{a}_n1_002",), "the newest, and only what is beyond"


def test_an_application_within_its_lease_is_left_alone():
    world = World.of(node("n1"))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    world.run(a, n1=(2, 2))
    world.wait(100.0)
    world.run(a, n1=(2, 2))
    assert commands(world, SignalContainers) == []
    assert world.held() == {a: N1}


def test_an_unregistered_application_leases_nothing():
    world = World.of(node("n1"))
    held = Resources.of({GPU: 2})
    stray = YarnApp("application_9_0001", "x", "eve", "root.gpu.x", False, 1.0, held, Resources(), 2)
    containers = (Container("container_1", "n1:8041", held, False), Container("container_2", "n1:8041", held, True))
    listed = ContainersListed(stray.id, containers)
    world.stage.take(AppsChanged((stray,), ()))
    world.stage.take(listed)
    world.wait(31.0)
    world.stage.take(listed)
    ((_, signal),) = commands(world, SignalContainers)
    assert (signal.app, signal.containers) == (stray.id, ("container_1",)), "never the master"
    assert signal.cause == BeyondLease(stray.id, "n1", 4, 0)
    assert world.sent(Ask) == []


def test_nothing_is_signalled_while_yarn_does_not_answer():
    world = World.of(node("n1"))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    world.run(a, n1=(4,))
    world.stage.take(ManagerLost("no connection"))
    world.wait(100.0)
    world.stage.take(ContainersListed(a, ()))
    assert commands(world, SignalContainers) == []


def used_in_part():
    """ann leases all of n1; YARN lists a container on one of its GPUs."""
    world = World.of(node("n1"), place_within_s=30.0)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.run(a)
    world.wait(20.0)
    world.run(a, n1=(1,))
    return world, a


def test_a_grant_that_is_not_in_use_comes_back():
    world, a = used_in_part()
    world.wait(20.0)
    assert world.sent(LeaseEnded) == [], "the list may be older than the containers"
    world.run(a, n1=(1,))
    (revoke,) = world.sent(Revoke)
    assert (revoke.cells, revoke.cause) == (("n1/1", "n1/2", "n1/3"), NotPlaced("n1", 4, 1, 30.0))
    assert world.held() == {a: N1}, "the container may be on one of these"
    world.wait(31.0)
    assert world.held() == {a: {"n1/0"}}
    world.wait(100.0)
    assert len(world.rounds()) == 1, "the same would happen again"


def test_a_grant_that_is_not_in_use_comes_back_at_once_if_its_holder_gives_it_back():
    world, a = used_in_part()
    world.wait(20.0)
    world.run(a, n1=(1,))
    (revoke,) = world.sent(Revoke)
    world.stage.say(a, Release(revoke.lease, revoke.cells))
    assert world.held() == {a: {"n1/0"}}
    world.wait(100.0)
    assert len(world.rounds()) == 1, "the same would happen again"


def test_no_more_gpus_are_revoked_as_unplaced_than_are_not_in_use():
    """Two leases on a machine, and a container on a GPU of one of them: which one is not known."""
    world = World.of(node("n1"), f=0.5, place_within_s=30.0)
    a = world.arrive("ann", rho=9.0, rows=(row(1.0, 1),))
    world.wait(10.0)
    world.arrive("bob", rho=2.0, rows=())
    world.wait(15.0)
    assert [len(grant.leases) for grant in world.sent(Grant) if grant.app == a] == [1, 1]
    world.agents[a].rows = ()
    world.run(a, n1=(1,))
    world.wait(35.0)
    world.run(a, n1=(1,))
    world.run(a, n1=(1,))
    assert [one.app for one in world.sent(Revoke)] == [a]
    assert len(world.held()[a]) == 2, "the container may be on either"
    world.wait(31.0)
    assert len(world.held()[a]) == 1


def test_gpus_that_came_back_unused_from_the_only_application_are_offered_again_after_a_lease():
    world = World.of(node("n1"), place_within_s=30.0)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.run(a)
    world.wait(40.0)
    world.run(a)
    assert world.held() == {}
    world.wait(500.0)
    assert len(world.rounds()) == 1, "the same would happen again"
    world.wait(150.0)
    assert len(world.rounds()) == 2


def test_gpus_that_came_back_unused_are_offered_to_others():
    world = World.of(node("n1"), f=0.5, place_within_s=30.0)
    a = world.arrive("ann", rho=9.0, rows=(row(1.0, 4),))
    b = world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert world.held() == {a: N1}
    world.wait(20.0)
    world.run(a)
    assert world.held() == {}
    world.agents[a].rows = ()
    world.wait(100.0)
    assert world.held() == {b: N1}, "not after lease_s"


@pytest.mark.parametrize("lists", [False, True])
def test_a_grant_comes_back_although_yarn_lists_no_container_of_its_holder(lists):
    world = World.of(node("n1"), place_within_s=30.0)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    if lists:
        world.stage.take(ContainersListed(a, ()))
    world.wait(20.0)
    world.stage.take(ContainersListed(a, ()))
    assert world.held() == {}


def test_a_grant_that_was_made_shortly_before_yarn_went_away_comes_back_when_yarn_answers():
    world, a = used_in_part()
    world.stage.take(ManagerLost("no connection"))
    world.wait(100.0)
    world.stage.take(ManagerReached("http://rm", Capabilities("3.5.0", True, True)))
    world.run(a, n1=(1,))
    assert [one.cells for one in world.sent(Revoke)] == [("n1/1", "n1/2", "n1/3")]


def test_containers_are_listed_again_before_a_grant_comes_back():
    world, a = used_in_part()
    before = len(commands(world, ListContainers))
    world.wait(20.0)
    assert len(commands(world, ListContainers)) == before + 1
    world.run(a, n1=(1, 1, 1, 1))
    world.wait(100.0)
    assert (world.sent(LeaseEnded), world.held()) == ([], {a: N1})


def test_containers_are_listed_again_until_there_is_an_answer():
    world, a = used_in_part()
    before = len(commands(world, ListContainers))
    world.wait(80.0)
    assert len(commands(world, ListContainers)) == before + 3
    world.run(a, n1=(1,))
    world.wait(31.0)
    assert world.held() == {a: {"n1/0"}}
    world.wait(69.0)
    assert len(commands(world, ListContainers)) == before + 3


# Nodes, applications.


def test_a_broken_node_ends_its_leases_and_its_return_opens_a_round():
    world = World.of(node("n1"), node("n2"))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4, 4),))
    world.wait(20.0)
    world.stage.take(NodesChanged((), ("n2:8041",), (node("n2"),)))
    (ended,) = world.sent(LeaseEnded)
    assert (ended.app, ended.cause) == (a, NodeLost("n2"))
    assert world.held() == {a: N1}
    world.wait(60.0)
    assert len(world.rounds()) == 1
    world.agents[a].rows = (row(0.9, 4),)
    world.stage.take(NodesChanged((node("n2"),), ()))
    world.wait(20.0)
    assert world.rounds()[1].opened_by == ("nodes",)
    assert len(world.held()[a]) == 8


def test_idle_gpus_replace_those_that_are_lost_with_their_node_at_once():
    world = World.of(node("n1"), node("n2"), lease_s=600)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4, within="n2"),))
    world.wait(20.0)
    assert world.held() == {a: {f"n2/{number}" for number in range(4)}}
    world.agents[a].rows = (row(1.0, 4, within="n1"),)
    world.stage.take(NodesChanged((), ("n2:8041",), (node("n2"),)))
    world.wait(20.0)
    assert world.rounds()[1].opened_by == ("nodes",)
    assert world.held() == {a: N1}


def test_a_node_lost_while_its_gpus_are_auctioned_is_left_out():
    world = World.of(node("n1"), node("n2"), solves=False)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4, 4),))
    world.wait(2.3)
    world.stage.take(NodesChanged((), ("n2:8041",)))
    world.stage.solve()
    world.wait(10.0)
    assert world.held() == {a: N1}


def test_rows_that_need_a_node_lost_since_the_offer_do_not_count():
    world = World.of(node("n1"), node("n2"), f=0.0)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4, within="n2"), row(2.0, 2, within="n1")))
    world.arrive("bob", rho=3.0, bids=False)
    world.wait(4.0)
    assert world.stage.state().round.bids
    world.stage.take(NodesChanged((), ("n2:8041",)))
    world.wait(20.0)
    assert world.held() == {a: {"n1/0", "n1/1"}}


def test_gpus_that_a_new_description_renames_end_their_leases():
    world = World.of(node("n1", 1))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 1),))
    world.wait(20.0)
    assert world.held() == {a: {"n1/0"}}
    one = CellDescription("gpu-0", Resources.of({GPU: 1}))
    described = TopologyDescription(("rack", "node", "gpu"), (NodeDescription(("n1",), cells=(one,)),))
    world.stage.take(Configured(world.stage.intake.state.pools, topology=described))
    assert world.held() == {}
    assert world.stage.pool_state().failure is None


def test_the_leases_of_an_application_that_ends_end():
    world, a, _ = handing_over()
    world.stage.take(Deregistered(a))
    (ended,) = world.sent(LeaseEnded)
    assert (ended.app, ended.cause) == (a, AppEnded(a))


def test_a_winner_that_ends_before_the_hand_over_leaves_the_gpus_to_another_round():
    world, a, b = handing_over()
    world.wait(600.0)
    assert len(world.sent(Revoke)) == 1
    world.stage.take(Deregistered(b))
    world.wait(60.0)
    assert world.held() == {a: N1}
    assert [one.opened_by for one in world.rounds()][2:] == [("released",)]


# Releases.


def test_released_gpus_are_handed_over_at_once():
    world, a, b = handing_over()
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    world.stage.say(b, Release(revoke.lease))
    assert world.held() == {a: N1}, "only its holder may release a lease"
    world.stage.say(a, Release(revoke.lease))
    assert world.held() == {b: N1}
    assert world.sent(LeaseEnded)[0].cause == LeaseReleased(a)


def test_a_release_does_not_count_while_containers_are_listed():
    world, a, _ = handing_over()
    world.run(a, n1=(4,))
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    world.wait(5.0)
    world.stage.say(a, Release(revoke.lease))
    assert world.held() == {a: N1}
    assert world.sent(Revoke) == [revoke], "it does not put off the end of the grace period"
    assert {one.by for one in world.stage.state().leases.values() if one.by} == {revoke.by}


def test_gpus_released_early_open_a_round_unless_they_were_leftovers():
    world = World.of(node("n1"), f=0.5)
    a = world.arrive("ann", rho=9.0, rows=(row(1.0, 2),))
    b = world.arrive("bob", rho=3.0)
    world.wait(20.0)
    lease = {one.lease.app: one.lease for one in world.stage.state().leases.values()}
    world.stage.say(b, Release(lease[b].id))
    world.wait(30.0)
    assert len(world.rounds()) == 1
    world.stage.say(a, Release(lease[a].id, ("n1/0",)))
    world.wait(30.0)
    assert [one.opened_by for one in world.rounds()][1:] == [("released",)]


# Restarts.


def restart(world):
    """The arbiter is away for a while: what was due in the meantime did not happen."""
    begun = len(world.stage.decided)
    pools = world.stage.intake.state.pools
    world.stage.take(Configured(pools), 0.001)
    world.stage.take(Configured(pools), 0.001)
    return [command for one in world.stage.decided[begun:] for command in one.commands]


def repeated(world):
    found = [getattr(one, "message", one) for one in restart(world)]
    return [(type(one).__name__, one.id) for one in found if hasattr(one, "id")]


def test_open_commands_are_issued_again_with_the_same_ids_and_the_whole_time():
    world = World.of(node("n1"), solves=False)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),), estimates=False, bids=False)
    world.wait(2.5)
    ((_, ask),) = times(world, Ask)
    assert repeated(world) == [("Ask", ask.id)] * 2
    assert world.sent(Ask)[-1] == replace(ask, answer_by=world.stage.clock.time + 5.0)
    world.agents[a].estimates = True
    world.wait(10.0)
    offer = world.sent(Offer)[0]
    assert repeated(world) == [("Offer", offer.id)] * 2
    world.wait(20.0)
    (solve,) = world.stage.problems
    assert [one for one in repeated(world) if one[0] != "SetTimer"] == [("SolveInWorker", solve.id)] * 2


def test_a_revoked_lease_has_its_whole_grace_period_again():
    world, a, _ = handing_over()
    world.wait(600.0)
    (revoke,) = world.sent(Revoke)
    world.wait(revoke.by - 5.0 - world.stage.clock.time)
    assert repeated(world) == [("Revoke", revoke.id)] * 2
    world.wait(29.0)
    assert world.held() == {a: N1}
    world.wait(2.0)
    assert a not in world.held()


# Places.


def test_ids_name_the_ordinals_of_each_node():
    world = World.of(node("n2", 2), node("n1", 1))
    world.arrive("ann", rho=3.0, rows=(row(1.0, 1, 2),))
    world.wait(20.0)
    (grant,) = world.sent(Grant)
    assert [[holding.cell for holding in lease.holdings] for lease in grant.leases] == [["n1/0"], ["n2/0", "n2/1"]]


def test_a_described_topology_gives_slots_and_the_names_of_gpus():
    world = World.of(node("n1", 4))
    sockets = tuple(
        CellDescription(f"s{s}", None, tuple(CellDescription(f"gpu-{g}", Resources.of({GPU: 1})) for g in range(2)))
        for s in range(2)
    )
    described = TopologyDescription(("rack", "node", "socket", "gpu"), (NodeDescription(("n1",), cells=sockets),))
    world.stage.take(Configured(world.stage.intake.state.pools, topology=described))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 2, level="slot"),))
    world.wait(20.0)
    (machine,) = world.sent(Offer)[0].offer.machines
    assert [(slot.id, slot.gpus) for slot in machine.slots] == [("n1/s0", 2), ("n1/s1", 2)]
    assert world.held() == {a: {"n1/s0/gpu-0", "n1/s0/gpu-1"}}


def test_a_grant_says_where_each_gpu_is():
    """Two nodes of one host, told apart by their ports; parts of one are described, and some of them are broken."""
    world = World.of(node("n1", 4))
    two = [replace(node("n1", 4), id=f"n1:{port}") for port in (1, 2)]
    world.stage.take(NodesChanged(tuple(two), ("n1:8041",)))
    sockets = tuple(
        CellDescription(f"s{s}", None, tuple(CellDescription(f"g{g}", Resources.of({GPU: 1})) for g in range(2)))
        for s in range(2)
    )
    kind = NodeDescription(("n1",), cells=sockets, gpu_model="A100")
    described = TopologyDescription(("rack", "node", "socket", "gpu"), (kind,))
    world.stage.take(Configured(world.stage.intake.state.pools, topology=described))
    world.arrive("ann", rho=3.0, rows=(row(1.0, 4, 4),))
    world.wait(20.0)
    (grant,) = world.sent(Grant)
    told = {one.cell: one.place for lease in grant.leases for one in lease.holdings}
    expected = {
        f"n1:{port}/s{s}/g{g}": GpuPlace("n1", "/r1", f"n1:{port}", f"n1:{port}/s{s}", 2 * s + g, "A100")
        for port in (1, 2)
        for s in range(2)
        for g in range(2)
    }
    assert told == expected
    assert {machine.host for machine in world.sent(Offer)[0].offer.machines} == {"n1"}
    cells = world.stage.intake.state.cells
    broken = replace(cells, cells={**cells.cells, "n1:1/s0": replace(cells.cells["n1:1/s0"], broken=True)})
    usable = inventory(broken, LeaseSettings()).places
    assert [place.ordinal for place in usable.values() if place.machine == "n1:1"] == [2, 3]


def test_gpus_that_tasks_cannot_use_are_not_offered():
    """Eight GPUs and seven vcores: tasks of two GPUs and three vcores use four GPUs."""
    world = World.of(node("n1", 8, cores=7), gpus_per_task=2, task_vcores=3)
    world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    world.wait(20.0)
    assert world.sent(Offer)[0].offer.machines[0].gpus == 4


# Policies without auctions.


def test_a_policy_without_auctions_leases_to_jobs_in_one_step():
    """Tiresias, thesis section 3.6.1: the job with the least attained GPU time first."""
    world = World.of(node("n1"), policy="tiresias")
    a = world.arrive("ann", jobs=(Job("a1", 100.0, 60.0, min_gpus=4, max_gpus=4, attained_gpu_s=50.0),))
    b = world.arrive("bob", jobs=(Job("b1", 100.0, 60.0, min_gpus=4, max_gpus=4),))
    world.wait(20.0)
    (grant,) = world.sent(Grant)
    assert (grant.app, grant.leases[0].job, grant.cause.how) == (b, "b1", "policy")
    assert world.sent(Offer) == []
    world.agents[b].jobs = (replace(world.agents[b].jobs[0], attained_gpu_s=2400.0),)
    world.wait(640.0)
    assert world.held() == {a: N1}
    assert world.rounds()[-1].won == ((a, 4),)


def test_a_policy_without_auctions_asks_only_who_can_use_more():
    world = World.of(node("n1"), policy="tiresias")
    a = world.arrive("ann", jobs=(Job("a1", 100.0, 60.0, min_gpus=2, max_gpus=2),))
    world.wait(20.0)
    b = world.arrive("bob", jobs=(Job("b1", 100.0, 60.0, min_gpus=1, max_gpus=4),))
    world.wait(20.0)
    assert {app: len(gpus) for app, gpus in world.held().items()} == {a: 2, b: 2}
    assert [ask.app for ask in world.sent(Ask)] == [a, b]
    # Until its lease ends ann has all that it can use.
    world.wait(600.0)
    assert a in [ask.app for ask in world.sent(Ask)][2:]


def test_attained_service_counts_jobs_that_have_ended():
    """Tiresias, thesis section 3.6.1: the GPU time of the application, whichever of its jobs had it."""
    world = World.of(node("n1"), policy="tiresias")
    whole = {"min_gpus": 4, "max_gpus": 4}
    a = world.arrive("ann", jobs=(Job("a1", 100.0, 60.0, **whole),))
    world.wait(20.0)
    b = world.arrive("bob", jobs=(Job("b1", 100.0, 60.0, attained_gpu_s=10.0, **whole),))
    # Of ann's jobs another one is left, which has had nothing.
    world.agents[a].jobs = (Job("a2", 100.0, 60.0, **whole),)
    world.wait(640.0)
    assert list(world.held()) == [b]


def test_attained_service_counts_gpus_of_a_lost_node():
    world = World.of(node("n1"), policy="tiresias")
    whole = {"min_gpus": 4, "max_gpus": 4}
    world.arrive("ann", jobs=(Job("a1", 100.0, 60.0, **whole),))
    world.wait(20.0)
    b = world.arrive("bob", jobs=(Job("b1", 100.0, 60.0, attained_gpu_s=10.0, **whole),))
    world.wait(100.0)
    world.stage.take(NodesChanged((), ("n1:8041",)))
    world.wait(5.0)
    world.stage.take(NodesChanged((node("n1"),), ()))
    world.wait(20.0)
    assert world.held() == {b: N1}


def test_attained_service_of_an_earlier_versions_journal_counts_from_the_leases():
    world = World.of(node("n1"), policy="tiresias")
    a = world.arrive("ann", jobs=(Job("a1", 100.0, 60.0, min_gpus=4, max_gpus=4),))
    world.wait(20.0)
    state = world.stage.state()
    (held,) = state.leases.values()
    state = replace(state, members={a: replace(state.members[a], attained_gpu_s=0.0, attained_at=None)})
    turn = Turn("gpu", LeaseSettings(), state, View(), held.started_at + 50.0)
    assert turn.attained_gpu_s(a) == pytest.approx(200.0)


def test_a_round_in_an_earlier_versions_journal_which_listed_gpus_goes_on():
    world = World.of(node("n1"), node("n2"))
    a = world.arrive("ann", bids=False)
    world.wait(5.0)
    kept = world.stage.intake.state.pool_states["gpu"]
    codec, view = Codec(journal_tags(BUILT_IN)), kept.seen
    written = codec.write(kept.state)
    assert written["round"]["offer"] == {"n1": sorted(N1), "n2": sorted(N2)}
    written["round"]["offer"], written["idle"] = sorted(N1 | N2), sorted(N1)
    turns = [Turn("gpu", LeaseSettings(), one, view, 6.0) for one in (kept.state, codec.read(written))]
    won = [([((a, ""), (("n1", 3),))], "bid")]
    now, before = (allocation.allocate(turn, turn.state.round, won) for turn in turns)
    assert (before.given, before.left) == (now.given, now.left)
    turns[1].freed(sorted(N1), "released")
    assert not turns[1].state.triggers, "idle GPUs are no event"
    turns[1].freed(sorted(N2), "released")
    assert turns[1].state.triggers


def test_cells_in_an_earlier_versions_journal_which_had_no_hosts_and_partitions_are_built_again():
    world = World.of(node("n1"))
    world.stage.take(PartitionsChanged((("n1:8041", "gpu"),)))
    execution, known = world.stage.intake._execution, world.stage.intake.state
    assert known.cells.cells["n1"].partition == "gpu"
    before = {name: replace(cell, host="", partition="") for name, cell in known.cells.cells.items()}
    execution.state = replace(known, cells=replace(known.cells, cells=before))
    world.stage.take(Configured(known.pools))
    assert world.stage.intake.state.cells == known.cells


def test_a_job_of_a_policy_without_auctions_that_keeps_its_gpus_is_renewed():
    world = World.of(node("n1"), policy="tiresias")
    a = world.arrive("ann", jobs=(Job("a1", 100.0, 60.0, min_gpus=2, max_gpus=2), Job("a2", 100.0, 60.0)))
    world.wait(640.0)
    assert len(world.sent(Grant)) == 1
    assert sorted(lease.job for lease in world.sent(Grant)[0].leases) == ["a1", "a2"]
    assert len(world.sent(Renew)) == 2
    assert len(world.held()[a]) == 3


@pytest.mark.parametrize("is_ledger", [False, True])
def test_a_policy_that_is_not_installed_is_named(is_ledger):
    with pytest.raises(Exception, match="'lottery'"):
        World.of(node("n1"), policy="lottery", is_ledger=is_ledger)


# Room beside other pools.


def use(world, **nodes):
    """What all containers use of nodes, as (MiB, vcores, GPUs)."""
    used = [(f"{name}:8041", Resources.of({"memory-mb": memory, "vcores": cores, GPU: gpus}))
            for name, (memory, cores, gpus) in nodes.items()]  # fmt: skip
    world.stage.take(NodeUseChanged(tuple(used)), 0.01)


@pytest.mark.parametrize(
    ("used", "offered"),
    [
        ((0, 0, 0), 8),
        ((65536 - 4 * 8192, 0, 0), 8),
        ((65536 - 4 * 8192 + 1, 0, 0), 6),  # memory for three tasks of 2 GPUs
        ((0, 32 - 5, 0), 2),
        ((0, 0, 3), 7),  # beyond leases: their containers are about to end
        ((65536, 32, 0), None),
    ],
)
def test_gpus_are_offered_where_whole_tasks_have_room(used, offered):
    world = World.of(node("n1", 8), gpus_per_task=2, task_memory_mb=8192, task_vcores=4)
    use(world, n1=used)
    world.arrive("ann", rho=3.0)
    world.wait(20.0)
    offers = [offer.offer for offer in world.sent(Offer)]
    assert [sum(machine.gpus for machine in offer.machines) for offer in offers] == ([offered] if offered else [])


def test_gpus_that_got_in_use_since_they_were_offered_are_not_leased():
    world = World.of(node("n1"), node("n2"), is_ledger=True, task_vcores=8)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4, 4),))
    while not world.sent(Offer):
        world.wait(0.5)
    use(world, n1=(0, 32, 0))
    world.wait(20.0)
    assert world.held() == {a: N2}


def test_without_the_size_of_a_task_use_of_nodes_does_not_matter():
    world = World.of(node("n1"))
    use(world, n1=(65536, 32, 0))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert world.held() == {a: N1}


def test_gpus_that_an_unregistered_application_uses_are_not_offered():
    world = World.of(node("n1"), node("n2"))
    name, gpus = "application_1_0999", Resources.of({"vcores": 1, GPU: 4})
    shown = YarnApp(name, name, "ann", "root.gpu.old", False, 1.0, gpus, Resources(), 2)
    world.stage.take(AppsChanged((shown,), ()))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert world.held() == {}, "nobody knows yet where its containers run"
    world.stage.take(ContainersListed(name, (Container("container_1", "n1:8041", gpus, False),)))
    world.wait(20.0)
    assert world.held() == {a: {f"n2/{ordinal}" for ordinal in range(4)}}


def test_a_lost_node_is_no_node_without_room():
    world = World.of(node("n1"), node("n2"), task_vcores=8)
    use(world, n1=(0, 32, 0), n2=(0, 0, 0))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert world.held() == {a: {f"n2/{ordinal}" for ordinal in range(4)}}
    assert world.stage.state().crowded == tuple(sorted(N1))
    world.stage.take(NodesChanged((), ("n1:8041",)))
    world.wait(20.0)
    assert world.stage.state().crowded == ()
    assert len(world.rounds()) == 1


def test_gpus_that_nobody_wanted_open_no_round_each_time_there_is_room_again():
    world = World.of(node("n1"), node("n2"), task_vcores=8)
    world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert len(world.rounds()) == 1
    for _ in range(3):
        use(world, n2=(0, 32, 0))
        world.wait(5.0)
        use(world, n2=(0, 0, 0))
        world.wait(5.0)
    assert len(world.rounds()) == 1


def test_gpus_that_get_room_after_a_round_without_any_open_another_one():
    world = World.of(node("n1"), node("n2"), task_vcores=8)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    use(world, n2=(0, 32, 0))
    b = world.arrive("bob", rho=9.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    assert list(world.held()) == [a]
    use(world, n2=(0, 0, 0))
    world.wait(20.0)
    assert set(world.held()) == {a, b}


def test_room_for_a_moment_is_no_round():
    """It is gone when the round would open: nothing has changed since the round that recorded why GPUs are idle."""
    world = World.of(node("n1"), task_vcores=8)
    use(world, n1=(0, 32, 0))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    for _ in range(3):
        use(world, n1=(0, 0, 0))
        use(world, n1=(0, 32, 0))
        world.wait(20.0)
    (record,) = world.rounds()
    assert (record.round, record.opened_by, record.gpus) == (1, ("nodes", "arrival"), 0)
    use(world, n1=(0, 0, 0))
    world.wait(20.0)
    assert world.held() == {a: N1}
    assert [one.round for one in world.rounds()] == [1, 2]


def test_offers_name_the_model_of_gpus():
    world = World.of(node("n1"), node("n2"))
    state = world.stage.intake.state
    described = TopologyDescription(nodes=(NodeDescription(("n1",), gpu_model="A100"),))
    world.stage.take(Configured(state.pools, topology=described))
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    (offer,) = world.sent(Offer)
    assert [(machine.id, machine.model) for machine in offer.offer.machines] == [("n1", "A100"), ("n2", "")]
    world.arrive("bob", rho=9.0)
    world.wait(20.0)
    *_, asked = [ask for ask in world.sent(Ask) if ask.app == a]
    assert [(machine.id, machine.model) for machine in asked.question.machines] == [("n1", "A100")]
