"""The first program on a node: it says which interpreter is wrong, and waits for the submission of its application."""

import http.client
import io
import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import themis_agent.yarn.start as start
from themis_agent.trial.gang import SCRIPT_PATH, script_path

HERE = (sys.implementation.cache_tag, platform.machine())


def started(*words, **environment):
    command = [sys.executable, start.__file__, *words]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False
    )


def test_another_interpreter_or_machine_is_one_line():
    for other in (("cpython-399", HERE[1]), (HERE[0], "riscv")):
        done = started(*other, "this")
        assert done.returncode == 1
        assert f"the search was submitted with {other[0]} for {other[1]}" in done.stderr
        assert done.stderr.count("\n") == 1


def test_it_becomes_the_module():
    assert started(*HERE, "platform").stdout.strip() == platform.platform()


def test_files_of_the_search_do_not_take_the_place_of_modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "platform.py").write_text("print('of the search')")
    assert started(*HERE, "platform").stdout.strip() == platform.platform()


def test_it_waits_for_the_submission_of_its_own_application(tmp_path):
    written = tmp_path / "submission.json"
    written.write_text(json.dumps({"yarn_app": "application_17_0001"}))
    timer = threading.Timer(1.5, written.write_text, [json.dumps({"yarn_app": "application_17_0002"})])
    timer.start()
    command = "import json, sys; print(json.load(open(sys.argv[1] + '/submission.json'))['yarn_app'])"
    module = tmp_path / "shows.py"
    module.write_text(command)
    container = "container_e05_17_0002_01_000001"
    done = started(
        "--submission", str(tmp_path), *HERE, "shows", str(tmp_path), CONTAINER_ID=container, PYTHONPATH=str(tmp_path)
    )
    assert done.stdout.strip() == "application_17_0002", done.stderr


def test_an_answer_that_breaks_off_is_asked_for_again(monkeypatch):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise http.client.IncompleteRead(b"{")

    answers = [io.BytesIO(b'{"yarn_app": "application_17_0002"}'), Broken()]
    monkeypatch.setattr(start, "_opened", lambda folder: answers.pop())
    monkeypatch.setenv("CONTAINER_ID", "container_e05_17_0002_01_000001")
    assert start._is_complete("webhdfs://host:1/folder")


def test_without_one_it_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "COMPLETE_WITHIN_S", 0.1)
    assert start.main(["--submission", str(tmp_path), *HERE, "x"]) == (
        f"{tmp_path}: the submission was not completed within 0.1 s"
    )


def test_training_scripts_do_not_find_the_staged_packages():
    ours = {"PYTHONPATH": "code:packages", SCRIPT_PATH: "code"}
    assert script_path(ours, {}) == {"PYTHONPATH": "code"}
    assert script_path(ours, {"PYTHONPATH": "mine"}) == {"PYTHONPATH": "mine:code"}
    assert script_path({"PYTHONPATH": "all"}, {"PYTHONPATH": "mine"}) == {}


def test_it_uses_nothing_but_the_standard_library():
    lines = Path(start.__file__).read_text().splitlines()
    imported = {line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert imported <= set(sys.stdlib_module_names)
