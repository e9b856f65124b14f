"""AlloX, sections 1 to 3: the worked examples, number for number."""

import pytest

from yarn_plugin.decide.mechanisms.allox import Job, Start, choose_starts
from yarn_plugin.decide.mechanisms.matching import MatchingProblem, match

IDLE_PAIR = ((0.0, 0.0), (0.0, 0.0))
"""Two GPUs and two CPUs."""


def test_3_1_the_optimum_of_three_jobs_on_a_gpu_and_a_cpu_is_17():
    matching = match(MatchingProblem(((3.0, 4.0), (4.0, 6.0), (5.0, 10.0)), ((0.0,), (0.0,))))
    assert matching.total_s == 17
    # Figure 7 has job 1 alone on the CPU; job 2 there and job 1 first on the GPU take as long.
    assert [one.position for one in matching.matches if one.kind == 1] == [1]


def test_1_the_motivating_example_takes_75_sixths_minutes():
    """The paper prints 76/6; this schedule is a minute shorter: J4, J5 and J3, J6 on GPUs, J2 and J1 on CPUs."""
    jobs = ((10.0, 15.0), (8.0, 10.0), (10.0, 50.0), (5.0, 75.0), (10.0, 15.0), (10.0, 15.0))
    assert match(MatchingProblem(jobs, IDLE_PAIR)).total_s == 75


@pytest.mark.parametrize(
    ("jobs", "average"),
    [
        (((40.0, 50.0), (40.0, 50.0), (40.0, 160.0), (40.0, 160.0)), 45),
        (((10.0, 20.0), (10.0, 20.0), (20.0, 90.0), (20.0, 90.0)), 20),
    ],
    ids=["where JSQ+ takes 100", "where SJF+ takes 50"],
)
def test_2_2_the_optimum_puts_jobs_on_gpus_that_gain_most(jobs, average):
    assert match(MatchingProblem(jobs, IDLE_PAIR)).total_s / len(jobs) == average


def test_3_2_a_job_that_waits_for_a_busy_machine_completes_after_both():
    """A job that arrived at 4 is matched at 6 to a machine that is free at 10, for 5: it completes 11 after it came."""
    now, arrived = 6.0, 4.0
    assert now + match(MatchingProblem(((5.0,),), ((4.0,),))).total_s - arrived == 11


def test_3_3_2_progress_is_the_share_of_the_faster_side_and_less_on_the_other():
    """(1, 4, 20) on CPU and (1, 2, 5) on GPU, in a cluster of (8, 2, 64): a half on GPU, an eighth on CPU."""
    job = Job("j", "u", times=(5.0, 20.0), shares=(max(1 / 2, 2 / 64), max(1 / 8, 4 / 64)))
    assert job.value_on(0) == 1 / 2
    assert job.value_on(1) == 1 / 8


def test_3_3_3_only_users_with_the_least_progress_are_considered():
    jobs = [Job("rich", "a", (1.0,), (0.5,)), Job("poor", "b", (9.0,), (0.5,))]
    chosen = choose_starts(jobs, ((0.0,),), {"a": 0.5, "b": 0.0}, alpha=0.5)
    assert chosen.jobs == (Start("poor", 0, 0),)
    assert chosen.alpha == 0.5
    assert choose_starts(jobs, ((0.0,),), {"a": 0.5, "b": 0.0}, alpha=1).jobs == (Start("rich", 0, 0),)


def test_3_3_3_a_job_waits_for_the_machine_that_suits_it():
    """The GPU is free in a second and a hundred times as fast: the idle CPU stays idle."""
    chosen = choose_starts([Job("j", "u", (1.0, 100.0), (1.0, 1.0))], ((1.0,), (0.0,)), {}, alpha=1)
    assert chosen.jobs == ()


def test_4_4_alpha_is_raised_while_machines_stay_idle():
    """The user with the least progress has no job; with half of the users the machine would stay idle."""
    chosen = choose_starts([Job("j", "a", (1.0,), (1.0,))], ((0.0,),), {"a": 0.5, "b": 0.0}, alpha=0.5)
    assert chosen.jobs == (Start("j", 0, 0),)
    assert chosen.alpha == 1
