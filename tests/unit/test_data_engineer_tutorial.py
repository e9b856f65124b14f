"""The tutorial for data engineers runs as printed, and prints what it says."""

import subprocess

import pytest

from tests.unit.test_machine_learner_tutorial import LIMIT_S, ROOT, blocks, environment, has_line

TUTORIAL = ROOT / "docs/tutorial-data-engineer.md"


def printed_by(commands, place):
    done = subprocess.run(
        ["bash", "-e"],
        input=commands,
        cwd=place,
        env={**environment(), "XDG_STATE_HOME": str(place / "state"), "XDG_DATA_HOME": str(place / "data")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def run_steps(steps, place):
    for (_, commands), (_, printed) in zip(steps[::2], steps[1::2], strict=True):
        said = printed_by(commands, place)
        missing = [line for line in printed.splitlines() if not has_line(said, line)]
        assert not missing, said


def test_the_steps_without_spark_run_as_printed(tmp_path):
    steps = blocks(TUTORIAL)
    assert [language for language, _ in steps] == ["bash", "text"] * 4
    run_steps(steps[:4], tmp_path)


@pytest.mark.matrix
@pytest.mark.timeout(LIMIT_S)
def test_the_tutorial_runs_as_printed(tmp_path):
    run_steps(blocks(TUTORIAL), tmp_path)
    assert "Estimate" not in (tmp_path / "cities.html").read_text(), "it ran as written"
