"""The enforcer over sleeping channels; what it sees becomes the iteration that a plan is made for."""

import threading
import time

import pytest

from tests.emulated_links import FixedPlans, SleepingChannel, SleepingJob
from themis_agent.communication.capture import What, iteration_of, typical, waits
from themis_agent.communication.enforcer import Enforcer
from themis_agent.communication.errors import CommunicationError, DifferentOperationsError
from themis_agent.communication.iteration import Kind, Need, Operation
from themis_agent.communication.options import Algorithm, Option
from themis_agent.communication.plan import Plan, Turn

REDUCE = Operation(Kind.ALL_REDUCE, 1 << 20, "float32", 4, 2)
EXCHANGE = Operation(Kind.ALL_TO_ALL, 1 << 20, "float32", 4, 2)


@pytest.fixture
def channels():
    made = [SleepingChannel(), SleepingChannel()]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def enforcers():
    made = []

    def make(plans=None, timeout_s=30.0, **options):
        made.append(Enforcer(2, plans or FixedPlans(None), timeout_s, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_motifs_begin_in_the_order_of_the_plan(channels, enforcers):
    plan = Plan((EXCHANGE, REDUCE), (Option(), Option(Algorithm.RING)), ((Turn(1, 0), Turn(1, 1), Turn(0, 0)), ()))
    enforcer, log = enforcers(FixedPlans(plan)), []
    for _ in range(2):
        jobs = [SleepingJob(channels, [0.002] * 2, log, name) for name in ("exchange", "reduce")]
        ends = [enforcer.call(operation, job)[0] for operation, job in zip((EXCHANGE, REDUCE), jobs, strict=True)]
        for end in ends:
            end.wait()
        assert all(job.finished for job in jobs)
        enforcer.next_iteration()
    assert [name for name, *_ in log] == ["exchange", "reduce", "reduce", "reduce", "exchange"]


def test_a_program_that_calls_something_else_goes_on_in_order(channels, enforcers):
    plans = FixedPlans(Plan((EXCHANGE, REDUCE), (Option(), Option()), ((Turn(1, 0), Turn(0, 0)), ())))
    enforcer = enforcers(plans)
    enforcer.next_iteration()
    assert enforcer.version == 1
    held = enforcer.call(EXCHANGE, SleepingJob(channels, [0.001]))[0]
    other = enforcer.call(EXCHANGE, SleepingJob(channels, [0.001]))[0]
    held.wait()
    other.wait()
    assert plans.drops == [1]
    assert enforcer.version == 0


def test_a_program_that_calls_fewer_operations_goes_on_in_order(channels, enforcers):
    plans = FixedPlans(Plan((EXCHANGE, REDUCE), (Option(), Option()), ((Turn(1, 0), Turn(0, 0)), ())))
    enforcer = enforcers(plans)
    enforcer.next_iteration()
    held = enforcer.call(EXCHANGE, SleepingJob(channels, [0.001]))[0]
    enforcer.next_iteration()
    held.wait()
    assert plans.drops == [1]


def test_what_fails_once_fails_for_good(channels, enforcers):
    abandoned = []
    enforcer = enforcers(abandon=lambda error: abandoned.append(str(error)))

    class Failing(SleepingJob):
        def begin(self, number, motif, done):
            done(RuntimeError("connection reset"))

    good = enforcer.call(REDUCE, SleepingJob(channels, [0.05]))[0]
    bad = enforcer.call(REDUCE, Failing(channels, [0.0]))[0]
    for completion in (bad, good):
        with pytest.raises(CommunicationError, match="connection reset"):
            completion.wait()
    with pytest.raises(CommunicationError, match="an earlier operation failed: connection reset"):
        enforcer.call(REDUCE, SleepingJob(channels, [0.0]))
    with pytest.raises(CommunicationError, match="an earlier operation failed"):
        enforcer.next_iteration()
    assert abandoned == ["connection reset"]


def test_a_failed_check_fails_the_operation(channels, enforcers):
    class Different(SleepingJob):
        def check(self, fingerprint, done):
            done(CommunicationError("different"))

    with pytest.raises(CommunicationError, match="different"):
        enforcers().call(REDUCE, Different(channels, [0.0]))[0].wait()


class Unchecked(SleepingJob):
    """The comparison with the other processes ends when the test says so."""

    def check(self, fingerprint, done):
        self.checked = done


class Broken(SleepingJob):
    def begin(self, number, motif, done):
        done(RuntimeError("reset"))


@pytest.mark.parametrize(
    ("told", "says"),
    [(DifferentOperationsError("different"), "different"), (RuntimeError("closed"), "reset"), (None, "reset")],
)
def test_a_broken_connection_does_not_hide_that_the_operations_differ(channels, enforcers, told, says):
    """Who finds a difference out breaks its connections, which the others notice before their own checks have ended."""
    enforcer, unchecked = enforcers(), Unchecked(channels, [0.0])
    ends = [enforcer.call(REDUCE, job)[0] for job in (unchecked, Broken(channels, [0.0]))]
    assert not ends[1].ended
    unchecked.checked(told)
    for end in ends:
        with pytest.raises(CommunicationError, match=says):
            end.wait()


def test_a_broken_connection_is_told_in_time_if_no_check_ends(channels, enforcers):
    enforcer = enforcers(timeout_s=0.2)
    enforcer.call(REDUCE, Unchecked(channels, [0.0]))
    with pytest.raises(CommunicationError, match="reset"):
        enforcer.call(REDUCE, Broken(channels, [0.0]))[0].wait()


def test_the_fingerprint_is_of_version_iteration_place_and_operation(channels, enforcers):
    numbers = []

    class Noting(SleepingJob):
        def check(self, fingerprint, done):
            numbers.append(fingerprint)
            done(None)

    for calls in ((REDUCE, REDUCE), (REDUCE, EXCHANGE)):
        enforcer = enforcers()
        for operation in calls:
            enforcer.call(operation, Noting(channels, [0.0]))[0].wait()
    assert numbers[0] == numbers[2] != numbers[1] != numbers[3]
    assert len({numbers[0], numbers[1], numbers[3]}) == 3
    assert all(0 <= number < 2**62 for number in numbers)


def test_an_operation_that_does_not_end_in_time_fails(enforcers):
    class Stuck(SleepingJob):
        def begin(self, number, motif, done):
            pass

    with pytest.raises(CommunicationError, match=r"operation 0 did not end within 0\.2 s"):
        enforcers(timeout_s=0.2).call(REDUCE, Stuck([], [0.0]))[0].wait()


def test_closing_fails_what_runs_and_leaves_no_thread(channels, enforcers):
    before = threading.active_count()
    enforcer = Enforcer(2, FixedPlans(None), 30.0)
    completion = enforcer.call(REDUCE, SleepingJob(channels, [0.05]))[0]
    enforcer.close()
    with pytest.raises(CommunicationError, match="destroyed"):
        completion.wait()
    assert threading.active_count() == before


def trace_of(channels, enforcers, program, iterations=4):
    """What the enforcer sees of a program: a function of the enforcer, for one iteration."""
    seen = []
    enforcer = enforcers(observe=seen.append)
    for _ in range(iterations):
        program(enforcer)
        enforcer.next_iteration()
    return seen


def call_and_wait(enforcer, operation, job):
    completion, iteration, place = enforcer.call(operation, job)

    def wait():
        enforcer.waiting(iteration, place, over=False)
        completion.wait()
        enforcer.waiting(iteration, place, over=True)

    return wait


def test_a_trace_tells_what_waits_for_what(channels, enforcers):
    def program(enforcer):
        first = call_and_wait(enforcer, EXCHANGE, SleepingJob(channels, [0.03]))
        second = call_and_wait(enforcer, REDUCE, SleepingJob(channels, [0.03]))
        first()
        time.sleep(0.01)
        third = call_and_wait(enforcer, EXCHANGE, SleepingJob(channels, [0.01]))
        second()
        third()

    seen = trace_of(channels, enforcers, program)
    # The third was called while the second ran, but after the program had waited for the first.
    assert waits(seen) == {(0, 2)}
    iteration = iteration_of(seen)
    assert [task.operation.kind for task in iteration.tasks if task.operation] == [
        Kind.ALL_TO_ALL, Kind.ALL_REDUCE, Kind.ALL_TO_ALL]  # fmt: skip
    computed = [task.seconds for task in iteration.tasks if task.operation is None]
    assert 0.01 <= iteration.compute_s < 0.03, computed
    third = iteration.tasks[iteration.operations[2]]
    before = iteration.tasks[third.needs[0].task]
    assert Need(iteration.operations[0]) in before.needs


def test_what_was_never_seen_side_by_side_may_depend(channels, enforcers):
    def program(enforcer):
        # Waits where the enforcer cannot see it, as DDP does in C++.
        enforcer.call(REDUCE, SleepingJob(channels, [0.001]))[0].wait()
        enforcer.call(REDUCE, SleepingJob(channels, [0.001]))[0].wait()

    assert waits(trace_of(channels, enforcers, program)) == {(0, 1)}


def test_iterations_that_are_not_typical_do_not_count(channels, enforcers):
    calls = iter([1, 3, 2, 2, 2])

    def program(enforcer):
        for _ in range(next(calls)):
            enforcer.call(REDUCE, SleepingJob(channels, [0.001]))[0].wait()

    seen = trace_of(channels, enforcers, program, 5)
    assert [one.number for one in typical(seen)] == [2, 3, 4]
    assert {event.what for event in seen[0].events} >= {What.CALL, What.BEGIN, What.END, What.COMPLETE}


def test_time_in_which_the_order_alone_holds_motifs_back_is_counted(channels, enforcers):
    plan = Plan((EXCHANGE, REDUCE), (Option(), Option()), ((Turn(1, 0), Turn(0, 0)), ()))
    seen = []
    enforcer = enforcers(FixedPlans(plan), observe=seen.append)
    enforcer.next_iteration()
    first = enforcer.call(EXCHANGE, SleepingJob(channels, [0.0]))[0]
    time.sleep(0.05)
    enforcer.call(REDUCE, SleepingJob(channels, [0.0]))[0].wait()
    first.wait()
    enforcer.next_iteration()
    assert seen[0].held_s == 0.0
    assert 0.04 < seen[1].held_s <= seen[1].seconds
    assert seen[1].version == 1


def test_a_program_that_never_ends_an_iteration_is_not_traced_without_end(channels, enforcers):
    """As one that evaluates, without an optimizer: its trace would grow as long as it runs."""
    seen = []
    enforcer = enforcers(observe=seen.append, longest=10)
    for _ in range(11):
        enforcer.call(REDUCE, SleepingJob(channels, [0.0]))[0].wait()
    enforcer.next_iteration()
    for _ in range(10):
        enforcer.call(REDUCE, SleepingJob(channels, [0.0]))[0].wait()
    enforcer.next_iteration()
    assert [(one.number, len(one.operations)) for one in seen] == [(1, 10)]
    assert {event.operation for event in seen[0].events} == set(range(10))


def test_motifs_that_end_at_once_may_end_before_the_next_is_begun(enforcers):
    class AtOnce(SleepingJob):
        def begin(self, number, motif, done):
            done(None)

    plan = Plan(
        (REDUCE,), (Option(Algorithm.RING, segments=2),), ((Turn(0, 0), Turn(0, 1), Turn(0, 2), Turn(0, 3)), ())
    )
    enforcer = enforcers(FixedPlans(plan))
    enforcer.next_iteration()
    job = AtOnce([], [])
    enforcer.call(REDUCE, job)[0].wait()
    assert job.finished
