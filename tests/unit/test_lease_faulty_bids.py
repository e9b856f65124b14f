"""A bid on which the solver's process hangs or dies is found and set aside, and the others have a result."""

import pytest

from tests.lease_world import World, node, row
from yarn_plugin.api.causes import text
from yarn_plugin.decide.pools.lease import faulty_bids

HANGS = "the worker process exceeded 30 s"


def round_of(bidders, faulty, **settings):
    """A round in which all of so many applications bid; with the bids of some, the process hangs."""
    world = World.of(node("n1"), node("n2"), solves=False, f=0.0, **settings)
    apps = [world.arrive(f"app{number}", rho=8.0, rows=(row(2.0, 1),)) for number in range(bidders)]
    world.wait(3.0)
    bad, tries = {apps[number] for number in faulty}, 0
    while world.stage.problems:
        tries += 1
        hangs = bad & {bid.app for bid in world.stage.problems[0].problem.bids}
        world.stage.solve(*(("lost", HANGS) if hangs else ()))
    world.wait(1.0)
    return world, apps, tries


@pytest.mark.parametrize("faulty", [(0,), (2,), (4,), (0, 1), (1, 4)])
def test_bids_on_which_the_process_hangs_are_set_aside_and_the_others_win(faulty):
    world, apps, tries = round_of(5, faulty)
    (record,) = world.rounds()
    bad = {apps[number] for number in faulty}
    assert record.error is None
    assert {(one.app, one.error) for one in record.set_aside} == {(app, HANGS) for app in bad}
    assert set(world.held()) == set(apps) - bad
    assert tries <= faulty_bids.max_tries(5)
    assert f"the bid of {min(bad)} was set aside" in text(record)


def test_the_only_bid_is_set_aside():
    world, apps, _ = round_of(1, (0,))
    (record,) = world.rounds()
    assert (record.error, [one.app for one in record.set_aside]) == (None, apps)


def test_a_process_that_is_always_lost_ends_the_round_after_a_bounded_number_of_tries():
    world = World.of(node("n1"), solves=False, f=0.0)
    for number in range(16):
        world.arrive(f"app{number}", rho=8.0, rows=(row(2.0, 1),))
    world.wait(3.0)
    tries = 0
    while world.stage.problems:
        tries += 1
        world.stage.solve("lost", "killed")
    assert tries == faulty_bids.max_tries(16) == 22
    assert world.rounds()[-1].error == "killed"


def test_rules_of_earlier_versions_fail_the_round():
    world, _, tries = round_of(5, (2,), rules=1)
    assert (tries, world.rounds()[0].error) == (3, HANGS)
