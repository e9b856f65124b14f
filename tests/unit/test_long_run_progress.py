"""Long-run progress: no user waits for longer than the bound, at any alpha."""

import random

import pytest

from tests.side_runs import Given, run
from yarn_plugin.decide.mechanisms.long_run_progress import LongRun, longest_wait_s
from yarn_plugin.decide.policies.sides import allox


def starving():
    """Short jobs of one user, one after the other, keep all machines busy; another user has long ones."""
    short = [Given(f"short-{number:03}", "ann", (10.0, None), number * 4.0) for number in range(300)]
    return [Given("long", "bob", (100.0, None), 50.0), *short]


def bound_of(jobs, machines, patience_s):
    """From the input alone."""
    users = {one.user for one in jobs}
    usable = [count for kind, count in enumerate(machines) if all(one.times[kind] is not None for one in jobs)]
    longest = max(seconds for one in jobs for seconds in one.times if seconds is not None)
    return longest_wait_s(patience_s, len(users), sum(usable), longest)


def test_without_long_run_progress_the_bound_is_exceeded():
    jobs, bound = starving(), bound_of(starving(), (2, 0), 300.0)
    assert run(jobs, (2, 0), allox.choose, alpha=1.0).longest_wait > bound
    assert run(jobs, (2, 0), allox.choose, alpha=1.0, patience_s=300.0).longest_wait <= bound


@pytest.mark.parametrize("seed", range(4))
def test_no_user_waits_for_longer_than_the_bound(seed):
    rng = random.Random(seed)
    machines = (rng.randint(1, 2), rng.randint(1, 2))
    lengths = {user: rng.choice([5.0, 20.0, 60.0]) for user in "abcd"}
    jobs = []
    for number in range(40):
        user = rng.choice("aaabcd")
        seconds = lengths[user] * rng.uniform(0.5, 1.5)
        jobs.append(Given(f"j{number:03}", user, (seconds, seconds * rng.uniform(0.8, 3)), rng.uniform(0, 400)))
    alpha, patience_s = rng.choice([0.1, 1.0]), rng.choice([20.0, 100.0])
    result = run(jobs, machines, allox.choose, alpha=alpha, patience_s=patience_s)
    assert result.longest_wait <= bound_of(jobs, machines, patience_s) + 1e-6


def test_lag_grows_while_jobs_wait_and_falls_with_progress():
    long_run = LongRun().advanced(0.0, {}, {"ann", "bob"}).advanced(10.0, {"ann": 0.0, "bob": 1.0}, {"ann", "bob"})
    assert long_run.lags == {"ann": 10.0, "bob": 0.0}
    assert long_run.next_overdue(30.0, {"ann": 0.0, "bob": 1.0}, {"ann", "bob"}) == 30.0
    assert long_run.advanced(15.0, {"ann": 1.0, "bob": 0.0}, {"ann", "bob"}).lags == {"ann": 5.0, "bob": 5.0}
    assert long_run.advanced(15.0, {"ann": 0.0, "bob": 1.0}, {"bob"}).lags == {"bob": 0.0}, "no job of ann's waits"


def test_a_user_who_arrives_has_waited_for_nothing_yet():
    """However long nothing happened before."""
    long_run = LongRun().advanced(10.0, {}, set()).advanced(5000.0, {}, {"ann"})
    assert long_run.overdue(1800.0) == ()
    assert long_run.next_overdue(1800.0, {"ann": 0.0}, {"ann"}) == 6800.0
    assert long_run.advanced(6800.0, {"ann": 0.0}, {"ann"}).overdue(1800.0) == ("ann",)


def test_overdue_users_start_jobs_in_turn():
    long_run = LongRun(0.0, {"ann": 0.0, "bob": 0.0}).advanced(50.0, {"ann": 0.0, "bob": 0.0}, {"ann", "bob"})
    assert long_run.overdue(50.0) == ("ann", "bob")
    assert long_run.started({"ann"}).overdue(50.0) == ("bob", "ann")
    assert long_run.overdue(51.0) == ()
