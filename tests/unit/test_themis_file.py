"""Workloads in the JSON format of the Themis authors' simulator."""

import json

import pytest

from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.simulation.training import themis_file
from yarn_plugin.simulation.training.loss_curves import java_doubles, random_sublinear, random_superlinear
from yarn_plugin.toml_files import FileError


def job(number, iterations, group=1, **other):
    return {
        "job_id": str(number),
        "job_group_id": group,
        "start_time": "20",
        "total_iterations": str(iterations),
        "time_per_iteration": "0.5",
        "max_parallelism": 4,
        "cross_slot_slowdown": "1",
        "cross_machine_slowdown": "0.8",
        "cross_rack_slowdown": 0.5,
        "loss_function_type": "sublinear",
        "random_seed": "7",
        **other,
    }


def load(tmp_path, jobs, **options):
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(jobs))
    return themis_file.load("--workload 'jobs.json'", path, **options)


def iterations(app):
    return {one.id: one.iterations for one in app.jobs}


def test_minutes_become_seconds_and_speeds_become_time_factors(tmp_path):
    workload = load(tmp_path, [job(3, 100)])
    (app,) = workload.apps
    (one,) = app.jobs
    assert (app.name, app.arrival_s, app.search) == ("app1", 1200.0, "plain")
    assert (one.id, one.iterations, one.iteration_s, one.min_gpus, one.max_gpus) == ("3", 100, 30.0, 1, 4)
    assert one.slowdown == Slowdown(slot=1.0, machine=1.25, rack=2.0)
    assert one.work_s == 3000.0
    assert workload.notes == ()


def test_times_may_be_in_seconds(tmp_path):
    (app,) = load(tmp_path, [job(3, 100)], time_unit="seconds").apps
    assert (app.arrival_s, app.jobs[0].iteration_s, app.jobs[0].work_s) == (20.0, 0.5, 50.0)


def test_iterations_are_cut_as_by_successive_halving(tmp_path):
    """5 jobs: step = 1000 // floor(log2 5) = 500; 2 run at most 500, one of the 3 left 1000, one 1500, the last all."""
    (app,) = load(tmp_path, [job(1, 1000), job(2, 700), job(3, 600), job(4, 900), job(5, 1000)]).apps
    assert iterations(app) == {"3": 500, "2": 500, "4": 900, "1": 1000, "5": 1000}
    # 4 jobs of equal length are ordered by id as numbers: step 400 // 2.
    (app,) = load(tmp_path, [job(10, 400), job(9, 400), job(11, 400), job(2, 400)]).apps
    assert iterations(app) == {"2": 200, "9": 200, "10": 400, "11": 400}
    (app,) = load(tmp_path, [job(1, 401), job(2, 401)]).apps
    assert iterations(app) == {"1": 401, "2": 401}


def test_a_single_job_and_uncut_jobs_keep_their_iterations(tmp_path):
    (app,) = load(tmp_path, [job(1, 1000)]).apps
    assert iterations(app) == {"1": 1000}
    (app,) = load(tmp_path, [job(1, 1000), job(2, 700), job(3, 600), job(4, 900)], cut=False).apps
    assert iterations(app) == {"1": 1000, "2": 700, "3": 600, "4": 900}


def test_applications_come_in_order_of_arrival(tmp_path):
    workload = load(tmp_path, [job(1, 5, group="b", start_time=30), job(2, 5, group="a", start_time=10)])
    assert [(app.name, app.arrival_s) for app in workload.apps] == [("appa", 600.0), ("appb", 1800.0)]


def test_notes_name_what_was_not_taken(tmp_path):
    jobs = [job(1, 0), job(2, 10, start_time=40, colour="red"), job(3, 0, group=2, start_time=0)]
    workload = load(tmp_path, jobs)
    assert [app.name for app in workload.apps] == ["app1"]
    assert [one.id for one in workload.apps[0].jobs] == ["2"]
    assert workload.apps[0].arrival_s == 1200.0
    assert workload.notes == (
        "ignored keys: colour",
        "all jobs of a group arrive with its first",
        "left out 2 jobs of 0 iterations",
    )


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ({"jobs": []}, "must be a list of jobs"),
        ([], "jobs: must have at least 1 item"),
        ([job(1, 5), 7], "jobs #2 7: must be a"),
        ([job(1, "many")], "jobs #1.total_iterations 'many': must be an integer"),
        ([job(1, 5, cross_rack_slowdown="1.3")], "cross_rack_slowdown '1.3': must be at most 1"),
        ([job(1, 5, time_per_iteration=0)], "time_per_iteration 0: must be above 0"),
        ([job(1, 5, time_per_iteration="NaN")], "time_per_iteration 'NaN': must be"),
        ([job(1, 5, loss_function_type="steep")], "must be 'sublinear' or 'superlinear'"),
        ([job(1, 5), job(2, 5), job(1, 6)], "jobs #3.job_id '1': must differ from that of job #1"),
        ([job(1, -5), job(2, 5, max_parallelism=0)], "(?s)total_iterations '-5'.*max_parallelism 0"),
    ],
)
def test_invalid_files_name_the_job_the_field_and_the_value(tmp_path, jobs, message):
    with pytest.raises(FileError, match=message):
        load(tmp_path, jobs)


def test_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "jobs.json"
    path.write_text('[{"job_id": 1,}]')
    with pytest.raises(FileError, match="--workload 'x': not JSON: line 1, column"):
        themis_file.load("--workload 'x'", path)


def test_seeds_draw_what_java_draws():
    """The first doubles of java.util.Random(42), as published."""
    assert java_doubles(42, 2) == [0.7275636800328681, 0.6832234717598454]


def test_loss_curves_fall_from_1_to_0():
    for seed in range(20):
        for curve in (random_sublinear(1000, seed), random_superlinear(1000, seed)):
            losses = [curve.at(k) for k in (0, 1, 10, 100, 1000)]
            assert losses[0] == pytest.approx(1.0)
            assert losses[-1] == pytest.approx(0.0, abs=1e-4)
            assert losses == sorted(losses, reverse=True)
