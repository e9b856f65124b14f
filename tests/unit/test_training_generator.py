"""Generated training workloads follow the figures of the thesis, and depend on the seed alone."""

from itertools import pairwise
from statistics import median, stdev

import pytest

from yarn_plugin.simulation.training.generate import (
    APPS,
    MEDIAN_JOBS_1,
    PERIOD_S,
    TASK_S,
    Generator,
    halving_phases,
)
from yarn_plugin.simulation.training.models import COMPUTE_INTENSIVE, NETWORK_INTENSIVE, TABLE_3_4
from yarn_plugin.simulation.training.statistics import statistics, work_s


@pytest.fixture(scope="module")
def large():
    """Many applications, so that their statistics are near those of the distributions."""
    return Generator(workload=1, apps=1000, period_s=1000 * PERIOD_S / APPS).generate(1)


def values(workload):
    return {one.name: one.value for one in statistics(workload)}


def test_workload_1_follows_figures_3_1_to_3_4(large):
    found = values(large)
    assert found["share of applications with 1 job"] == pytest.approx(0.1, abs=0.03)
    assert found["median jobs of an application"] == pytest.approx(75, abs=2)
    assert found["most jobs of an application"] <= 100
    assert found["median GPU hours of a task"] == pytest.approx(3.75, rel=0.15)
    assert found["median GPU days of an application"] == pytest.approx(11.5, rel=0.15)
    assert found["share of applications 10 times shorter"] > 0.05
    assert found["share of applications 10 times longer"] > 0.05
    assert found["hours from the first to the last arrival"] / 1000 * 85 == pytest.approx(336, rel=0.1)


def test_arrivals_are_bursty(large):
    times = [app.arrival_s for app in large.apps]
    gaps = [late - early for early, late in pairwise(times)]
    assert times[0] == 0.0
    assert stdev(gaps) / (sum(gaps) / len(gaps)) == pytest.approx(2.0, rel=0.15)


def test_jobs_of_workload_1(large):
    jobs = [job for app in large.apps for job in app.jobs]
    assert {job.max_gpus for job in jobs} == {1, 2}
    assert sum(job.max_gpus == 2 for job in jobs) / len(jobs) == pytest.approx(0.2, abs=0.01)
    assert {app.search for app in large.apps} == {"plain"}
    assert all(job.min_gpus == 1 for job in jobs)


def test_networks_have_the_shares_of_table_3_4(large):
    assert sum(model.share for model in TABLE_3_4) == pytest.approx(1.0)
    found = [app.jobs[0].model for app in large.apps]
    for model in TABLE_3_4:
        assert found.count(model.name) / len(found) == pytest.approx(model.share, abs=0.03)


def test_workload_2_halves_and_has_the_work_of_workload_1(large):
    small = Generator(workload=2, apps=1000, period_s=1000 * PERIOD_S / APPS).generate(1)
    assert [app.arrival_s for app in small.apps] == [app.arrival_s for app in large.apps]
    for app in small.apps:
        count = len(app.jobs)
        assert (app.search == "successive_halving") == (count > 1)
        assert app.doubling == bool(app.phases)
        assert len(app.phases) == (count.bit_length() if count > 1 else 0)
        assert {job.max_gpus for job in app.jobs} <= {2, 4}
        assert not app.phases or all(job.iterations == sum(app.phases) for job in app.jobs)
    works = [median(work_s(app) for app in workload.apps) for workload in (small, large)]
    assert works[0] == pytest.approx(works[1], rel=0.2)


def test_phases_divide_the_budget_evenly():
    """1,200 s in three phases of 4, 2 and 1 jobs of 10 s an iteration."""
    assert halving_phases([5.0, 15.0, 10.0, 10.0], 1200.0) == (10.0, 20.0, 40.0)


def test_a_mix_of_compute_and_network_intensive_applications():
    none, some, every = (Generator(apps=60, network_share=share).generate(3) for share in (0.0, 0.4, 1.0))
    assert {app.jobs[0].slowdown for app in none.apps} == {COMPUTE_INTENSIVE}
    assert {app.jobs[0].slowdown for app in every.apps} == {NETWORK_INTENSIVE}
    assert 10 < sum(app.jobs[0].slowdown == NETWORK_INTENSIVE for app in some.apps) < 38
    for one, other in zip(none.apps, every.apps, strict=True):
        assert (one.arrival_s, len(one.jobs)) == (other.arrival_s, len(other.jobs))
        assert work_s(one) == pytest.approx(work_s(other), rel=0.05)


def test_the_seed_and_the_settings_decide():
    generator = Generator(workload=2, apps=10, scale=0.1, gangs=True)
    assert generator.generate(1) == generator.generate(1)
    assert generator.generate(1) != generator.generate(2)
    workload = generator.generate(1)
    assert all(job.min_gpus == job.max_gpus for app in workload.apps for job in app.jobs)
    longer = Generator(workload=2, apps=10, scale=1.0, gangs=True).generate(1)
    assert work_s(workload.apps[0]) == pytest.approx(work_s(longer.apps[0]) / 10, rel=0.05)


def test_a_cut_bounds_the_work_of_applications():
    median_s = TASK_S * MEDIAN_JOBS_1
    whole = Generator(2).generate(0).apps
    cut = Generator(2, cut=(0.5, 2.0)).generate(0).apps
    for one, other in zip(whole, cut, strict=True):
        if one.phases:
            # Phases have whole iterations.
            assert work_s(other) == pytest.approx(min(max(work_s(one), 0.5 * median_s), 2 * median_s), rel=0.01)
    assert any(work_s(app) > 2.1 * median_s for app in whole)
