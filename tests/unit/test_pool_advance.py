"""How a pool's controller is called: what it is given in which order, and what becomes of it when it raises."""

import math
from dataclasses import dataclass, replace

import pytest

from yarn_plugin.decide import commands as arbiter
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.pools.advance import (
    MAX_ATTEMPTS,
    MAX_PENDING_MESSAGES,
    MAX_RETRY_DELAY,
    MIN_TIMER_DELAY,
    RETRY_AFTER,
    advance,
    deadline,
)
from yarn_plugin.decide.pools.commands import Ask, SetTimer, Solve, WantWeights
from yarn_plugin.decide.pools.controller import Controllers, Kind
from yarn_plugin.decide.pools.inputs import FromApp, Outcome, Restarted, Started, TimerDue, ViewChanged
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.causes import LegacyText
from yarn_plugin.model.cluster import Container
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Grant, Pool, Share

POOL = Pool("gpu", "root.gpu", (), controller="scripted")
CONTAINER = Container("container_1", "node", Resources(), master=True)
OLD, NEW = View(capacity=Resources.of({"vcores": 1})), View(capacity=Resources.of({"vcores": 2}))


@dataclass(frozen=True)
class Seen:
    """What the controller has been given so far."""

    inputs: tuple = ()


class Undeclared(Seen):
    """A state that no kind declares."""


class Scripted:
    """Notes its inputs; `does` gives commands, or raises."""

    reads = frozenset({"capacity"})

    def __init__(self):
        self.does, self.calls, self.shows = lambda what: (), [], lambda state: None

    def initial_state(self):
        return Seen()

    def report(self, state):
        return self.shows(state)

    def advance(self, state, view, at, what):
        self.calls.append((what, view.capacity, at))
        return type(state)((*state.inputs, what)), tuple(self.does(what))


@pytest.fixture
def controller():
    return Scripted()


@pytest.fixture
def call(controller):
    """One step of the pool after another."""
    kind = Kind("scripted", lambda pool, registry: controller, {"scripted/1": Seen})
    registry = replace(BUILT_IN, kinds={**BUILT_IN.kinds, "scripted": kind})

    def step(*inputs, at, view=OLD, refusable=False, pool=POOL):
        step.kept, given = advance(pool, Controllers(registry), step.kept, view, at, inputs, refusable)
        return given

    step.kept = None
    return step


@pytest.fixture
def raises(controller):
    """Inputs of these types are raised on."""
    kinds = set()

    def does(what):
        if type(what) in kinds or what in kinds:
            raise ValueError(f"on {type(what).__name__}\n twice")
        return ()

    controller.does = does
    return kinds


def taken(controller):
    calls, controller.calls = controller.calls, []
    return [what for what, _, _ in calls]


# Order.


def test_a_new_pool_is_started_once_and_sees_its_first_view_with_that(controller, call):
    call(at=1.0)
    call(at=2.0)
    assert taken(controller) == [Started()]


def test_inputs_come_first_then_the_view_then_the_timers_by_their_times(controller, call):
    controller.does = lambda what: [SetTimer("late", 9.0), SetTimer("b", 5.0), SetTimer("a", 5.0), SetTimer("c", 4.0)]
    call(at=1.0)
    taken(controller)
    controller.does = lambda what: ()
    call(Restarted(), FromApp("a", Seen()), at=6.0)
    assert taken(controller) == [Restarted(), FromApp("a", Seen()), TimerDue("c"), TimerDue("a"), TimerDue("b")]
    assert call.kept.timers == {"late": 9.0}
    call(at=7.0, view=NEW)
    assert taken(controller) == [ViewChanged()]


def test_a_view_that_came_with_another_input_is_not_announced_again(controller, call):
    call(at=1.0)
    call(FromApp("a", Seen()), at=2.0, view=NEW)
    assert taken(controller) == [Started(), FromApp("a", Seen())]


def test_what_a_controller_does_not_read_it_does_not_see(controller, call):
    call(at=1.0)
    call(at=2.0, view=replace(OLD, waiting=("application_1",), steering=True, seq=7))
    assert taken(controller) == [Started()]


def test_a_timer_is_never_in_the_past_nor_now(controller, call):
    controller.does = lambda what: [SetTimer("past", 0.5), SetTimer("now", 1.0)]
    call(at=1.0)
    assert taken(controller) == [Started()]
    assert set(call.kept.timers.values()) == {1.0 + MIN_TIMER_DELAY}
    assert deadline(call.kept) > 1.0


def test_a_controller_that_asks_for_a_time_that_has_passed_whenever_it_is_woken_leaves_time_for_others(
    controller, call
):
    controller.does = lambda what: [SetTimer("a", 0.5)]
    call(at=1.0)
    while deadline(call.kept) < 2.0:
        call(at=deadline(call.kept))
        assert len(controller.calls) <= 2.0 / MIN_TIMER_DELAY


def test_a_timer_that_another_one_sets_anew_is_not_due_any_more(controller, call):
    controller.does = lambda what: [SetTimer("a", 2.0), SetTimer("b", 3.0)]
    call(at=1.0)
    controller.does = lambda what: [SetTimer("b", 9.0)]
    call(at=4.0)
    assert taken(controller) == [Started(), TimerDue("a")]
    controller.does = lambda what: [SetTimer("b", None)]
    call(at=5.0, view=NEW)
    assert call.kept.timers == {}
    assert deadline(call.kept) == math.inf


def test_a_pool_of_another_kind_starts_anew(controller, call):
    controller.does = lambda what: [SetTimer("a", 2.0), WantWeights((("root.gpu.x", 1.0),))]
    call(at=1.0)
    call.kept = replace(call.kept, controller="share")
    controller.does = lambda what: ()
    taken(controller)
    call(Restarted(), at=3.0)
    assert taken(controller) == [Started()]
    assert (call.kept.timers, call.kept.weights) == ({}, ()), "not None: what YARN has would stay as it is"


# Failure.


def stops(given):
    return [command for command in given if isinstance(command, arbiter.PoolStopped)]


def test_a_controller_that_raises_is_called_again_later_and_then_given_what_it_is_owed(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    given = call(at=1.0, view=NEW)
    assert given == [arbiter.PoolStopped("gpu", "ValueError: on ViewChanged twice", 1.0 + RETRY_AFTER)]
    assert call.kept.state == Seen((Started(),))
    assert deadline(call.kept) == 1.0 + RETRY_AFTER
    first, second = Outcome("gpu#1", "done"), FromApp("a", Seen())
    taken(controller)
    assert call(first, at=2.0, view=NEW) == call(second, at=3.0, view=NEW) == []
    assert taken(controller) == []
    raises.clear()
    assert call(at=1.0 + RETRY_AFTER, view=NEW) == [arbiter.PoolResumed("gpu")]
    assert taken(controller) == [first, second]
    assert (call.kept.failure, call.kept.owed) == (None, ())


def test_it_waits_longer_each_time_up_to_a_limit(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    at, waits = 1.0, []
    for _ in range(10):
        (stopped,) = stops(call(at=at, view=NEW))
        waits.append(stopped.retry_at - at)
        at = stopped.retry_at
    assert waits[:4] == [RETRY_AFTER, 2 * RETRY_AFTER, 4 * RETRY_AFTER, 8 * RETRY_AFTER]
    assert waits[-1] == MAX_RETRY_DELAY


def test_a_timer_on_which_it_raises_stays_armed(controller, call, raises):
    controller.does, does = lambda what: [SetTimer("a", 2.0)], controller.does
    call(at=1.0)
    controller.does = does
    raises.add(TimerDue)
    assert stops(call(at=2.0))
    assert call.kept.timers == {"a": 2.0}
    raises.clear()
    taken(controller)
    assert call(at=deadline(call.kept)) == [arbiter.PoolResumed("gpu")]
    assert taken(controller) == [TimerDue("a")]


def test_an_input_is_skipped_after_max_tries_and_later_ones_get_as_many(controller, call, raises):
    call(at=0.0)
    bad, worse, good = Restarted(), Outcome("gpu#1", "lost"), Outcome("gpu#2", "done")
    raises.update({bad, worse})
    taken(controller)
    call(bad, worse, good, at=1.0)
    for _ in range(2 * MAX_ATTEMPTS):
        call(at=deadline(call.kept))
    assert taken(controller) == [bad] * MAX_ATTEMPTS + [worse] * MAX_ATTEMPTS + [good]
    assert call.kept.failure is None


def test_an_outcome_that_is_passed_over_is_lost(controller, call, raises):
    call(at=0.0)
    done = Outcome("gpu#1", "done", Seen())
    raises.add(done)
    taken(controller)
    call(done, at=1.0)
    for _ in range(MAX_ATTEMPTS):
        call(at=deadline(call.kept))
    lost = Outcome("gpu#1", "lost", error="ValueError: on Outcome twice")
    assert taken(controller) == [done] * MAX_ATTEMPTS + [lost]


def test_a_message_that_came_while_it_was_stopped_does_not_stop_it_again(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    call(at=1.0, view=NEW)
    bad, good = FromApp("eve", Seen((1,))), FromApp("ann", Seen())
    call(bad, at=2.0, view=NEW)
    call(good, at=2.0, view=NEW)
    raises.clear()
    raises.add(bad)
    assert call(at=deadline(call.kept), view=NEW) == [arbiter.PoolResumed("gpu")]
    assert call.kept.state.inputs == (Started(), good)


def test_excess_messages_are_dropped_from_the_busiest_sender_oldest_first(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    call(at=1.0, view=NEW)
    outcome = Outcome("gpu#1", "done")
    call(FromApp("ann", Seen()), outcome, at=1.5, view=NEW)
    many = [FromApp("eve", Seen((number,))) for number in range(MAX_PENDING_MESSAGES)]
    call(*many, at=2.0, view=NEW)
    assert call.kept.owed == (FromApp("ann", Seen()), outcome, *many[1:]), "who says much pushes out its own"


def test_a_request_on_which_it_raises_is_refused(controller, call, raises):
    call(at=0.0)
    raises.add(FromApp)
    before = call.kept
    with pytest.raises(ValueError, match="on FromApp"):
        call(FromApp("a", Seen()), at=1.0, refusable=True)
    assert call.kept == before


def test_what_it_gave_before_it_raised_stays(controller, call, raises):
    controller.does, does = lambda what: [Ask("gpu#1", "a", Seen(), 9.0)], controller.does
    call(at=0.0)
    controller.does = lambda what: does(what) or [Ask("gpu#2", "a", Seen(), 9.0)]
    raises.add(Outcome)
    given = call(Restarted(), Outcome("x", "done"), at=1.0)
    assert [type(one) for one in given] == [arbiter.SendToApp, arbiter.PoolStopped]
    assert call.kept.owed == (Outcome("x", "done"),)


@pytest.mark.parametrize("due", [math.inf, math.nan, -math.inf])
def test_a_timer_at_no_time_is_a_failure(controller, call, due):
    call(at=0.0)
    controller.does = lambda what: [SetTimer("a", due)]
    (stopped,) = stops(call(at=1.0, view=NEW))
    assert stopped.error.startswith(f"ValueError: controller {call.kept.controller}: timer 'a' {due!r}: must be ")
    assert call.kept.timers == {}


def test_a_state_of_a_type_that_is_not_declared_is_a_failure(controller, call):
    call(at=0.0)
    controller.advance = lambda state, view, at, what: (Undeclared(), ())
    (stopped,) = stops(call(at=1.0, view=NEW))
    assert "Undeclared" in stopped.error
    assert call.kept.state == Seen((Started(),))


def test_a_failing_report_fails_the_step(controller, call):
    call(at=0.0)
    owed = call.kept

    def shows(state):
        raise KeyError("nothing to show")

    controller.shows, controller.does = shows, lambda what: [Solve("gpu#1", Seen())]
    given = call(Outcome("x", "done"), at=1.0)
    assert [type(one) for one in given] == [arbiter.PoolStopped]
    assert (call.kept.state, call.kept.owed) == (owed.state, (Outcome("x", "done"),))


def test_a_report_is_made_after_calls_alone(controller, call):
    shown = []
    controller.shows = lambda state: shown.append(state) or len(shown)
    for at in (1.0, 2.0, 3.0):
        call(at=at)
    assert (len(shown), call.kept.report) == (1, 1)


# What a controller gives.


@pytest.mark.parametrize(
    ("queue", "weight", "said"),
    [
        ("root.gpu.a", math.nan, "queue 'root.gpu.a': weight nan: must be"),
        ("root.gpu.a", math.inf, "queue 'root.gpu.a': weight inf: must be"),
        ("root.gpu.a", 0.0, "queue 'root.gpu.a': weight 0.0: must be"),
        ("root.sql.a", 5.0, "queue 'root.sql.a': must be"),
        ("root.gpu.a.b", 5.0, "queue 'root.gpu.a.b': must be"),
    ],
)
def test_an_invalid_weight_or_a_foreign_queue_is_a_failure(controller, call, queue, weight, said):
    controller.does = lambda what: [WantWeights((("root.gpu.a", 1.0),))]
    call(at=0.0)
    controller.does = lambda what: [WantWeights(((queue, weight),))]
    (stopped,) = stops(call(at=1.0, view=NEW))
    assert stopped.error.startswith(f"ValueError: controller {call.kept.controller}: {said}")
    assert call.kept.weights == (("root.gpu.a", 1.0),)


def test_a_share_with_nan_is_a_failure(controller, call):
    call(at=0.0)
    grant = Grant(0.0, 0.5, Resources(), math.nan, Resources())
    controller.does = lambda what: [arbiter.TellShare("a", Share(1, 1.0, 1.0, grant, 1, Resources(), LegacyText("so")))]
    (stopped,) = stops(call(at=1.0, view=NEW))
    assert stopped.error.startswith(f"ValueError: controller {call.kept.controller}: share of a: ")


# Inputs that wait.


def test_an_input_is_tried_as_often_whatever_the_controller_raised_on_before(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    call(at=1.0, view=NEW)
    for _ in range(MAX_ATTEMPTS):
        call(at=deadline(call.kept), view=NEW)
    outcome = Outcome("gpu#1", "done")
    call(outcome, at=math.nextafter(deadline(call.kept), 0.0), view=NEW)
    raises.add(outcome)
    taken(controller)
    for _ in range(MAX_ATTEMPTS - 1):
        call(at=deadline(call.kept), view=NEW)
        assert call.kept.owed == (outcome,)
    raises.clear()
    call(at=deadline(call.kept), view=NEW)
    assert call.kept.state.inputs[-2:] == (Started(), outcome)


def test_the_first_input_of_a_pool_is_never_passed_over(controller, call, raises):
    raises.add(Started)
    call(at=0.0)
    for _ in range(2 * MAX_ATTEMPTS):
        call(at=deadline(call.kept))
    assert set(taken(controller)) == {Started()}
    raises.clear()
    call(at=deadline(call.kept), view=NEW)
    assert call.kept.state.inputs == (Started(),)


def test_of_the_lists_of_an_applications_containers_only_the_last_one_waits(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    call(at=1.0, view=NEW)
    first, second = (Outcome("a", "done", ContainersListed("a", held)) for held in ((), (CONTAINER,)))
    other = Outcome("b", "done", ContainersListed("b", ()))
    call(first, other, at=2.0, view=NEW)
    call(second, at=3.0, view=NEW)
    assert call.kept.owed == (other, second)


def test_a_failing_report_does_not_stop_the_pool_permanently(controller, call, raises):
    call(at=0.0)
    raises.add(ViewChanged)
    call(at=1.0, view=NEW)
    bad, good = FromApp("eve", Seen((1,))), FromApp("ann", Seen())
    call(bad, good, at=2.0, view=NEW)
    raises.clear()

    def shows(state):
        if bad in state.inputs:
            raise KeyError("nothing to show")
        return len(state.inputs)

    controller.shows = shows
    assert call(at=deadline(call.kept), view=NEW) == [arbiter.PoolResumed("gpu")]
    assert (call.kept.state.inputs, call.kept.report) == ((Started(), good), 2)
