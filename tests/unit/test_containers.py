"""Which containers a search wants and has: events in, instructions out."""

from themis_agent.yarn.containers import (
    CONTAINER_WITHIN_S,
    STOP_AGAIN_S,
    Cancel,
    Containers,
    Gone,
    Launcher,
    Release,
    Request,
    Start,
    Stop,
)

ONE, OTHER = Launcher("trial-00000", 1), Launcher("trial-00000", 1, 1)


def with_one(container="c1"):
    """A launcher that runs on node-1."""
    made = Containers()
    assert made.want(ONE, "node-1", 2, 0.0) == [Request(1, "node-1", 2)]
    assert made.allocated(container, 1) == [Start(container, ONE)]
    return made


def test_a_launcher_runs_in_the_container_that_was_allocated_for_it():
    made = with_one()
    assert made.running == {"c1": ONE}
    assert made.completed("c1", 0, "well") == [Gone(ONE, 0, "well")]
    assert made.is_idle
    assert made.completed("c1", 0, "well") == []


def test_a_container_that_does_not_come_in_time_is_no_hang_and_one_that_comes_late_is_given_back():
    made = Containers()
    made.want(ONE, "node-1", 1, 0.0)
    assert made.due(CONTAINER_WITHIN_S - 1) == []
    assert made.due(CONTAINER_WITHIN_S) == [Cancel(1), Gone(ONE, None, "YARN allocated no container within 60 s")]
    assert made.allocated("late", 1) == [Release("late")]
    assert made.is_idle


def test_a_trial_that_is_stopped_before_its_container_came_is_gone_at_once():
    made = with_one()
    made.want(OTHER, "node-2", 1, 1.0)
    assert made.give_up("trial-00000", 1) == [Cancel(2), Gone(OTHER)]
    assert made.give_up("trial-00000", 1) == []
    assert made.running == {"c1": ONE}, "the agent's answers stop what runs"


def test_a_launcher_that_is_killed_is_stopped_at_its_node_until_it_is_gone():
    made = with_one()
    assert made.kill("trial-00000", 1, 10.0) == [Stop("c1")]
    assert made.due(10.0 + STOP_AGAIN_S - 1) == []
    assert made.due(10.0 + STOP_AGAIN_S) == [Stop("c1")]
    assert made.completed("c1", 143, "") == [Gone(ONE, 143, "")]
    assert made.due(1000.0) == []


def test_kill_is_for_one_attempt_alone():
    assert with_one().kill("trial-00000", 2, 0.0) == []


def test_a_node_that_refuses_is_asked_again_later_and_later():
    made, now, number = Containers(), 0.0, 0
    for wait_s in (0.0, 1.0, 2.0, 4.0):
        asked = made.want(ONE, "node-1", 1, now)
        if wait_s:
            assert asked == made.due(now + wait_s - 0.1) == []
            now += wait_s
            asked = made.due(now)
        number += 1
        assert asked == [Request(number, "node-1", 1)]
        made.allocated(f"c{number}", number)
        assert made.start_failed(f"c{number}", "no disk", now) == [Release(f"c{number}"), Gone(ONE, None, "no disk")]
    assert made.want(OTHER, "node-2", 1, now) == [Request(number + 1, "node-2", 1)], "other nodes do not wait"
    assert made.want(ONE, "node-1", 1, now + 8.0) == [Request(number + 2, "node-1", 1)]
    made.allocated("c", number + 2)
    made.completed("c", 0, "")
    assert made.want(ONE, "node-1", 1, now + 8.0) == [Request(number + 3, "node-1", 1)], "it works again"


def test_a_new_attempt_adopts_what_runs_and_ends_what_it_does_not_know():
    made = Containers()
    launchers = {ONE: "c1", OTHER: "c2", Launcher("trial-00001", 4): None}
    assert made.adopt(launchers, ["c1", "stranger"]) == [
        Stop("stranger"),
        Gone(OTHER),
        Gone(Launcher("trial-00001", 4)),
    ]
    assert made.completed("c1", 0, "") == [Gone(ONE, 0, "")]
    assert made.completed("stranger", 143, "") == []
