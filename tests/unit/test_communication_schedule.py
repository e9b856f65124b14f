"""Schedules of iterations, each checked by a simulator of its own; the search against all plans."""

import itertools

import numpy as np
import pytest

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Iteration, Kind, Need, Operation, Task
from themis_agent.communication.options import Option, TimedMotif, TimedOption
from themis_agent.communication.schedule import (
    COMPUTE,
    Entry,
    Place,
    critical_path,
    fold,
    graph,
    in_program_order,
    list_schedule,
    replay,
)
from themis_agent.communication.search import Limits, Problem, scheduled, search

EXCHANGE = Operation(Kind.ALL_REDUCE, 1 << 20, "float32", 4, 8)


def assert_is_possible(timeline):
    """No lane does two things at once, nothing begins before what it needs, and everything takes its time."""
    under = timeline.graph
    runs = {lane: [] for lane in set(under.lanes)}
    for iteration, (starts, ends) in enumerate(zip(timeline.starts, timeline.ends, strict=True)):
        for node, lane in enumerate(under.lanes):
            runs[lane].append((starts[node], ends[node]))
            shortest = under.seconds[node]
            assert ends[node] - starts[node] >= shortest - 1e-9
            for other, lag in under.needs[node]:
                if lag <= iteration:
                    assert timeline.ends[iteration - lag][other] <= starts[node] + 1e-9
    for spans in runs.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(spans)):
            assert end <= start + 1e-9
    # The computation keeps the order of the program.
    computed = [timeline.starts[i][n] for i in range(len(timeline.starts)) for n in under.computing]
    assert computed == sorted(computed)


def slow_replay(under, iterations, sequence):
    """The times of a strict order, found by relaxing all constraints until nothing changes: max-plus, no events."""
    nodes = {place: node for node, place in enumerate(under.places)}
    keys = list(itertools.product(range(iterations), range(len(under.places))))
    before = {key: [] for key in keys}
    for i, n in keys:
        before[i, n] += [(i - lag, other) for other, lag in under.needs[n] if lag <= i]
    lanes = [[(i, n) for i in range(iterations) for n in under.computing]]
    for entries in sequence:
        rounds = range(-iterations, 2 * iterations)
        all_of_lane = [(r + one.lag, nodes[one.place]) for r in rounds for one in entries]
        lanes.append([key for key in all_of_lane if 0 <= key[0] < iterations])
    for lane in lanes:
        for earlier, later in itertools.pairwise(lane):
            before[later].append(earlier)
    end = dict.fromkeys(keys, 0.0)
    for _ in range(len(keys) + 1):
        new = {key: max((end[one] for one in before[key]), default=0.0) + under.seconds[key[1]] for key in keys}
        if new == end:
            return new
        end = new
    raise AssertionError("never ends")


def assert_simulators_agree(under, order):
    played = replay(under, 5, order)
    assert_is_possible(played)
    for (iteration, node), end in slow_replay(under, 5, order).items():
        assert played.ends[iteration][node] == pytest.approx(end)


def random_problem(numbers, operations=3, options=3, channels=2):
    """A chain of computations, with operations that a later one or the next iteration needs."""
    tasks = []
    computing = []
    for place in range(operations):
        needs = [Need(computing[-1])] if computing else []
        tasks.append(Task(f"compute {place}", tuple(needs), float(numbers.uniform(1, 10))))
        computing.append(len(tasks) - 1)
        tasks.append(Task(f"communicate {place}", (Need(computing[-1]),), operation=EXCHANGE))
    last = [Need(computing[-1])]
    waited = [task for task in range(1, 2 * operations, 2) if numbers.uniform() < 0.5]
    tasks.append(Task("rest", (*last, *(Need(task) for task in waited)), float(numbers.uniform(1, 10))))
    # What nothing of this iteration waits for, the next one's first computation does.
    later = tuple(Need(task, 1) for task in range(1, 2 * operations, 2) if task not in waited)
    tasks[0] = Task("compute 0", later, tasks[0].seconds)
    choices = {}
    for task in range(1, 2 * operations, 2):
        whole = float(numbers.uniform(2, 12))
        found = []
        for number in range(options):
            channel, pieces = number % channels, 1 + number // channels
            seconds = whole * float(numbers.uniform(0.8, 2)) / pieces + 0.2
            motifs = tuple(TimedMotif(channel, seconds) for _ in range(pieces))
            found.append(TimedOption(Option(segments=pieces, channels=(channel,)), motifs))
        choices[task] = tuple(found)
    return Problem(Iteration(tuple(tasks)), choices, channels)


@pytest.mark.parametrize("seed", range(25))
def test_schedules_are_possible_and_times_agree_with_another_simulator(seed):
    numbers = np.random.default_rng(seed)
    problem = random_problem(numbers)
    chosen = tuple(int(numbers.integers(len(one))) for one in problem.choices.values())
    under = problem.graph_of(chosen)
    timeline = list_schedule(under, 4, critical_path(under, 4))
    assert_is_possible(timeline)
    for order in (fold(timeline), in_program_order(under)):
        try:
            replay(under, 5, order)
        except PlanError:
            with pytest.raises(AssertionError):
                slow_replay(under, 5, order)
            continue
        assert_simulators_agree(under, order)


def test_the_example_of_the_thesis_gains_by_a_slower_option_on_the_other_channel():
    # Section 4.3.1.2: a slower all-to-all beside the all-reduce beats the fastest one before it.
    exchange, reduce = (Operation(kind, 1 << 20, "float32", 4, 8) for kind in (Kind.ALL_TO_ALL, Kind.ALL_REDUCE))
    tasks = (
        Task("forward", (Need(1, 1), Need(2, 1)), 1.0),
        Task("all-to-all", (Need(0),), operation=exchange),
        Task("all-reduce", (Need(0),), operation=reduce),
    )
    fast, slow = (TimedOption(Option(channels=(c,)), (TimedMotif(c, s),)) for c, s in ((0, 4.0), (1, 5.0)))
    problem = Problem(Iteration(tasks), {1: (fast, slow), 2: (TimedOption(Option(), (TimedMotif(0, 5.0),)),)}, 2)
    assert scheduled(problem, problem.greedy).period_s == pytest.approx(10.0)
    found = search(problem, np.random.default_rng(0), Limits())
    assert found.best.period_s == pytest.approx(6.0)
    assert found.best.chosen == (1, 0)


def test_an_order_that_would_deadlock_is_refused():
    tasks = (
        Task("first", (), operation=EXCHANGE),
        Task("compute", (Need(0),), 1.0),
        Task("second", (Need(1),), operation=EXCHANGE),
    )
    one = (TimedMotif(0, 1.0),)
    under = graph(Iteration(tasks), {0: one, 2: one}, 1)
    with pytest.raises(PlanError, match="would deadlock"):
        replay(under, 3, ((Entry(Place(2, 0)), Entry(Place(0, 0))),))


def test_a_motif_takes_longer_beside_another_channel():
    tasks = (Task("a", (), operation=EXCHANGE), Task("b", (), operation=EXCHANGE), Task("end", (Need(0), Need(1)), 1.0))
    chosen = {0: (TimedMotif(0, 4.0),), 1: (TimedMotif(1, 4.0),)}
    alone = graph(Iteration(tasks), chosen, 2)
    beside = graph(Iteration(tasks), chosen, 2, ((1.0, 1.5), (2.0, 1.0)))
    assert list_schedule(alone, 1, critical_path(alone, 1)).finish(0) == pytest.approx(5.0)
    timeline = list_schedule(beside, 1, critical_path(beside, 1))
    # Channel 0 ends at 6; until then channel 1 has done half of that, and does the last 1 alone.
    assert timeline.ends[0][0] == pytest.approx(6.0)
    assert timeline.ends[0][1] == pytest.approx(7.0)


def test_what_has_begun_in_the_iteration_before_is_part_of_its_round():
    # The exchange of the next batch needs nothing of this iteration: it moves before it (section 4.6.5.1).
    tasks = (
        Task("data", (Need(1, 1),), operation=EXCHANGE),
        Task("forward", (Need(0),), 5.0),
        Task("backward", (Need(1),), 5.0),
    )
    under = graph(Iteration(tasks), {0: (TimedMotif(0, 3.0),)}, 1)
    order = fold(list_schedule(under, 3, critical_path(under, 3)))
    assert order == ((Entry(Place(0, 0), 1),),)
    assert replay(under, 6, order).period_s == pytest.approx(10.0)
    assert replay(under, 6, in_program_order(under)).idle == pytest.approx(0.0)
    assert under.lanes.count(COMPUTE) == 2


def exhaustive(problem):
    sizes = [range(len(one)) for one in problem.choices.values()]
    return min(scheduled(problem, chosen).period_s for chosen in itertools.product(*sizes))


def compare_with_exhaustive(cases):
    losses = []
    for seed in range(cases):
        numbers = np.random.default_rng(1000 + seed)
        problem = random_problem(numbers, operations=int(numbers.integers(2, 5)), options=int(numbers.integers(2, 5)))
        best = search(problem, numbers, Limits()).best
        assert_simulators_agree(problem.graph_of(best.chosen), best.sequence)
        losses.append(best.period_s / exhaustive(problem) - 1)
    optimal = sum(loss < 1e-9 for loss in losses)
    print(f"optimal: {optimal} of {cases}; worst {100 * max(losses):.2f}%")
    assert optimal >= 0.9 * cases
    assert max(losses) <= 0.03


def test_the_search_finds_the_best_of_all_plans():
    compare_with_exhaustive(12)


@pytest.mark.matrix
def test_the_search_finds_the_best_of_all_plans_in_200_cases():
    compare_with_exhaustive(200)


def test_the_search_ends_when_its_time_is_over_and_by_its_own_rule():
    problem = random_problem(np.random.default_rng(1))
    assert search(problem, np.random.default_rng(0), Limits(), out_of_time=lambda: True).steps == 1
    assert search(problem, np.random.default_rng(0), Limits(steps=10_000)).steps < 10_000
