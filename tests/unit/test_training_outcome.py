"""The figures of simulations of training applications, computed by hand."""

import pytest

from yarn_plugin.simulation.figures import training_figures
from yarn_plugin.simulation.outcome import JobOutcome, Outcome, Round, jain
from yarn_plugin.simulation.over_time import Contention


def job(name, start, end, work=100.0, max_gpus=1, group=None, gpu_s=None, busy=None):
    gpu_s = work if gpu_s is None else gpu_s
    return JobOutcome(name, group or name, start, end, work / max_gpus, gpus=max_gpus, iterations_s=work, gpu_s=gpu_s,
                      busy_gpu_s=gpu_s if busy is None else busy)  # fmt: skip


def run(gpus, jobs, rounds=(), ended_at=0.0):
    return Outcome(tuple(jobs), ended_at, gpus=gpus, rounds=rounds)


def test_rho_of_a_job_is_relative_to_the_contention_in_its_life():
    # 4 GPUs. a can use 4 from 0 to 100, b 4 from 50 to 150: demand 4, 8, 4 of 4 GPUs: contention 1, 2, 1.
    outcome = run(4, (job("a", 0, 100, 300, 4), job("b", 50, 150, 200, 4)), ended_at=150)
    # a: 100 / (75 * 1.5), b: 100 / (50 * 1.5).
    assert outcome.job_rhos == pytest.approx((100 / 112.5, 100 / 75))


def test_contention_of_a_pool_with_room_is_one():
    outcome = run(64, (job("a", 0, 50, 100, 2), job("b", 0, 100, 100, 2)), ended_at=100)
    assert outcome.job_rhos == pytest.approx((1.0, 2.0))


def test_contention_counts_each_second_and_not_each_event():
    # Demand is 3 of 1 GPU for 10 s, then 1 for 90 s.
    jobs = (job("a", 0, 100, 50), job("b", 0, 10, 5), job("c", 0, 10, 5))
    assert run(1, jobs, ended_at=100).job_rhos[0] == pytest.approx(100 / (50 * (3 * 10 + 90) / 100))


def test_rho_of_an_application_follows_equation_3_2():
    # x: two jobs that can use 3 GPUs together, 600 GPU seconds, 0 to 300. y: 0 to 100. N_avg of x is (2*100 + 200)/300.
    jobs = (job("1", 0, 300, 400, 1, "x"), job("2", 0, 200, 200, 2, "x"), job("3", 0, 100, 100, 1, "y"))
    outcome = run(8, jobs, ended_at=300)
    assert dict(outcome.app_rhos) == pytest.approx({"x": 300 / (600 / 3 * 4 / 3), "y": 100 / (100 / 1 * 2)})
    # On a pool of 2 GPUs, x can use no more than these.
    assert dict(run(2, jobs, ended_at=300).app_rhos)["x"] == pytest.approx(300 / (600 / 2 * 4 / 3))


def test_the_figures_of_a_run():
    jobs = (
        job("1", 60, 660, 300, 1, "x", gpu_s=400, busy=375),
        job("2", 60, 360, 300, 1, "x"),
        job("3", 120, 240, 60, 1, "y"),
    )
    rounds = (Round(1, 60, 2, 1, 1), Round(2, 90, 2, 3, 2), Round(3, 95, 2))
    its = training_figures(run(8, jobs, rounds, ended_at=660))
    assert its.avg_jct_job == pytest.approx((600 + 300 + 120) / 3 / 60)
    assert its.avg_jct_app == pytest.approx((600 + 120) / 2 / 60)
    assert its.makespan == 10.0
    assert its.gpu_time == pytest.approx((400 + 300 + 60) / 60)
    assert its.placement_score == pytest.approx(660 / (375 + 300 + 60))
    assert (its.rounds, its.mean_bidders) == (3, 1.5)
    assert (its.max_rho, its.median_rho) == (2.0, 2.0)
    # rho 2, 1, 2.
    assert its.jain == pytest.approx(25 / (3 * 9))


def test_a_job_that_never_ends_has_no_rho_but_counts_as_contention():
    outcome = run(1, (job("a", 0, None), job("b", 0, 100, 100)), ended_at=500)
    assert outcome.job_rhos == pytest.approx((0.5,))
    assert [name for name, _ in outcome.app_rhos] == ["b"]
    assert training_figures(run(1, (job("a", 0, None),), ended_at=500)).max_rho is None


def test_no_jobs():
    its = training_figures(run(4, ()))
    assert (its.max_rho, its.avg_jct_job, its.makespan, its.gpu_time, its.placement_score) == (None, None, 0, 0, 1)


@pytest.mark.parametrize(
    ("values", "index"), [([3, 3, 3], 1), ([1, 0, 0, 0], 0.25), ([1, 2], 0.9), ([0, 0], 1), ([5], 1)]
)
def test_jains_index(values, index):
    assert jain(values) == pytest.approx(index)


def test_a_mean_over_parts_of_steps():
    level = Contention([(0, 10, 2.0), (4, 6, 1.0)], lambda value: value)
    assert level.mean(0, 10) == pytest.approx(2.2)
    assert level.mean(5, 7) == pytest.approx(2.5)
    assert level.mean(9, 10) == pytest.approx(2.0)
