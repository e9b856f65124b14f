"""Python functions as the command of a search: packed, called in processes of their own, and refused in one line."""

import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import themis_agent
from tests.agent_world import Search
from themis_agent import functions, notebooks, space, study
from themis_agent.local.folder import Folder
from themis_agent.submitting import client, recent
from themis_agent.trial import report, save_checkpoint
from themis_agent.trial.function import packed_name
from yarn_plugin.errors import BadInputError

ROOT = Path(__file__).parents[2]
SPACE = {"x": space.integer(1, 9)}

PROGRAM = """
import themis_agent, shapes
from themis_agent import space
from themis_agent.trial import report

SCALE = {scale}

def train(parameters):
    for step in range(1, 4):
        report(step, SCALE * shapes.square(parameters["x"]) / step)

if __name__ == "__main__":
    found = themis_agent.run(train, space={{"x": space.choice(1, 2)}}, enqueue=[{{"x": 2}}, {{"x": 1}}],
                             algorithm="plain", trials=2, max_steps=3, gpus=2)
    print(found)
"""


def run_program(folder, scale=1.0):
    (folder / "shapes.py").write_text("def square(x):\n    return x * x\n")
    (folder / "search.py").write_text(PROGRAM.format(scale=scale))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "search.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_function_is_searched_with_its_modules_and_goes_on_from_another_process(tmp_path):
    first = run_program(tmp_path)
    assert first.stdout.splitlines() == ["train: all trials have ended", "best: trial-00001, loss 0.3333 with x = 1"]
    # Another process packs the same function, which is seen; and a changed one.
    again = run_program(tmp_path)
    assert again.stdout == first.stdout
    assert "running" not in again.stderr
    changed = run_program(tmp_path, scale=2.0)
    assert "holds a search with another function (train has changed); --replace removes" in changed.stderr

    found = study.read(Folder(tmp_path / "train.themis"))
    assert [row["x"] for row in found.table()] == [1, 2]
    assert found.parameters == {"x": 1}
    assert found.optuna().best_params == {"x": 1}
    assert found.optuna().trials[0].intermediate_values == {1: 4.0, 2: 2.0, 3: pytest.approx(4 / 3)}
    assert "<td>trial-00001</td>" in found._repr_html_()
    assert found.report(tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def called(packed, folder, parameters, **environment):
    packed.write(folder)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    given = {"PYTHONPATH": path, "THEMIS_PARAMETERS": json.dumps(parameters), "THEMIS_MAX_STEPS": "7"}
    return subprocess.run(
        [sys.executable, packed.file],
        cwd=folder,
        env={**os.environ, **given, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_function_that_saves_checkpoints_and_returns_its_metric(tmp_path):
    pipe = tmp_path / "reports"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)

    def train(parameters):
        report(3, 0.5)
        with save_checkpoint(3) as folder:
            (folder / "x").write_text(str(parameters["x"]))
        return parameters["x"] / 4

    done = called(functions.pack(train), tmp_path, {"x": 1}, THEMIS_TRIAL_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in os.read(reader, 4096).decode().splitlines()]
    os.close(reader)
    assert [(one["step"], one["loss"]) for one in said] == [(3, 0.5), (7, 0.25)]
    assert (tmp_path / "checkpoints/step-3/x").read_text() == "1"


def test_the_error_of_a_function_is_the_last_line_of_its_log(tmp_path):
    def train(parameters):
        raise ValueError(f"x is {parameters['x']}")

    done = called(functions.pack(train), tmp_path, {"x": 3})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: x is 3"


def test_another_python_says_so_in_one_line(tmp_path):
    packed = functions.pack(lambda parameters: 1.0)
    path = packed.write(tmp_path)
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in kept.items():
            archive.writestr(name, content.replace(b"[3, ", b"[2, ") if name == "about.json" else content)
    done = called(packed, tmp_path, {})
    assert done.stderr.count("\n") == 1
    assert "was packed by Python 2." in done.stderr
    assert "set environment.python" in done.stderr


def uses(value):
    def train(parameters):
        return value

    return train


def made_by(text):
    found = {}
    exec(text, found)
    return found["train"]


def test_a_digest_is_of_what_a_function_does():
    body = "def train(p):\n    return {0} in {{'a', 'b'}} and {1}\nLIMIT = {2}"
    one = functions.pack(made_by(body.format("p", "LIMIT", 1)))
    assert functions.pack(made_by("\n\n" + body.format("p", "LIMIT", 1))).digest == one.digest
    assert functions.pack(made_by(body.format("p", "LIMIT", 2))).digest != one.digest
    assert functions.pack(made_by(body.format("p", "1", 1))).digest != one.digest
    assert functions.pack(uses([1])).digest == functions.pack(uses([1])).digest
    assert functions.pack(uses([1])).digest != functions.pack(uses([2])).digest
    assert packed_name(["python", f"/a/{one.file}"]) == "train"
    assert packed_name(["python", "train.py"]) is None


def test_what_cannot_travel_is_said_in_one_line(tmp_path):
    lock, journal = threading.Lock(), (tmp_path / "open").open("w")
    with journal:
        refused = {
            "uses 'value', which cannot travel to trials (cannot pickle '_thread.lock' object); make it inside": lock,
            "uses 'value', which cannot travel to trials (cannot pickle files that are not opened for reading": journal,
        }
        for expected, value in refused.items():
            with pytest.raises(BadInputError, match="function 'train'") as problem:
                functions.pack(uses(value))
            assert expected in str(problem.value)
            assert "\n" not in str(problem.value)


def test_a_function_takes_the_parameters_and_trains_when_it_is_called(monkeypatch):
    def generator(parameters):
        yield 1

    with pytest.raises(BadInputError, match="must take one argument, the parameters of the trial as a dictionary"):
        functions.pack(lambda: 1.0)
    with pytest.raises(BadInputError, match="must take one argument"):
        functions.pack(lambda parameters, more: 1.0)
    with pytest.raises(BadInputError, match="is a generator; must be a function that trains when it is called"):
        functions.pack(generator)
    monkeypatch.setattr(functions, "MAX_BYTES", 1000)
    with pytest.raises(BadInputError, match="read large data inside the function, from a file"):
        functions.pack(uses(bytes(2000)))


def test_a_function_that_is_submitted_is_a_file_of_the_search(tmp_path, monkeypatch):
    monkeypatch.setattr(recent, "user_state_path", lambda *_, **__: tmp_path)
    submitted = []
    monkeypatch.setattr(client, "submit", lambda app, directory, access, note, replaces: submitted.append(app))
    themis_agent.submit(
        uses(1.0), space=SPACE, checkpoint=tmp_path.as_uri(), rm="http://rm:8088", arbiter="http://a:1", trials=3
    )
    (app,) = submitted
    (archive,) = map(Path, app.environment.files)
    assert archive.is_file()
    assert app.words == ("python", archive.name)
    assert (app.name, app.algorithm, app.trials, app.max_steps) == ("train", "plain", 3, 1)


def test_a_notebook_shows_a_table_that_is_drawn_again(monkeypatch):
    assert notebooks.live_table("train", "loss") is None
    drawn = []
    handle = SimpleNamespace(update=drawn.append)
    display = SimpleNamespace(HTML=str, display=lambda value, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    world = Search()
    draw = notebooks.live_table("train", "loss")
    draw(world.state)
    assert "<td>trial-00000</td><td>running</td>" in drawn[-1]
    assert "<th>loss</th>" in drawn[-1]
