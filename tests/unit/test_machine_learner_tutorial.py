"""The tutorial for machine learners runs as printed, and prints what it says; so does the comparison."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL, BESIDE = ROOT / "docs/tutorial-machine-learner.md", ROOT / "docs/beside-optuna-and-ray-tune.md"

LIMIT_S = 500


def environment():
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": path, "PATH": programs}


def blocks(page):
    """(language, text) of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def has_line(said, line):
    pattern = r".*".join(map(re.escape, line.split("...")))
    return any(re.match(pattern, one) for one in said.splitlines())


@pytest.mark.matrix
@pytest.mark.timeout(LIMIT_S)
def test_the_tutorial_runs_as_printed(tmp_path):
    steps = blocks(TUTORIAL)
    assert [language for language, _ in steps] == ["bash", "text"] * 5
    for (_, commands), (_, printed) in zip(steps[::2], steps[1::2], strict=True):
        done = subprocess.run(
            ["bash", "-e"],
            input=commands,
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        missing = [line for line in printed.splitlines() if not has_line(said, line)]
        assert not missing, said
    assert "The best loss so far" in (tmp_path / "both.html").read_text()


def compared(folder):
    """Write the programs of the comparison; returns the lines of each, and what they print."""
    found = blocks(BESIDE)
    for language, text in found:
        if language == "python":
            (folder / text.partition("\n")[0].removeprefix("# ")).write_text(text)
    (expected,) = [text for language, text in found if language == "text"]
    texts = {path.name: path.read_text().splitlines() for path in sorted(folder.glob("with_*.py"))}
    return {name: sum(not line.startswith("#") for line in text if line) for name, text in texts.items()}, expected


def test_the_same_grid_has_the_same_best_trial_beside_optuna(tmp_path):
    lines, expected = compared(tmp_path)
    for program in ("with_themis.py", "with_optuna.py"):
        done = subprocess.run(
            [sys.executable, program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.stdout == expected, done.stderr
    told = re.search(r"^\| lines \| (\d+) \| (\d+) \| (\d+) \|$", BESIDE.read_text(), re.MULTILINE)
    assert [lines[f"with_{name}.py"] for name in ("themis", "optuna", "ray")] == list(map(int, told.groups()))


RAY_PYTHON = os.environ.get("RAY_PYTHON", "")


@pytest.mark.matrix
@pytest.mark.skipif(not RAY_PYTHON, reason="needs Ray Tune: RAY_PYTHON, a Python that has it")
def test_the_same_grid_has_the_same_best_trial_beside_ray_tune(tmp_path):
    _, expected = compared(tmp_path)
    own = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [RAY_PYTHON, "with_ray.py"], cwd=tmp_path, env=own, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.stdout.splitlines()[-1] == expected.strip(), done.stderr
