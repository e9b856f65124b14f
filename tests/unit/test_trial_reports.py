"""What a script tells its launcher, however wrong, neither ends the launcher nor reaches the agent."""

import json
import os
import types

import pytest

from themis_agent.trial.launcher import Launcher
from themis_agent.trial.reading.reader import LogReader
from themis_agent.trial.run import Run
from themis_agent.trial.wire import LaunchSpec

HUGE = "9" * 400


@pytest.fixture
def launcher(tmp_path):
    spec = LaunchSpec(
        trial="t1",
        epoch=1,
        command=["true"],
        ranks=[0],
        world_size=1,
        checkpoint={"directory": str(tmp_path / "checkpoints")},
        log_directory=str(tmp_path / "logs"),
    )
    alive, other = os.pipe()
    launcher = Launcher(spec, alive)
    yield launcher
    launcher.end("exited", None, [])
    for end in (alive, other, launcher.woken, launcher._waking):
        os.close(end)


def told(tmp_path):
    journal = (tmp_path / "logs/t1/epoch-000001/launcher-0.jsonl").read_text()
    return [json.loads(line) for line in journal.splitlines()]


def report(step="1", loss="0.5", at="1.0"):
    return f'{{"rank": 0, "step": {step}, "loss": {loss}, "at": {at}}}'


@pytest.mark.parametrize(
    "line",
    [
        *(report(step=step) for step in ("Infinity", "NaN", HUGE, "1e400", "-1", str(10**12))),
        report(loss=HUGE),
        *(report(at=at) for at in ("Infinity", "NaN", HUGE)),
        "[" * 4000,
        "[]",
    ],
)
def test_reports_out_of_range_are_ignored(tmp_path, launcher, line):
    launcher.note_report(line)
    launcher.note_report(report(step="7"))
    assert [one["step"] for one in told(tmp_path)] == [7]


def test_times_out_of_range_measure_nothing(tmp_path, launcher):
    for step in range(8):
        launcher.note_report(report(step=str(step), at=f"{'-' if step % 2 else ''}1.7e308"))
    assert {one["type"] for one in told(tmp_path)} == {"reported"}


@pytest.mark.parametrize("step", [HUGE, str(10**12)])
def test_log_lines_with_steps_out_of_range_are_ignored(tmp_path, launcher, step):
    for line in ("step 1 loss 0.5", f"step {step} loss 0.25", f"step {step}", "step 2 loss 0.125"):
        launcher.note_line(line)
    reported = [one for one in told(tmp_path) if one["type"] == "reported"]
    assert [(one["step"], one["loss"]) for one in reported] == [(1, 0.5), (2, 0.125)]


def test_a_report_without_end_is_not_kept(tmp_path, launcher):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    run = Run(launcher, types.SimpleNamespace(members=[]), reading, tmp_path)
    os.write(writing, report(step="1").encode()[:-1] + b" " * 60_000)
    run._read_reports()
    os.write(writing, f"}}\n{report(step='2')}\n".encode())
    run._read_reports()
    run._selector.close()
    for end in (reading, writing):
        os.close(end)
    assert [one["step"] for one in told(tmp_path)] == [2]


def test_further_metrics_are_told_with_a_step_if_they_are_numbers(launcher, tmp_path):
    launcher.note_report('{"rank": 0, "step": 1, "loss": 0.5, "at": 1.0, "metrics": {"accuracy": 0.9, "time": NaN}}')
    launcher.note_report('{"rank": 0, "step": 2, "loss": 0.5, "at": 1.0, "metrics": 3}')
    launcher.note_report('{"rank": 0, "step": 3, "loss": 0.5, "at": 1.0}')
    reported = [one for one in told(tmp_path) if one["type"] == "reported"]
    assert [(one["step"], one["metrics"]) for one in reported] == [(1, {"accuracy": 0.9}), (3, {})]


def test_further_metrics_are_read_from_logs(launcher, tmp_path):
    launcher._other_readers = {"accuracy": LogReader("accuracy", None, None, {})}
    launcher.note_line("step 1 loss=0.5 accuracy=0.9")
    launcher.note_line("step 2 loss=0.4 accuracy=0.95")
    reported = [one for one in told(tmp_path) if one["type"] == "reported"]
    assert [one["metrics"] for one in reported] == [{"accuracy": 0.9}, {"accuracy": 0.95}]
