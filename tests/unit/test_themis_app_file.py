"""The file of a search: every invalid field is named, all at once, with what would be right."""

import tomllib

import pytest

from themis_agent.app_file import AppFile, Environment, read
from themis_agent.validation import gpu_time
from yarn_plugin.toml_files import FileError

GOOD = """
name = "digits"
command = "python train.py --lr={lr} --optimizer={optimizer} --momentum={momentum}"
max_steps = 27
[space]
lr = { type = "float", low = 1e-4, high = 1.0, log = true }
layers = { type = "int", low = 1, high = 4 }
optimizer = { type = "categorical", choices = ["sgd", "adam"] }
momentum = { type = "float", low = 0, high = 1, when = { optimizer = "sgd" } }
"""


def loaded(**changes):
    return read({**tomllib.loads(GOOD), **changes}, "'app.toml'")


def test_hyperband_has_as_many_trials_as_its_brackets():
    settings = loaded(eta=3).settings()
    assert settings.trials == 27 + 12 + 6 + 4
    assert loaded(algorithm="plain", trials=5).settings().trials == 5


SPACE = tomllib.loads(GOOD)["space"]


WRONG = [
    ({"name": "-x"}, "name '-x': must have 1 to 64 letters, digits, '.', '-' or '_', and not begin with '.' or '-'"),
    ({"name": "a b"}, "name 'a b': must have 1 to 64 letters, digits, '.', '-' or '_', and not begin"),
    ({"name": ".."}, "name '..': must have 1 to 64 letters"),
    ({"vcores": 0}, "vcores 0: must be at least 1"),
    ({"command": ""}, "command '': must name a program"),
    ({"command": "x {depth}"}, "{depth} is not in [space]; it has layers, lr, momentum, optimizer"),
    ({"command": "x {lr"}, "expected '}' before end of string; write braces that are not a parameter twice"),
    ({"metric": "a-b"}, "metric 'a-b': must be a name"),
    ({"direction": "up"}, "direction 'up': must be 'minimize' or 'maximize'"),
    ({"algorithm": "grid"}, "algorithm 'grid': must be 'hyperband',"),
    ({"max_steps": 0}, "max_steps 0: must be at least 1"),
    ({"eta": 1}, "eta 1: must be at least 2"),
    ({"trials": 5}, "trials 5: Hyperband with max_steps 27 and eta 3 has 49; leave it out"),
    ({"algorithm": "plain"}, "trials: required by the algorithm plain"),
    ({"patience": -1}, "patience -1: must be at least 0"),
    ({"target": "low"}, "target 'low': must be a number"),
    ({"max_time_s": 0}, "max_time_s 0: must be above 0"),
    ({"step_s": 0}, "step_s 0: must be above 0"),
    ({"speeds": {"A100": 0}}, "speeds.A100 0: must be above 0"),
    ({"seed": -1}, "seed -1: must be at least 0"),
    ({"sampler": "cma"}, "sampler 'cma': must be 'random' or 'tpe'"),
    ({"retries": -1}, "retries -1: must be at least 0"),
    ({"gpus_per_trial": {"min": 4, "max": 2}}, "gpus_per_trial: max must be at least min, 4"),
    ({"memory_mb": 1}, "memory_mb 1: must be at least 64"),
    ({"grace_s": 0}, "grace_s 0: must be above 0"),
    ({"orphan_s": -1}, "orphan_s -1: must be at least 0"),
    ({"checkpoint": "here"}, "checkpoint 'here': give a folder as file:///PATH"),
    ({"checkpoint": "hdfs:///ck"}, "checkpoint 'hdfs:///ck': give a folder as file:///PATH"),
    ({"checkpoint": "/ck"}, "checkpoint '/ck': give a folder as file:///PATH"),
    ({"keep_checkpoints": 0}, "keep_checkpoints 0: must be at least 1"),
    ({"loss_pattern": "("}, "loss_pattern '(': not a regular expression"),
    ({"loss_pattern": "x"}, "loss_pattern 'x': needs a group named loss"),
    ({"communication": "fast"}, "communication 'fast': must be 'plain' or 'planned'"),
    ({"storage": 3}, "storage 3: must be a string"),
    ({"space": {}}, "space: must have at least 1 item"),
    ({"space": SPACE | {"lr": {"type": "float", "low": 2, "high": 1}}}, "low must be at most high"),
    ({"space": SPACE | {"lr": {"type": "float", "low": 0, "high": 1, "log": True}}}, "must be above 0 with log"),
    ({"space": SPACE | {"lr": {"type": "grid"}}}, "space.lr"),
    (
        {"space": SPACE | {"b": {"type": "int", "low": 1, "high": 2, "when": {"c": 1}}}},
        "b.when 'c': not in [space]",
    ),
    (
        {"space": SPACE | {"b": {"type": "int", "low": 1, "high": 2, "when": {"layers": 9}}}},
        "space.b.when.layers 9: must be an integer from 1 to 4",
    ),
    (
        {"space": SPACE | {"b": {"type": "int", "low": 1, "high": 2, "when": {"b": 1}}}},
        "depends on itself",
    ),
    ({"enqueue": [{"lr": 2}]}, "enqueue #1.lr 2: must be a number from 0.0001 to 1.0"),
    ({"enqueue": [{"width": 2}]}, "enqueue #1.width 2: not in [space]"),
    ({"enqueue": [{"optimizer": "lion"}]}, "enqueue #1.optimizer 'lion': must be one of 'sgd', 'adam'"),
    ({"environment": {"pip": "x"}}, "environment.pip: unknown key"),
    ({"environment": {"env": {"A B": "x"}}}, "must be the name of an environment variable"),
    ({"environment": {"python": 3}}, "environment.python 3: must be a string"),
    ({"environment": {"files": "train.py"}}, "environment.files 'train.py': must be a list"),
    ({"environment": {"archives": [1]}}, "environment.archives"),
    ({"environment": {"image": 1}}, "environment.image 1: must be a string"),
    ({"data": {"urls": 3}}, "data.urls 3: must be a list"),
    ({"colour": "red"}, "colour: unknown key; docs/training.md lists all keys"),
]


@pytest.mark.parametrize(("changes", "problem"), WRONG)
def test_an_invalid_field_is_named_with_what_would_be_right(changes, problem):
    with pytest.raises(FileError) as refused:
        loaded(**changes)
    assert problem in str(refused.value)
    assert str(refused.value).startswith("'app.toml': ")


def test_every_field_is_tried():
    tried = {field for changes, _ in WRONG for field in changes}
    assert tried >= set(AppFile.model_fields)
    inside = {name for changes, _ in WRONG for name in changes.get("environment", ())}
    assert inside >= set(Environment.model_fields)


@pytest.mark.parametrize(
    ("hours", "text"), [(12.5, "12.5 GPU hours"), (0.5, "30 GPU minutes"), (0.0015, "5.40 GPU seconds")]
)
def test_few_gpu_hours_are_shown_in_smaller_units(hours, text):
    assert gpu_time(hours) == text


def test_all_problems_are_reported_at_once():
    with pytest.raises(FileError) as refused:
        loaded(max_steps=0, direction="up", algorithm="plain", enqueue=[{"width": 1}])
    for problem in ("max_steps 0", "direction 'up'", "trials: required", "enqueue #1.width"):
        assert problem in str(refused.value)
