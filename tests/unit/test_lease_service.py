"""Who has had more than an equal part of the pool bids after all others, whatever it says of itself."""

import pytest

from tests.adversary import liars
from tests.lease_world import SETTINGS, World, node, row
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated
from yarn_plugin.api.causes import text
from yarn_plugin.decide.events import NodesChanged
from yarn_plugin.decide.pools.lease import LeaseSettings, estimates, leases
from yarn_plugin.decide.pools.lease.choice import Standing, worst_first
from yarn_plugin.decide.pools.lease.service import is_ahead
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.pools.view import View
from yarn_plugin.drive.replay import rerun_records
from yarn_plugin.journal.records import MemoryRecords
from yarn_plugin.model.causes import NodeLost
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool


@pytest.mark.parametrize("number", [0, 1, 6, 12], ids=["number", "no work", "factor", "every row"])
def test_a_lone_bidder_that_claims_to_be_worst_off_gains_no_more_than_an_empty_pool_gave(number):
    """Under the rules of earlier versions each of these leased 2.5 times the GPU time of its honest twin."""
    strategy = list(liars.strategies(number + 1))[number]
    assert liars.gpu_s(strategy) <= liars.LIMIT * liars.gpu_s(liars.HONEST)


def test_those_that_are_ahead_come_after_all_that_have_answered():
    ahead = Standing("ahead", None, True, 100.0, is_ahead=True)
    worse = Standing("worse", 9.0, True, 100.0, is_ahead=True)
    others = [Standing("silent", None, False, 1.0), Standing("low", 0.5, True, 1.0), Standing("none", None, True, 1.0)]
    assert worst_first([ahead, worse, *others]) == ["none", "low", "ahead", "worse", "silent"]


def ahead(world):
    """The applications that are ahead now."""
    whole = world.stage.intake.state
    settings = next(pool.parameters for pool in whole.pools if pool.name == "gpu")
    turn = Turn("gpu", settings, world.stage.state(), View(topology=whole.cells), world.stage.clock.time)
    return [app for app in turn.active() if is_ahead(turn, app)]


@pytest.mark.parametrize("entitlement", ["application", "user"])
def test_who_had_an_empty_pool_to_itself_owes_nobody_and_who_has_it_beside_another_does(entitlement):
    world = World.of(node("n1"), f=0.5, lease_s=3600.0, entitlement=entitlement)
    bob = world.arrive("bob", rho=9.0, rows=(row(1.0, 4),))
    world.wait(2400.0)
    world.arrive("eve", rho=5.0, rows=(row(2.0, 4),))
    world.wait(60.0)
    assert ahead(world) == []
    # Of 3000 s bob has had the pool, 2400 s alone: equal parts are 2700 s.
    world.wait(540.0)
    assert ahead(world) == []
    # Of 3500 s, equal parts are 2950 s.
    world.wait(500.0)
    assert ahead(world) == [bob]


def test_a_record_names_who_is_ahead():
    world = World.of(node("n1"), f=0.5, grace_s=0.0)
    bob = world.arrive("bob", rho=9.0, rows=(row(1.0, 4),), cluster_s=1e6)
    world.arrive("eve", rho=5.0, rows=(row(2.0, 4),))
    world.wait(620.0)
    assert [record.ahead for record in world.rounds()] == [(), (bob,)]
    assert f"served after others, having had more than an equal part: {bob}" in text(world.rounds()[1])


def test_by_the_rules_of_earlier_versions_nobody_is_ahead():
    liar = liars.THE_FIRST[0]
    assert liars.gpu_s(liar, rules=1) == 2.5 * liars.gpu_s(liars.HONEST, rules=1)


def test_a_journal_of_an_earlier_version_is_repeated_by_its_rules():
    """It says nothing of rules."""
    settings = LeaseSettings(**{**SETTINGS, "f": 0.5, "rules": 1})
    records = MemoryRecords()
    pool = Pool("gpu", "root.gpu", (GPU,), controller="lease", parameters=settings)
    world = World.of(node("n1"), stage=Simulated(pool, journal=records))
    world.arrive("bob", rho=9.0, rows=(row(1.0, 4),))
    world.arrive("eve", rho=5.0, rows=(row(2.0, 4),))
    world.wait(1900.0)
    written = list(records.read())
    (configured,) = [one["event"] for one in written if one.get("event", {}).get("type") == "Configured"]
    del configured["pools"][1]["parameters"]["rules"]
    for one in [command for record in written for command in record.get("commands", ())]:
        one.get("cause", {}).pop("ahead", None)
    assert rerun_records(written, TOYS).first_difference() is None


@pytest.mark.parametrize(("rules", "gpu_s"), [(2, 0.0), (3, 200.0)])
def test_what_is_lost_in_a_call_counts_until_then(rules, gpu_s):
    world = World.of(node("n1"))
    bob = world.arrive("bob", rho=9.0, rows=(row(1.0, 4),))
    world.wait(20.0)
    state = world.stage.state()
    (held,) = state.leases.values()
    turn = Turn("gpu", LeaseSettings(rules=rules), state, View(), held.started_at + 50.0)
    leases.end(turn, held.lease.id, held.gpus, NodeLost("n1"))
    assert turn.attained_gpu_s(bob) == gpu_s
    estimates.count_work(turn)
    assert turn.attained_gpu_s(bob) == 200.0


def test_an_equal_part_counts_the_gpus_that_there_were():
    world = World.of(node("n1"), node("n2"))
    bob = world.arrive("bob", rho=2.0, rows=(row(1.0, 4),))
    world.wait(1000.0)
    world.stage.take(NodesChanged((), ("n2:8041",)))
    world.wait(1000.0)
    world.arrive("eve", rho=5.0)
    state = world.stage.state()
    assert state.parts_gpu_s - state.members[bob].parts_gpu_s == pytest.approx(1000.0 * 8 + 1000.0 * 4, abs=20.0)
