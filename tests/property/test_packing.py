"""Packing onto shared GPUs: every packing keeps all constraints, and none of small queues uses fewer GPUs."""

import random
from dataclasses import replace
from itertools import combinations
from math import inf

import pytest
import scipy.optimize

from tests.sampled import all_in_one
from yarn_plugin.decide.mechanisms.packing import (
    Job,
    Limits,
    PackingProblem,
    collision,
    groups,
    pack,
    place_easygoing_first,
    place_greedily,
    slowdowns_on,
    violations,
)
from yarn_plugin.decide.mechanisms.packing import patterns as by_patterns
from yarn_plugin.errors import BadInputError
from yarn_plugin.simulation.shared_queues import drawn_jobs, drawn_slowdowns, least_disturbing

SEEDS, MORE = range(100), range(100, 2300)


def random_problem(rng, jobs, workers):
    kinds = [f"k{number}" for number in range(rng.randint(1, 5))]
    scale = rng.choice([0.05, 0.2, 0.6])
    slowdowns = {(a, b): rng.random() * scale for a in kinds for b in kinds if rng.random() < 0.9}
    return PackingProblem(
        tuple(
            Job(
                f"j{number}", rng.choice(kinds), rng.randint(1, workers), rng.uniform(0.1, 0.5), rng.uniform(0.05, 0.3),
                rng.uniform(0, 0.6), rng.choice([0.0, rng.uniform(0, 0.4)]),
            )
            for number in range(rng.randint(1, jobs))
        ),
        slowdowns,
        Limits(rng.choice([0.05, 0.1, 0.3]), rng.choice([0.1, 0.2, 0.4]), rng.choice([0.05, 0.1, 0.5])),
    )  # fmt: skip


@all_in_one("seed", SEEDS, more=MORE)
def test_a_packing_keeps_all_constraints(seed):
    problem = random_problem(random.Random(seed), jobs=8, workers=5)
    for packed in (place_greedily(problem), place_easygoing_first(problem)):
        assert violations(problem, packed) == []
    best = pack(problem)
    assert violations(problem, best.gpus) == []
    assert best.bound <= len(best.gpus) <= sum(job.workers for job in problem.jobs)


def least_by_trying(problem):
    """The fewest GPUs over all ways to put workers together, each in turn on a GPU in use or on the next one."""
    workers = [index for index, job in enumerate(problem.jobs) for _ in range(job.workers)]
    best = len(workers)

    def put(position, gpus):
        nonlocal best
        if len(gpus) > best:
            return
        if position == len(workers):
            if not violations(problem, tuple(tuple(one) for one in gpus)):
                best = min(best, len(gpus))
            return
        for gpu in gpus:
            gpu.append(workers[position])
            put(position + 1, gpus)
            gpu.pop()
        put(position + 1, [*gpus, [workers[position]]])

    put(0, [])
    return best


@all_in_one("seed", range(60))
def test_no_packing_of_a_small_queue_uses_fewer_gpus(seed):
    problem = random_problem(random.Random(seed), jobs=3, workers=2)
    least = least_by_trying(problem)
    best = pack(problem)
    assert len(best.gpus) == least
    assert best.bound <= least


def in_steps(problem):
    """The same with numbers that are sums of powers of two, so that no order of adding them rounds."""
    step = lambda value: max(round(value * 64), 1) / 64  # noqa: E731
    jobs = tuple(
        replace(job, computing=step(job.computing), memory=step(job.memory), increment=step(job.increment))
        for job in problem.jobs
    )
    return PackingProblem(jobs, {pair: step(value) for pair, value in problem.slowdowns.items()}, problem.limits)


def place_simply(problem, order):
    """Algorithm 2 as the text has it: each constraint is looked up anew for each GPU and worker."""
    jobs, limits, gpus = problem.jobs, problem.limits, []

    def slowdown_of(there):
        return max(inf if one is None else one for one in slowdowns_on(problem, tuple(there)))

    def is_balanced(job, state):
        mine = [
            one for gpu in state for at, one in zip(gpu, slowdowns_on(problem, tuple(gpu)), strict=True) if at == job
        ]
        return max(mine) - min(mine) <= limits.balance + 1e-9

    def fits(there):
        workers = [jobs[job] for job in there]
        return (
            sum(one.computing for one in workers) <= 1 + 1e-9
            and sum(one.memory for one in workers) + max(one.increment for one in workers) <= 1 + 1e-9
            and collision(tuple(one.probability for one in workers)) <= limits.collision + 1e-9
            and slowdown_of(there) <= limits.interference + 1e-9
        )

    def filled(job, may_open):
        state = [list(gpu) for gpu in gpus]
        for _ in range(jobs[job].workers):
            fitting = [number for number, gpu in enumerate(state) if fits([*gpu, job])]
            for number in sorted(fitting, key=lambda number: slowdown_of([*state[number], job])):
                after = [[*gpu, job] if at == number else gpu for at, gpu in enumerate(state)]
                if all(is_balanced(other, after) for other in after[number]):
                    state = after
                    break
            else:
                if not may_open or not is_balanced(job, [*state, [job]]):
                    return None
                state = [*state, [job]]
        return state

    for job in order:
        gpus = filled(job, False) or filled(job, True) or [*gpus, *([job] for _ in range(jobs[job].workers))]
    return tuple(tuple(sorted(gpu)) for gpu in gpus)


@all_in_one("seed", range(60))
def test_workers_are_placed_as_the_algorithm_says(seed):
    problem = in_steps(random_problem(random.Random(seed), jobs=8, workers=5))
    jobs = problem.jobs
    largest_first = sorted(range(len(jobs)), key=lambda job: (-jobs[job].computing, job))
    assert place_greedily(problem) == place_simply(problem, largest_first)
    easygoing_first = sorted(range(len(jobs)), key=lambda job: (jobs[job].probability, job))
    assert place_easygoing_first(problem) == place_simply(problem, easygoing_first)


@all_in_one("seed", range(20))
def test_patterns_are_all_sets_that_fit_on_a_gpu(seed):
    problem = random_problem(random.Random(seed), jobs=5, workers=3)
    workers = [index for index, job in enumerate(problem.jobs) for _ in range(job.workers)]
    some = {one for count in range(1, 6) for one in combinations(workers, count)}
    alone = dict.fromkeys(("workers", "balance"), 0)
    fitting = {one for one in some if all(broken.constraint in alone for broken in violations(problem, (one,)))}
    assert {one for one in by_patterns._patterns(problem) if len(one) <= 5} == fitting


def test_a_collision_is_two_or_more_increments_at_once():
    probabilities = (0.3, 0.2, 0.5)
    at_least_two = (
        sum(
            probabilities[a] * probabilities[b] * (1 - probabilities[c])
            for a, b in combinations(range(3), 2)
            for c in range(3)
            if c not in (a, b)
        )
        + 0.3 * 0.2 * 0.5
    )
    assert collision(probabilities) == pytest.approx(at_least_two)
    assert collision(()) == collision((0.9,)) == 0


def test_a_new_gpu_is_not_opened_where_it_breaks_the_balance():
    """As printed, Algorithm 2 puts the second worker of `pair` alone on a GPU: without slowdown, the first has 0.2."""
    slowdowns = {("a", "b"): 0.2, ("b", "a"): 0.2, ("a", "a"): 0.9, ("b", "b"): 0.9}
    jobs = (Job("single", "a", 1, 0.5, 0.2), Job("pair", "b", 2, 0.4, 0.2))
    problem = PackingProblem(jobs, slowdowns, Limits(interference=0.2, balance=0.1))
    assert place_greedily(problem) == ((0,), (1,), (1,))


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (Job("j", "k", 0, 0.5, 0.5), "jobs.j.workers"),
        (Job("j", "k", 1, 1.5, 0.5), "jobs.j.computing"),
        (Job("j", "k", 1, float("nan"), 0.5), "jobs.j.computing"),
        (Job("j", "k", 1, 0.5, 0.0), "jobs.j.memory"),
        (Job("j", "k", 1, 0.5, 0.5, 0.6, 0.1), "jobs.j.increment"),
        (Job("j", "k", 1, 0.5, 0.5, 0.1, 2.0), "jobs.j.probability"),
    ],
)
def test_a_field_out_of_its_range_is_named(job, field):
    with pytest.raises(BadInputError) as refused:
        pack(PackingProblem((job,), {}))
    assert refused.value.field == field


def test_without_scipy_the_better_algorithm_is_taken(monkeypatch):
    monkeypatch.setattr(by_patterns, "is_installed", lambda: False)
    problem = random_problem(random.Random(5), jobs=8, workers=5)
    assert len(pack(problem).gpus) == min(len(place_greedily(problem)), len(place_easygoing_first(problem)))


def drawn_problem(seed, jobs, scale):
    draw = random.Random(seed)
    slowdowns = drawn_slowdowns(draw, scale)
    return PackingProblem(drawn_jobs(draw, jobs, least_disturbing(slowdowns, 13)), slowdowns)


def test_a_queue_with_too_many_patterns_is_packed_in_groups():
    problem = drawn_problem(1, 60, 0.5)
    assert by_patterns.least_gpus(problem, 0.1)[0] is None
    packed = groups.pack_in_groups(problem, 6.0)
    assert violations(problem, packed) == []
    assert sorted(job for gpu in packed for job in gpu) == [
        number for number, job in enumerate(problem.jobs) for _ in range(job.workers)
    ]
    assert len(packed) < min(len(place_greedily(problem)), len(place_easygoing_first(problem)))
    few = replace(problem, jobs=problem.jobs[:20])
    assert groups.pack_in_groups(few, 1.0) is None


@pytest.mark.parametrize("jobs", [50, 100])
def test_integer_programs_stay_small_enough_to_end_in_time(jobs, monkeypatch):
    """HiGHS looks at its time limit between long steps, which take seconds in programs of tens of thousands of rows."""
    rows, limits, solve = [], [], scipy.optimize.milp

    def solved_in_time(costs, **options):
        rows.append(options["constraints"].A.shape[0])
        limits.append(options["options"]["time_limit"])
        return solve(costs, **options)

    monkeypatch.setattr("scipy.optimize.milp", solved_in_time)
    problem = drawn_problem(1, jobs, 0.25)
    packing = pack(problem, 1.0)
    assert violations(problem, packing.gpus) == []
    assert max(rows) < 3_000
    assert sum(limits) < 1.0


def test_the_bound_of_parts_of_gpus_is_close_where_patterns_are_few():
    problem = drawn_problem(0, 50, 1.0)
    best, bound = by_patterns.least_gpus(problem, 60.0)
    assert by_patterns.least_by_sums(problem) < bound <= len(best) <= 1.05 * bound
