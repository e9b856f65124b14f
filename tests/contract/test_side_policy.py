"""The contract of side policies, rule by rule (yarn_plugin/decide/policies/sides/__init__.py), for each policy."""

import random

import pytest

from tests.sampled import all_in_one
from tests.side_runs import Given, run
from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.policies.sides import SIDE_POLICIES
from yarn_plugin.decide.policies.sides.queue import Queue, Running

POLICIES = sorted(SIDE_POLICIES)
SEEDS = range(40)


def random_job(rng, name, users):
    times = [rng.uniform(1, 100), rng.uniform(1, 100)]
    if rng.random() < 0.2:
        times[rng.randrange(2)] = None
    return Job(name, rng.choice(users), tuple(times), (rng.random(), rng.random()), rng.uniform(0, 1000))


def random_queue(seed, busy=0.5):
    rng = random.Random(seed)
    users = ("ann", "bob", "eve")
    free_in = tuple(
        tuple(rng.uniform(1, 50) if rng.random() < busy else 0.0 for _ in range(rng.randint(1, 5))) for _ in range(2)
    )
    running = []
    for kind, waits in enumerate(free_in):
        for machine, wait in enumerate(waits):
            job = random_job(rng, f"run-{kind}-{machine}", users)
            if wait and job.times[kind] is not None:
                running.append(Running(job, kind, machine))
    waiting = [random_job(rng, f"wait-{number}", users) for number in range(rng.randint(0, 12))]
    waiting.sort(key=lambda job: job.arrived_at)
    return Queue(1000.0, tuple(waiting), tuple(running), free_in, users, slots_per_gpu=3.0)


@pytest.mark.parametrize("name", POLICIES)
@all_in_one("seed", SEEDS)
def test_1_jobs_start_once_where_they_can_run_on_free_machines(name, seed):
    queue = random_queue(seed)
    choice = SIDE_POLICIES[name].choose(queue)
    left_by = {(one.kind, one.machine): one.job for one in queue.running if one.job.id in choice.preempted}
    can_start = {job.id: job for job in (*queue.waiting, *left_by.values())}
    assert len({start.job for start in choice.starts}) == len(choice.starts)
    assert len({(start.kind, start.machine) for start in choice.starts}) == len(choice.starts)
    for start in choice.starts:
        assert can_start[start.job].times[start.kind] is not None
        assert queue.free_in[start.kind][start.machine] == 0 or (start.kind, start.machine) in left_by


@pytest.mark.parametrize("name", POLICIES)
@all_in_one("seed", SEEDS)
def test_2_only_srpt_preempts_and_only_jobs_that_run(name, seed):
    queue = random_queue(seed)
    preempted = set(SIDE_POLICIES[name].choose(queue).preempted)
    assert preempted <= ({one.job.id for one in queue.running} if name == "srpt" else set())


@pytest.mark.parametrize("name", POLICIES)
def test_3_equal_queues_give_equal_choices(name):
    for seed in SEEDS:
        assert SIDE_POLICIES[name].choose(random_queue(seed)) == SIDE_POLICIES[name].choose(random_queue(seed))


@pytest.mark.parametrize("name", POLICIES)
def test_4_where_no_job_runs_some_job_starts(name):
    for seed in SEEDS:
        queue = random_queue(seed, busy=0.0)
        assert SIDE_POLICIES[name].choose(queue).starts or not queue.waiting


@pytest.mark.parametrize("name", POLICIES)
def test_all_jobs_end(name):
    rng = random.Random(1)
    jobs = [
        Given(f"j{number:02}", rng.choice("abc"), (rng.uniform(1, 20), rng.uniform(1, 60)), rng.uniform(0, 60))
        for number in range(40)
    ]
    assert len(run(jobs, (2, 3), SIDE_POLICIES[name].choose, samples=(0.01, 0.02)).ends) == 40
