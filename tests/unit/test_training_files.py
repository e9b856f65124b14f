"""Training workloads from Philly's CSV, Shockwave's traces, our own format; profiles; which file is which."""

import json
from pathlib import Path

import pytest

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.simulation.training import cluster, profiles, workload
from yarn_plugin.simulation.training.models import NETWORK_INTENSIVE, TABLE_3_4, slowdowns
from yarn_plugin.toml_files import FileError

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@pytest.fixture
def load(tmp_path):
    def load(name, text, **options):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return workload.load(path, **options)

    return load


PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:40,66.0,1,66.0,vc1
2017-10-09 07:00:00,3600.0,1,3600.0,vc1
2017-10-09 07:01:00,120.0,1,120.0,vc1
2017-10-09 07:01:10,60.0,8,480.0,vc1
2017-10-09 07:01:20,60.0,1,60.0,vc2
2017-10-09 07:02:41,10.0,1,10.0,vc1

"""


def test_philly_jobs_of_a_burst_are_an_application(load):
    """vc1, 1 GPU: 07:00:00, 07:01:00 and 07:01:40 are at most 60 s apart, 07:02:41 is 61 s later."""
    found = load("philly.csv", PHILLY)
    shape = [(app.arrival_s, app.user, [(job.iterations, job.max_gpus) for job in app.jobs]) for app in found.apps]
    assert shape == [
        (0.0, "vc1", [(3600.0, 1), (120.0, 1), (66.0, 1)]),
        (70.0, "vc1", [(60.0, 8)]),
        (80.0, "vc2", [(60.0, 1)]),
        (161.0, "vc1", [(10.0, 1)]),
    ]
    gang = found.apps[1].jobs[0]
    assert (gang.min_gpus, gang.iteration_s, gang.work_s) == (8, 8.0, 480.0)
    (rule,) = found.notes
    assert rule.startswith("made 4 applications of 6 jobs")


def test_philly_networks_are_drawn_once_for_an_application(load):
    rows = [f"2017-10-09 07:{minute:02}:00,60,1,60,vc" for minute in range(0, 60, 2)]
    text = "\n".join(["timestamp,duration,num_gpus,gpu_time,cluster", *rows])
    known = {model.name: Slowdown(1.0, 2.0 + number, 9.0 + number) for number, model in enumerate(TABLE_3_4)}
    found = load("p.csv", text, profiles=known, seed=1)
    assert len({app.jobs[0].model for app in found.apps}) > 3
    assert all(job.slowdown == known[job.model] for app in found.apps for job in app.jobs)
    assert load("p.csv", text, profiles=known, seed=1) == found
    assert load("p.csv", text, profiles=known, seed=2) != found
    burst = load("p.csv", PHILLY).apps[0]
    assert len({job.model for job in burst.jobs}) == 1


def test_philly_applications_have_at_most_100_jobs(load):
    text = "timestamp,duration,num_gpus,cluster\n" + "2017-10-09 07:00:00,5,1,vc\n" * 250
    assert [len(app.jobs) for app in load("p.csv", text).apps] == [100, 100, 50]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timestamp,num_gpus\n", "must have the columns .*; duration not found"),
        ("timestamp,duration,num_gpus\n", "rows: must have at least 1 item"),
        ("timestamp,duration,num_gpus\nyesterday,5,1\n", "rows #1.timestamp 'yesterday'"),
        ("timestamp,duration,num_gpus\n2017-10-09 07:00:00,5,0\n", "rows #1.num_gpus '0': must be at least 1"),
        ("timestamp,duration,num_gpus\n2017-10-09 07:00:00,-5,x\n", "(?s)duration '-5'.*num_gpus 'x'"),
    ],
)
def test_invalid_philly_files(load, text, message):
    with pytest.raises(FileError, match=message):
        load("p.csv", text)


def trace(job_type="LM (batch size 10)", steps="1000", gpus="2", mode="static", duration="500", arrival="7.5"):
    cells = [job_type, "python3 main.py", "lm", "--steps", "1", steps, gpus, mode, "3", "-1.000000", duration, arrival]
    return "\t".join(cells) + "\n"


def test_shockwave_jobs(load):
    """500 s on 2 GPUs for 1,000 steps: a step takes 1 s on one."""
    found = load("jobs.trace", trace() + trace("CycleGAN", gpus="1", mode="gns", arrival="0"))
    second, first = found.apps
    (job,) = first.jobs
    assert (first.name, first.arrival_s, first.weight) == ("job1", 7.5, 3.0)
    assert (job.iterations, job.iteration_s, job.min_gpus, job.max_gpus) == (1000.0, 1.0, 2, 2)
    assert (job.model, job.slowdown) == ("LangModel", NETWORK_INTENSIVE)
    assert (second.jobs[0].model, second.jobs[0].slowdown) == ("CycleGAN", Slowdown())
    assert found.notes == ("took 1 job with changing batch sizes for static",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows: must have at least 1 item"),
        ("a\tb\n", "rows #1: must have 12 columns separated by tabs, not 2"),
        (trace() + trace(gpus="none", duration="0"), "(?s)rows #2.scale_factor 'none'.*duration '0': must be above 0"),
    ],
)
def test_invalid_traces(load, text, message):
    with pytest.raises(FileError, match=message):
        load("jobs.trace", text)


OWN = """
[[apps]]
name = "search"
arrival_s = 60
search = "successive_halving"
phases = [8, 16, 36]
user = "ann"
  [[apps.jobs]]
  count = 2
  iterations = 60
  iteration_s = 100
  max_gpus = 8
  model = "VGG16"
  [[apps.jobs]]
  id = "big"
  count = 2
  iterations = 60
  iteration_s = 120
  min_gpus = 2
  max_gpus = 8
  step_gpus = 2
  slowdown = { slot = 1.1, rack = 2 }
  speeds = { V100 = 1.5, A100 = 2.5 }
  loss = { seed = 3 }
[[apps]]
  [[apps.jobs]]
  iterations = 5
  iteration_s = 1
"""


def test_own_format(load):
    plain, search = load("w.toml", OWN).apps
    assert (plain.name, plain.arrival_s, plain.search, plain.jobs[0].slowdown) == ("app2", 0.0, "plain", Slowdown())
    assert (search.name, search.user, search.phases) == ("search", "ann", (8.0, 16.0, 36.0))
    assert [job.id for job in search.jobs] == ["1-1", "1-2", "big-1", "big-2"]
    assert search.jobs[0].slowdown == slowdowns({})["VGG16"]
    big = search.jobs[3]
    assert (big.min_gpus, big.max_gpus, big.step_gpus) == (2, 8, 2)
    assert big.slowdown == Slowdown(1.1, 1.1, 2.0)
    assert (big.speeds, plain.jobs[0].speeds) == ((("A100", 2.5), ("V100", 1.5)), ())
    assert big.loss != search.jobs[2].loss
    as_json = load("w.json", {"apps": [{"jobs": [{"iterations": 5, "iteration_s": 1}]}]})
    assert as_json.apps[0].jobs == plain.jobs


def test_the_example_of_the_documentation():
    """Phases of 4, 2 and 1 jobs: 4 x 800 + 2 x 1600 + 3600 = 10,000 iterations."""
    found = workload.load(EXAMPLES / "search.toml")
    assert [(app.name, len(app.jobs)) for app in found.apps] == [("vision", 4), ("speech", 6), ("translation", 1)]
    assert sum(count * part for count, part in zip((4, 2, 1), found.apps[0].phases, strict=True)) == 10_000
    assert len({job.loss for job in found.apps[0].jobs}) == 4
    assert cluster.load(EXAMPLES / "gpus.toml").gpus == 28


def job(**fields):
    return {"iterations": 5, "iteration_s": 1, **fields}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "has no applications"),
        ({"apps": [{"jobs": []}]}, "jobs: must have at least 1 item"),
        ({"apps": [{"jobs": [job(max_gpus=2, min_gpus=4)]}]}, "max_gpus: must be at least min_gpus, 4"),
        ({"apps": [{"jobs": [job(model="VGG17")]}]}, "model: choose one of .*VGG16.*; or give a slowdown"),
        ({"apps": [{"jobs": [job(slowdown={"rack": 0.5})]}]}, "slowdown.rack 0.5: must be at least 1"),
        ({"apps": [{"jobs": [job(id="a"), job(id="a")]}]}, "jobs: ids must be different"),
        ({"apps": [{"jobs": [job()], "search": "successive_halving"}]}, "phases: required"),
        ({"apps": [{"jobs": [job(count=3)], "search": "successive_halving", "phases": [1, 1, 1]}]}, "at most 1 time"),
        ({"apps": [{"jobs": [job(count=2)], "doubling": True}]}, "doubling: only with"),
        ({"apps": [{"name": "a", "jobs": [job()]}, {"name": "a", "jobs": [job()]}]}, "must be different; 'a'"),
        (
            {"apps": [{"jobs": [job(iterations=0, gpus=1)], "at": 1}]},
            "(?s)iterations 0.*gpus: unknown.*at: unknown key",
        ),
        ({"generate": {"workload": 3}}, "workload 3: must be 1 or 2"),
    ],
)
def test_invalid_own_files_name_all_problems(load, table, message):
    with pytest.raises(FileError, match=message):
        load("w.json", table)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.toml", "[generate]\nworkload = 1\napps = 2\n"),
        ("w.csv", "timestamp,duration,num_gpus,cluster\n2020-01-01 00:00:00,600,1,a\n2020-01-02 00:00:00,600,2,b\n"),
    ],
)
def test_a_file_is_read_once_for_all_seeds(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    of_seed = workload.read(tmp_path / name)
    expected = [workload.load(tmp_path / name, seed) for seed in range(5)]
    (tmp_path / name).unlink()
    assert [of_seed(seed) for seed in range(5)] == expected
    assert len(set(expected)) > 1


def test_listed_and_generated_applications(load):
    text = '[generate]\nworkload = 2\napps = 3\n[[apps]]\nname = "mine"\njobs = [{iterations = 5, iteration_s = 1}]'
    found = load("w.toml", text, seed=4)
    assert sorted(app.name for app in found.apps) == ["app1", "app2", "app3", "mine"]
    assert load("w.toml", text, seed=5) != found


def test_the_format_is_known_by_suffix_and_shape(load, tmp_path):
    fields = {"job_id": 1, "job_group_id": 2, "start_time": 0, "total_iterations": 9, "time_per_iteration": 1}
    assert load("w.json", [{**fields, "max_parallelism": 1}]).apps[0].name == "app2"
    with pytest.raises(FileError, match="must be a list of jobs, or an object with apps"):
        load("w.json", "7")
    with pytest.raises(BadInputError, match=r"must be a .toml, .json, .csv or .trace file; or .*themis-1, themis-2"):
        load("w.yaml", "")
    with pytest.raises(FileError, match="no such file"):
        workload.load(tmp_path / "none.toml")
    assert len(workload.load("themis-2", seed=1).apps) == 85


def write_profiles(directory, **files):
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    return profiles.load(directory)


def model(slot, machine, rack):
    return {"cross_slot_slowdown": slot, "cross_machine_slowdown": machine, "cross_rack_slowdown": rack, "x": 1}


def test_profiles_of_the_themis_simulator(tmp_path):
    found = write_profiles(tmp_path, model_vgg16=model("1", "0.8", "0.5"), model_googlenet=model(1, 1, 1), other={})
    assert found == {"VGG16": Slowdown(1.0, 1.25, 2.0), "googlenet": Slowdown(1.0, 1.0, 1.0)}


def test_profiles_of_gavel(tmp_path):
    """LM: 0.4, 0.5 and 0.6, median 0.5; ResNet-50 is faster apart, which counts as 1; other GPU counts do not."""
    together = {f"('LM (batch size {size})', 4)": {"null": 10.0, "x": [1, 2]} for size in (5, 10, 20)}
    apart = {name: {"null": speed} for name, speed in zip(together, (4.0, 6.0, 5.0), strict=True)}
    together |= {"('ResNet-50 (batch size 16)', 4)": {"null": 2.0}, "('LM (batch size 5)', 8)": {"null": 1.0}}
    apart |= {"('ResNet-50 (batch size 16)', 4)": {"null": 3.0}, "('LM (batch size 5)', 8)": {"null": 9.0}}
    throughputs = {"p100": together, "p100_unconsolidated": apart, "v100": {}}
    found = write_profiles(tmp_path, gavel_throughputs=throughputs, model_resnet50=model(0.5, 0.5, 0.5))
    assert found == {"LangModel": Slowdown(1.0, 2.0, 4.0), "ResNet50": Slowdown(1.0, 1.0, 1.0)}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"must have model_\*.json"),
        ({"model_a": model(1, 1.2, 1)}, "model_a.json: cross_machine_slowdown 1.2: must be at most 1"),
        ({"throughputs": {"k80": {}}}, "must have 'p100' and 'p100_unconsolidated'"),
        (
            {"throughputs": {"p100": {"('A', 4)": {"null": 0}}, "p100_unconsolidated": {"('A', 4)": {"null": 1}}}},
            r"\('A', 4\): null 0: must be iterations per second, above 0",
        ),
    ],
)
def test_invalid_profiles(tmp_path, files, message):
    with pytest.raises(FileError, match=message):
        write_profiles(tmp_path, **files)


def test_a_directory_that_does_not_exist(tmp_path):
    with pytest.raises(FileError, match=r"--profiles .*: no such file"):
        profiles.load(tmp_path / "none")
