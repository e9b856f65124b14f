"""Queue weights while applications vacate, as histories in virtual time."""

from dataclasses import replace

import pytest

from tests.arbiter_world import World
from yarn_plugin.decide.commands import SignalContainers, WriteWeights
from yarn_plugin.decide.events import Configured, LeavesSeen, Superseded, WeightsWritten


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
        world.do(("read",))
        world.do(("write",))
    assert not world.outstanding, "writes go on and on"


def weights(world):
    """The weights that YARN has, in the order in which the queues came."""
    return [round(world.weights[app.queue], 2) for app in world.running.values()]


NEW = ("start", 1, 0, 10)


def test_an_application_without_resources_does_not_keep_its_old_share(world):
    """The second has to vacate before it had anything; the first still holds everything until its grace is over."""
    start(world, NEW, NEW, NEW)
    assert weights(world) == [100.0, 0.01, 0.01]
    start(world, ("wait", 11.0))
    assert weights(world) == [33.33, 33.33, 33.33]


def test_an_application_that_vacated_early_keeps_its_share_while_another_vacates(world):
    start(world, NEW, NEW, ("wait", 11.0))
    assert weights(world) == [50.0, 50.0]
    start(world, NEW, ("vacate", 0))
    assert weights(world) == [33.33, 50.0, 16.67]
    start(world, ("wait", 11.0))
    assert weights(world) == [33.33, 33.33, 33.33]


def test_after_an_outage_of_the_manager_all_weights_are_written_again_and_none_sinks(world):
    start(world, NEW, NEW, ("lose_manager",))
    for queue in world.weights:
        world.weights[queue] = 0.01
    world.written.clear()
    start(world, ("reach_manager",))
    assert weights(world) == [100.0, 0.01]


def test_a_write_that_is_under_way_is_not_overtaken_when_the_manager_is_reached_again(world):
    world.do(("register", 1, 0, 10))
    world.do(("submit", 0))
    assert len(world.outstanding) == 1
    world.do(("lose_manager",))
    world.do(("reach_manager",))
    assert (len(world.outstanding), len(world.reads)) == (1, 0)
    settle(world)
    assert weights(world) == [100.0]


def test_two_applications_in_one_queue_have_both_their_parts(world):
    start(world, ("unregistered", 1), ("unregistered", 1), ("unregistered", 2))
    shared, _, own = world.running.values()
    assert (world.weights[shared.queue], world.weights[own.queue]) == (66.67, 33.33)


def test_foreign_changes_are_reverted_at_the_next_comparison(world):
    start(world, NEW, NEW, ("wait", 11.0))
    start(world, ("meddle", 0, 300))
    assert weights(world) == [300.0, 50.0]
    start(world, ("wait", 60.0))
    assert weights(world) == [50.0, 50.0]
    (cause,) = {event for _, _, event, commands in world.trace for one in commands if is_write(one)} & {
        event for _, _, event, _ in world.trace if isinstance(event, LeavesSeen)
    }
    assert ("300.0" in str(cause.weights), cause.static) == (True, ("root.sql.fixed",))


def is_write(command):
    return isinstance(command, WriteWeights)


def test_a_queue_that_the_configuration_defines_is_never_written_nor_taken_back(world):
    start(world, NEW, ("unregistered", 3), ("use", 1, 3, 8), ("wait", 200.0))
    assert "root.sql.fixed" not in world.written
    world.written["root.sql.fixed"] = 7.0
    start(world, ("end", 1), ("wait", 200.0))
    assert world.written["root.sql.fixed"] == 7.0


def test_leaves_of_a_lost_journal_are_swept_and_those_of_others_are_not(world):
    world.written |= {"root.sql.nightly_12_6553f100": 33.3, "root.sql.theirs": 5.0}
    start(world, ("wait", 61.0))
    assert set(world.written) == {"root.sql.theirs"}


def test_one_queue_that_is_refused_does_not_hold_up_the_others_and_is_tried_again_later(world):
    start(world, NEW, NEW)
    world.do(("wait", 11.0))
    (asked,) = [command for command, _ in world.outstanding]
    (refused, _), *taken = asked.weights
    world.outstanding.clear()
    world.feed(WeightsWritten(tuple(taken), (), ((refused, "no such queue"),)))
    assert not world.outstanding
    assert world.state.enforcement.error == f"queue {refused}: no such queue"
    world.do(("wait", 59.0))
    assert not world.outstanding
    start(world, ("wait", 2.0))
    assert weights(world) == [50.0, 50.0]
    assert world.state.enforcement.error is None


def test_an_arbiter_whose_place_another_has_taken_writes_nothing_more(world):
    start(world, NEW)
    world.feed(Superseded("http://elsewhere:8780"))
    world.do(NEW)
    world.do(("wait", 100.0))
    assert not world.outstanding
    assert not world.asked_containers
    world.feed(Configured(world.pools))
    world.do(("reach_manager",))
    # Only now is the new one told its share: its grace period begins.
    start(world, ("wait", 10.5))
    assert weights(world) == [50.0, 50.0]


def test_where_the_configuration_could_not_be_read_it_is_asked_again_and_nothing_is_written_meanwhile():
    world = World()
    world.do(("reach_manager",))
    world.do(("read_nothing",))
    world.feed(Configured(world.pools))
    world.do(("reach_manager",))
    world.do(("read_nothing",))
    assert world.state.capabilities.writable, "a connection that failed says nothing of what is allowed"
    world.do(("wait", 5.0))
    assert len(world.reads) == 1


def overstaying(world):
    """One that holds everything although another waits, and its grace is over."""
    start(world, NEW, ("use", 0, 16, 0), NEW)
    world.do(("wait", 11.0))
    settle(world)


def test_no_container_is_signalled_while_the_manager_is_away(world):
    overstaying(world)
    world.do(("lose_manager",))
    world.do(("wait", 300.0))
    assert not world.asked_containers


def test_a_superseded_arbiter_signals_no_container(world):
    overstaying(world)
    world.do(("wait", 20.0))
    assert world.asked_containers
    world.feed(Superseded("http://elsewhere:8780"))
    world.do(("list",))
    assert not [one for _, _, _, commands in world.trace for one in commands if isinstance(one, SignalContainers)]


def test_queues_that_may_be_an_administrators_are_left_alone_until_that_is_known():
    world = World(shows_leaves=False)
    world.do(("unregistered", 3))
    world.do(("use", 0, 16, 0))
    world.do(("start", 1, 0, 10))
    world.do(("wait", 200.0))
    assert not world.asked_containers


def test_weights_of_a_pool_that_moved_are_no_longer_compared(world):
    start(world, NEW)
    world.feed(Configured((replace(world.pools[0], queue="root.other"),)))
    assert not world.state.enforcement.written


def test_what_was_read_before_the_manager_was_reached_again_is_read_again(world):
    start(world, NEW, ("wait", 61.0))
    world.do(("wait", 60.0))
    world.do(("lose_manager",))
    world.written.clear()
    world.do(("reach_manager",))
    start(world, ("wait", 1.0))
    assert list(world.written.values()) == [100.0]
