"""The file of a search: every invalid field is named, all at once, with what would be right."""

import tomllib
from pathlib import Path

import pytest

from themis_agent.app_file import AppFile, Environment, Side, load, read
from themis_agent.cli import cli
from themis_agent.launching import command_line
from themis_agent.validation import gpu_hours, gpu_time, plan, warnings
from yarn_plugin import console
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
    ({"metric": "a\tb"}, "metric 'a\\tb': must be a name"),
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
    ({"sampler": "cma"}, "sampler 'cma': must be 'random', 'tpe', 'gp', 'qmc' or 'grid'"),
    ({"sampler": "grid"}, "space.lr: the sampler grid needs choices, or an int; a float has too many values"),
    (
        {"sampler": "tpe", "sampler_options": {"n_startup": 3}},
        "sampler_options.n_startup: unknown key; did you mean 'n_startup_trials'?",
    ),
    ({"metrics": ["loss", 3]}, "metrics #2 3: must be a string"),
    ({"constraints": ["size < 3"]}, "constraints 'size < 3': must be a metric, <= or >=, and a number, such as"),
    ({"constraints": ["size <= 3"], "metrics": ["speed"]}, "size is not in metrics; it has speed"),
    (
        {"constraints": ["size <= 3"], "metrics": ["size"], "algorithm": "curve_stopping", "trials": 2},
        "constraints: not with curve_stopping",
    ),
    ({"trial_timeout_s": 0}, "trial_timeout_s 0: must be above 0"),
    ({"warm_start": "earlier.themis"}, "warm_start 'earlier.themis': must be a list"),
    ({"retries": -1}, "retries -1: must be at least 0"),
    ({"gpus_per_trial": {"min": 4, "max": 2}}, "gpus_per_trial: max must be at least min, 4"),
    ({"memory_mb": 1}, "memory_mb 1: must be at least 64"),
    ({"grace_s": 0}, "grace_s 0: must be above 0"),
    ({"orphan_s": -1}, "orphan_s -1: must be at least 0"),
    ({"checkpoint": "here"}, "checkpoint 'here': give a folder as file:///PATH"),
    ({"checkpoint": "hdfs:///ck"}, "checkpoint 'hdfs:///ck': give a folder as file:///PATH"),
    ({"checkpoint": "/ck"}, "checkpoint '/ck': give a folder as file:///PATH"),
    ({"keep_checkpoints": 0}, "keep_checkpoints 0: must be at least 1"),
    ({"report_timeout_s": -1}, "report_timeout_s -1: must be at least 0"),
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
    ({"command": "x '{lr}"}, 'command "x \'{lr}": No closing quotation; words are split as by a shell'),
    ({"command": "'' x"}, "command \"'' x\": must name a program"),
    ({"command": "x '{\"lr\": 1}'"}, "write braces that are not a parameter twice: {{ and }}"),
    ({"command": "x --n={layers.bits}"}, "{layers.bits} is not in [space]"),
    ({"command": "x --n={lr:d}"}, "command 'x --n={lr:d}': '--n={lr:d}' cannot be filled in: Unknown format code 'd'"),
    ({"command": "x --n={lr:{width}}"}, "{width} is not in [space]; it has layers"),
    ({"command": "{momentum} x"}, "command '{momentum} x': the program must not depend on momentum, which some trials"),
    ({"enqueue": [{"lr": 1}] * 50}, "enqueue: 50 trials, but the search has 49; leave some out"),
    (
        {"enqueue": [{"lr": 1}] * 3, "algorithm": "plain", "trials": 2},
        "enqueue: 3 trials, but the search has 2; raise trials",
    ),
    ({"enqueue": [{"lr": 2}]}, "enqueue #1.lr 2: must be a number from 0.0001 to 1.0"),
    ({"enqueue": [{"width": 2}]}, "enqueue #1.width 2: not in [space]"),
    ({"enqueue": [{"optimizer": "lion"}]}, "enqueue #1.optimizer 'lion': must be one of 'sgd', 'adam'"),
    ({"jobs": [{"name": "a", "priority": 1001}]}, "jobs.a.priority 1001: must be at most 1000"),
    ({"jobs": [{"name": "a"}, {"name": "a"}]}, "jobs #2.name 'a': another job has this name; each must have its own"),
    ({"jobs": [{"name": "a", "gpus": 2}]}, "jobs.a.gpus: unknown key; docs/training.md lists all keys"),
    ({"gpu": {"speed": 2}}, "cpu: required beside [gpu]; a search that runs on one side alone has neither"),
    ({"cpu": {}}, "gpu: required beside [cpu]"),
    ({"sharing": {"computing": 1.5, "memory": 0.2}}, "sharing.computing 1.5: must be"),
    ({"gpu": {"speed": 0}, "cpu": {}}, "gpu.speed 0: must be above 0"),
    ({"gpu": {}, "cpu": {"speed": -4}}, "cpu.speed -4: must be above 0"),
    ({"gpu": {"speed": float("nan")}, "cpu": {}}, "gpu.speed nan: must be"),
    ({"gpu": {"speed": float("inf")}, "cpu": {}}, "gpu.speed inf: must be"),
    ({"gpu": {"speed": "fast"}, "cpu": {}}, "gpu.speed 'fast': must be a number"),
    ({"gpu": {"gpus": 2}, "cpu": {}}, "gpu.gpus: unknown key; docs/training.md lists all keys"),
    ({"gpu": 1, "cpu": {}}, "gpu 1: must be"),
    ({"gpu": {}, "cpu": {"vcores": 0}}, "cpu.vcores 0: must be at least 1"),
    ({"gpu": {}, "cpu": {"memory_mb": 1}}, "cpu.memory_mb 1: must be at least 64"),
    ({"gpu": {}, "cpu": {"command": "x {depth}"}}, "cpu.command 'x {depth}': {depth} is not in [space]"),
    ({"gpu": {}, "cpu": {"env": {"A B": "x"}}}, "must be the name of an environment variable"),
    ({"gpu": {}, "cpu": {}, "gpus_per_trial": {"max": 2}}, "gpus_per_trial.max 2: must be 1 with [gpu] and [cpu]"),
    ({"gpu": {}, "cpu": {}, "jobs": [{"name": "a"}]}, "jobs: must be left out with [gpu] and [cpu]"),
    ({"population": {"quantile": 0.6}}, "population.quantile 0.6: must be at most 0.5"),
    ({"population": {"ready_steps": 0}}, "population.ready_steps 0: must be at least 1"),
    ({"population": {"perturbation": 1}}, "population.perturbation 1: must be above 1"),
    ({"population": {"resample": 2}}, "population.resample 2: must be at most 1"),
    ({"population": {"ready_steps": 3}}, "population: only with the algorithm population, not with hyperband"),
    ({"algorithm": "population"}, "trials: required by the algorithm population"),
    ({"algorithm": "population", "trials": 1}, "trials 1: must be at least 2"),
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
    sides = {name for changes, _ in WRONG for side in ("gpu", "cpu") if isinstance(changes.get(side), dict)
             for name in changes[side]}  # fmt: skip
    assert sides >= set(Side.model_fields)


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


def test_more_enqueued_trials_than_trials_are_refused():
    with pytest.raises(FileError, match="enqueue: 3 trials, but the search has 2; raise trials"):
        load(Path(__file__).parents[1] / "data" / "searches" / "enq" / "app.toml")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -c 'print(1, {lr})' --note=\"a  b\"", ["python", "-c", "print(1, 0.5)", "--note=a  b"]),
        ("sh -c 'x  \"$1\"' y\\ z", ["sh", "-c", 'x  "$1"', "y z"]),
        ("x '{{\"lr\": {lr}}}' {{}}", ["x", '{"lr": 0.5}', "{}"]),
        (["x", "a b", "'{lr:.2f}'"], ["x", "a b", "'0.50'"]),
        ("x ''", ["x", ""]),
        ("x # {lr}", ["x", "#", "0.5"]),
    ],
)
def test_a_command_is_split_as_by_a_shell_and_braces_can_be_written(command, words):
    assert command_line(loaded(command=command), {"lr": 0.5, "layers": 2, "optimizer": "adam"}, "python") == words


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        (["x", "--m", "{momentum}"], True),
        ("x --m {momentum}", True),
        ("x --m={momentum} {momentum}", False),
        ("x --m={momentum} -v --lr {lr}", False),
        ("x -m {lr}-{momentum}", True),
    ],
)
def test_an_option_without_its_value_is_warned_about(command, warned):
    found = list(warnings(loaded(command=command)))
    assert len(found) == warned
    if warned:
        assert "is left out of trials without momentum, and the word before it stays: write " in found[0]


def test_what_is_validated_is_what_is_run():
    """Rungs end at whole steps: trials report those alone."""
    app = loaded(max_steps=10, step_s=3600)
    ends = [(one.bracket, one.trials, one.until, one.steps) for one in plan(app)]
    assert ends == [
        (0, 9, 2, 18),
        (0, 3, 4, 6),
        (0, 1, 10, 6),
        (1, 5, 4, 20),
        (1, 1, 10, 6),
        (2, 3, 10, 30),
    ]
    assert gpu_hours(app, plan(app)) == 86
    halving = loaded(max_steps=10, algorithm="successive_halving", trials=9)
    assert [one.until for one in plan(halving)] == [2, 4, 10]


def test_validate_warns_and_shows_what_will_be_run(tmp_path, capsys):
    (tmp_path / "app.toml").write_text(GOOD.replace("--momentum=", "--momentum ").replace("27", "10\nstep_s = 3600"))
    assert console.run(cli, "themis-agent", ["validate", str(tmp_path / "app.toml")]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("warning: command: '{momentum}' is left out of trials without momentum")
    assert "digits: 17 trials, at most 86 steps, 86 GPU hours" in printed.out


SAVES, SAVES_NOT = "from state import save\n", "import os, state\nprint(1)\n"


@pytest.mark.parametrize(
    ("script", "module", "retrains"),
    [(SAVES_NOT, "", True), (SAVES, "import torch\n", True), (SAVES, "def save_checkpoint(): ...\n", False)],
)
def test_a_script_without_checkpoints_is_told_what_they_would_spare(tmp_path, capsys, script, module, retrains):
    (tmp_path / "app.toml").write_text(f"step_s = 3600\n{GOOD}".replace("max_steps = 27", "max_steps = 9"))
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "state.py").write_text(module)
    assert console.run(cli, "themis-agent", ["validate", str(tmp_path / "app.toml")]) == 0
    said = capsys.readouterr()
    warning = (
        "warning: train.py saves no checkpoints, so that a promoted trial trains again from step 0: at most 78 steps "
        "in place of 69; see docs/trials.md, 2. Checkpoints\n"
    )
    assert said.err == (warning if retrains else "")
    assert f"{78 if retrains else 69} GPU hours" in said.out


def test_the_patience_of_curve_stopping_is_half_of_the_steps_by_default():
    curves = {"algorithm": "curve_stopping", "trials": 2}
    assert loaded(**curves).settings().patience == 14
    assert loaded(**curves, patience=0).settings().patience == 0
    assert loaded().patience == 0
    assert loaded(**loaded(**curves, patience=0).model_dump()).patience == 0
