"""Which motif begins when; plans that do not fit are refused or left."""

import random

import pytest

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.options import Algorithm, Option
from themis_agent.communication.order import Key, Order
from themis_agent.communication.plan import Plan, Turn, check, in_order

REDUCE = Operation(Kind.ALL_REDUCE, 1 << 20, "float32", 4, 2)
EXCHANGE = Operation(Kind.ALL_TO_ALL, 1 << 20, "float32", 4, 2)
OPERATIONS = (EXCHANGE, REDUCE, EXCHANGE)
SWAPPED = Plan(OPERATIONS, (Option(), Option(), Option()), ((Turn(1, 0), Turn(0, 0), Turn(2, 0)), ()))


def begun(found):
    return [(channel, key.iteration, key.operation) for channel, key in found]


def test_nothing_overtakes_the_next_in_order():
    order = Order(2)
    assert order.begin(1, SWAPPED) == []
    assert order.ready(Key(1, 0, 0)) == []
    assert order.held == 1
    assert begun(order.ready(Key(1, 1, 0))) == [(0, 1, 1), (0, 1, 0)]
    assert order.held == 0
    assert begun(order.ready(Key(1, 2, 0))) == [(0, 1, 2)]


def test_without_a_plan_operations_go_in_the_order_of_the_program():
    order = Order(1)
    for number in range(3):
        order.call(Key(0, number, 0), 0)
        assert begun(order.ready(Key(0, number, 0))) == [(0, 0, number)]


def test_channels_do_not_wait_for_each_other():
    order = Order(2)
    order.begin(
        1, Plan(OPERATIONS, (Option(), Option(channels=(1,)), Option()), ((Turn(2, 0), Turn(0, 0)), (Turn(1, 0),)))
    )
    assert order.ready(Key(1, 0, 0)) == []
    assert begun(order.ready(Key(1, 1, 0))) == [(1, 1, 1)]


def test_a_dropped_plan_executes_what_was_called_in_its_order_and_the_rest_as_called():
    order = Order(2)
    order.begin(1, SWAPPED)
    order.ready(Key(1, 0, 0))
    # The program calls something else than operation 1.
    assert begun(order.drop(1, 1)) == [(0, 1, 0)]
    assert order.plan is None
    order.call(Key(1, 1, 0), 0)
    assert begun(order.ready(Key(1, 1, 0))) == [(0, 1, 1)]


def test_a_motif_of_the_next_iteration_is_part_of_the_round_before():
    ahead = Plan((EXCHANGE, REDUCE), (Option(), Option()), ((Turn(0, 0, 1), Turn(1, 0)),))
    order = Order(1)
    assert order.begin(1, ahead) == []
    # The first round is preceded by one that has just what is to begin ahead of it.
    assert begun(order.ready(Key(1, 0, 0))) == [(0, 1, 0)]
    assert order.ready(Key(1, 1, 0)) == []
    order.begin(2, ahead)
    assert begun(order.ready(Key(2, 0, 0))) == [(0, 2, 0), (0, 1, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_all_processes_begin_the_same_motifs_in_the_same_order_on_each_channel(seed):
    """Whatever the order in which motifs become ready, with plans that change and are dropped."""
    draw = random.Random(seed)
    plans = [None, SWAPPED, in_order(OPERATIONS, 2), Plan(OPERATIONS, (Option(), Option(channels=(1,)), Option()),
             ((Turn(2, 0), Turn(0, 0)), (Turn(1, 0, -1),)))]  # fmt: skip
    story = [(draw.choice(plans), draw.random() < 0.3) for _ in range(6)]
    seen = []
    for process in range(3):
        timing = random.Random(100 * seed + process)
        order, per_channel, late = Order(2), ([], []), []

        def note(found, per_channel=per_channel):
            for channel, key in found:
                per_channel[channel].append(key)

        for iteration, (plan, mismatch) in enumerate(story):
            note(order.begin(iteration, plan))
            for number in range(3):
                if mismatch and number == 2 and order.plan is not None:
                    note(order.drop(iteration, 2))
                key = Key(iteration, number, 0)
                if order.plan is None:
                    order.call(key, 0)
                late.append(key)
                timing.shuffle(late)
                while late and timing.random() < 0.5:
                    note(order.ready(late.pop()))
        note(order.begin(len(story), None))
        while late:
            note(order.ready(late.pop()))
        assert sorted(per_channel[0] + per_channel[1]) == [Key(i, n, 0) for i in range(6) for n in range(3)]
        seen.append(per_channel)
    assert seen[0] == seen[1] == seen[2]


def test_a_plan_that_the_program_can_follow_is_accepted():
    check(SWAPPED, frozenset())
    check(SWAPPED, {(0, 2), (1, 2)})
    check(in_order(OPERATIONS, 2), {(0, 1), (1, 2), (0, 2)})


def test_an_order_that_would_deadlock_is_refused():
    with pytest.raises(PlanError, match="operation 0 is ordered after one that the program calls only when it has"):
        check(SWAPPED, {(0, 1)})


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        (((Turn(0, 0), Turn(1, 0)), ()), "orders 2 motifs"),
        (((Turn(0, 0), Turn(1, 0), Turn(2, 0), Turn(2, 0)), ()), "orders 4 motifs"),
        (((Turn(0, 0), Turn(1, 0)), (Turn(2, 0),)), "operation 2 is ordered on channel 1"),
        (((Turn(0, 0), Turn(1, 0), Turn(7, 0)), ()), "must be each of its 3 once"),
    ],
)
def test_a_plan_must_have_every_motif_once_on_its_channel(turns, says):
    with pytest.raises(PlanError, match=says):
        check(Plan(OPERATIONS, (Option(), Option(), Option()), turns), frozenset())


def test_the_second_step_of_a_ring_cannot_go_before_the_first():
    ring = Option(Algorithm.RING)
    check(Plan((REDUCE,), (ring,), ((Turn(0, 0), Turn(0, 1)),)), frozenset())
    with pytest.raises(PlanError, match="would deadlock"):
        check(Plan((REDUCE,), (ring,), ((Turn(0, 1), Turn(0, 0)),)), frozenset())


def test_a_plan_across_iterations_is_refused_for_a_program_that_waits_at_their_end():
    with pytest.raises(PlanError, match="across iterations"):
        check(Plan((REDUCE,), (Option(),), ((Turn(0, 0, 1),),)), frozenset())
