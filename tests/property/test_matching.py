"""Matching against all schedules: scipy on the whole matrix of jobs and slots, and Algorithm 2 read word by word."""

import importlib.util
import math
import random

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from tests.sampled import all_in_one
from yarn_plugin.decide.mechanisms import matching
from yarn_plugin.decide.mechanisms.allox import Job, choose_starts
from yarn_plugin.decide.mechanisms.matching import MatchingProblem, match
from yarn_plugin.decide.mechanisms.matching.flow import is_installed
from yarn_plugin.errors import BadInputError

SEEDS, MORE = range(300), range(300, 2300)


def random_problem(rng, max_jobs=30):
    """Two to four kinds of machines, from all idle to all busy; some jobs cannot run everywhere."""
    kinds, busy = rng.randint(2, 4), rng.choice([0.0, 0.5, 1.0])
    free_in = tuple(
        tuple(rng.uniform(0, 100) if rng.random() < busy else 0.0 for _ in range(rng.randint(1, 6)))
        for _ in range(kinds)
    )
    times = []
    for _ in range(rng.randint(1, max_jobs)):
        # Whole seconds now and then, so that there are ties.
        seconds = [rng.choice([float(rng.randint(0, 20)), rng.uniform(0, 100)]) for _ in range(kinds)]
        usable = [rng.random() < 0.8 for _ in range(kinds)]
        usable[rng.randrange(kinds)] = True
        times.append(tuple(one if can else None for one, can in zip(seconds, usable, strict=True)))
    return MatchingProblem(tuple(times), free_in)


def least_sum(problem):
    """The least sum of completion times: a column for each machine and position (AlloX, section 3.1)."""
    jobs = len(problem.times)
    columns = [
        [1e12 if seconds[kind] is None else position * seconds[kind] + wait for seconds in problem.times]
        for kind, waits in enumerate(problem.free_in)
        for wait in waits
        for position in range(1, jobs + 1)
    ]
    costs = np.array(columns).T
    chosen = linear_sum_assignment(costs)
    return float(costs[chosen].sum())


def sum_of_schedule(problem, matches):
    """The sum of completion times when the machines run their jobs in the order of the matching."""
    total, queues = 0.0, {}
    for one in matches:
        queues.setdefault((one.kind, one.machine), []).append((-one.position, one.job))
    for (kind, machine), queue in queues.items():
        end = problem.free_in[kind][machine]
        assert len({position for position, _ in queue}) == len(queue)
        for _, job in sorted(queue):
            end += problem.times[job][kind]
            total += end
    return total


@all_in_one("seed", SEEDS, more=MORE)
def test_a_matching_has_the_least_sum_and_so_has_its_schedule(seed):
    problem = random_problem(random.Random(seed))
    matching = match(problem)
    assert [one.job for one in matching.matches] == list(range(len(problem.times)))
    assert matching.is_exact
    assert matching.total_s == pytest.approx(least_sum(problem), rel=1e-9)
    assert sum_of_schedule(problem, matching.matches) == pytest.approx(matching.total_s, rel=1e-9)


@pytest.mark.parametrize("max_work", [1, 2_000, 20_000])
@all_in_one("seed", range(40))
def test_a_matching_cut_short_is_a_schedule_and_its_bound_holds(seed, max_work):
    problem = random_problem(random.Random(seed))
    matching, least = match(problem, max_work), least_sum(problem)
    assert sum_of_schedule(problem, matching.matches) == pytest.approx(matching.total_s, rel=1e-9)
    assert matching.bound_s <= least * (1 + 1e-9)
    assert matching.total_s >= least * (1 - 1e-9)
    if matching.is_exact:
        assert matching.total_s == pytest.approx(least, rel=1e-9)


def test_the_bound_of_a_deep_queue_is_close():
    """90 jobs on three machines: the sum is within a tenth of the bound even if nothing is matched exactly."""
    rng = random.Random(1)
    times = tuple((rng.uniform(6, 400), rng.uniform(41, 398)) for _ in range(90))
    matching = match(MatchingProblem(times, ((0.0, 0.0), (0.0,))), max_work=1)
    assert matching.bound_s > 0.9 * matching.total_s


@pytest.mark.skipif(not is_installed(), reason="needs OR-tools")
def test_the_flow_finds_the_same_sum(monkeypatch):
    monkeypatch.setattr(matching, "MIN_FLOW_JOBS", 0)
    for seed in range(60):
        problem = random_problem(random.Random(seed))
        found = match(problem)
        assert found.total_s == pytest.approx(least_sum(problem), rel=1e-9), seed
        assert sum_of_schedule(problem, found.matches) == pytest.approx(found.total_s, rel=1e-9)


def test_or_tools_is_found_where_it_is_installed():
    assert is_installed() == (importlib.util.find_spec("ortools") is not None)


@pytest.mark.parametrize(
    ("times", "free_in", "field"),
    [
        (((-1.0,),), ((0.0,),), "times[0]"),
        (((math.nan,),), ((0.0,),), "times[0]"),
        (((1.0, 2.0),), ((0.0,),), "times[0]"),
        (((None,),), ((0.0,),), "times[0]"),
        (((1.0, None),), ((), (0.0,)), "times[0]"),
        (((1.0,),), ((math.inf,),), "free_in[0]"),
        (((1e12,),), ((0.0,),), "times[0]"),
    ],
)
def test_what_cannot_be_matched_is_named(times, free_in, field):
    with pytest.raises(BadInputError) as refused:
        match(MatchingProblem(times, free_in))
    assert refused.value.field == field


def matched(jobs, waits):
    return match(MatchingProblem(tuple(job.times for job in jobs), tuple(tuple(of_kind) for of_kind in waits)))


def check_word_by_word(waiting, waits, progress, alpha, chosen):
    """Each start in turn is one of Algorithm 2 as printed, with section 4.4's larger alpha while nothing starts.

    Of several matchings with the least sum any may be taken: a start is right if the job completes at the least sum
    together with the jobs that are left.
    """
    left, progress = {job.id: job for job in waiting}, dict(progress)
    starts = list(chosen.jobs)
    while True:
        count = max(1, math.ceil(alpha * len(progress) - 1e-9))
        users = sorted(progress, key=lambda user: (progress[user], user))[:count]
        jobs = [job for job in left.values() if job.user in users]
        if not starts or starts[0].job not in {job.id for job in jobs}:
            heads = matched(jobs, waits).first_jobs() if jobs else {}
            assert all(waits[kind][machine] > 0 for kind, machine in heads)
            if alpha >= 1:
                return starts
            alpha = min(1.0, max(2 * alpha, 1 / len(progress)))
            continue
        start = starts.pop(0)
        job = left.pop(start.job)
        assert waits[start.kind][start.machine] == 0
        before = matched(jobs, waits).total_s
        waits[start.kind][start.machine] = job.times[start.kind]
        after = matched([one for one in jobs if one is not job], waits).total_s
        assert before == pytest.approx(job.times[start.kind] + after, rel=1e-9)
        progress[job.user] += job.value_on(start.kind)


@all_in_one("seed", range(100))
def test_starts_are_those_of_algorithm_2(seed):
    rng = random.Random(seed)
    free_in = tuple(
        tuple(rng.uniform(0, 50) if rng.random() < 0.4 else 0.0 for _ in range(rng.randint(1, 4))) for _ in range(2)
    )
    users = [f"u{number}" for number in range(rng.randint(1, 5))]
    waiting = [
        Job(f"j{number}", rng.choice(users), (rng.uniform(1, 100), rng.uniform(1, 100)), (rng.random(), rng.random()))
        for number in range(rng.randint(0, 15))
    ]
    progress = {user: rng.choice([0.0, rng.random()]) for user in users}
    alpha = rng.choice([0.0, 0.1, 0.3, 1.0])
    chosen = choose_starts(waiting, free_in, progress, alpha)
    assert check_word_by_word(waiting, [list(of_kind) for of_kind in free_in], progress, alpha, chosen) == []
