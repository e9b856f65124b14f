"""Queue weights while some vacate, told as histories in virtual time."""

import pytest

from tests.world import World


@pytest.fixture
def world():
    return World()


def start(world, *actions):
    """Let these happen, and YARN do what it is asked."""
    for action in actions:
        world.do(action)
        settle(world)


def settle(world):
    for _ in range(3):
        world.do(("write",))
    assert not world.outstanding, "writes go on and on"


def weights(world):
    """The weights that YARN has, in the order in which the queues came."""
    return [round(world.weights[app.queue], 2) for app in world.running.values()]


NEW = ("start", 1, 0, 10)


def test_one_that_has_nothing_yet_does_not_keep_what_it_was_promised(world):
    """The second has to vacate before it had anything; the first still holds everything until its grace is over."""
    start(world, NEW, NEW, NEW)
    assert weights(world) == [100.0, 0.01, 0.01]
    start(world, ("wait", 11.0))
    assert weights(world) == [33.33, 33.33, 33.33]


def test_who_has_vacated_early_keeps_its_part_while_another_still_vacates(world):
    start(world, NEW, NEW, ("wait", 11.0))
    assert weights(world) == [50.0, 50.0]
    start(world, NEW, ("vacate", 0))
    assert weights(world) == [33.33, 50.0, 16.67]
    start(world, ("wait", 11.0))
    assert weights(world) == [33.33, 33.33, 33.33]


def test_after_the_manager_was_away_all_weights_are_written_again_and_nobody_sinks(world):
    start(world, NEW, NEW, ("lose_manager",))
    for queue in world.weights:
        world.weights[queue] = 0.01
    start(world, ("reach_manager",))
    assert weights(world) == [100.0, 0.01]


def test_a_write_that_is_under_way_is_not_overtaken_when_the_manager_is_reached_again(world):
    world.do(("register", 1, 0, 10))
    world.do(("submit", 0))
    assert len(world.outstanding) == 1
    world.do(("lose_manager",))
    world.do(("reach_manager",))
    assert len(world.outstanding) == 1
    settle(world)
    assert weights(world) == [100.0]


def test_two_applications_in_one_queue_have_both_their_parts(world):
    start(world, ("stranger", 1), ("stranger", 1), ("stranger", 2))
    shared, _, own = world.running.values()
    assert (world.weights[shared.queue], world.weights[own.queue]) == (66.67, 33.33)
