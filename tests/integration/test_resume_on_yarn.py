"""Real training on a real cluster is moved to more GPUs, loses its machine, and goes on elsewhere: no step is lost, and
the losses are those of training that was never interrupted.
"""

import importlib.util
import json
import os
import shutil
import signal
import sys

import psutil
import pytest

from tests.eventually import eventually
from tests.leased.lab import Lab
from tests.resumed_steps import check_resumed, events, executed_by_epoch
from tests.searches.lab import ROOT, Submitted
from tests.trial_agent import journal, launch
from themis_agent.app_file import read
from themis_agent.trial.launch_file import read_spec

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

STEPS, INTERVAL = 160, 10
COMMAND = ["python", "-m", "themis_agent.examples.digits_jax", f"--steps={STEPS}", "--learning-rate={rate}"]


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path, lease_s=300)
    yield made
    made.close()


@pytest.mark.parametrize("checkpoints", ["kept", "deleted"])
def test_losses_agree_over_a_move_and_the_loss_of_a_machine(lab, tmp_path, checkpoints):
    """It trains on the one GPU that another application leaves; on two when that ends; on another machine when its own
    is lost. Without its checkpoints, the check fails."""
    lab.submit("other", gpus=7, work_s=100_000)
    eventually(lambda: len(lab.intervals()) == 7, "another application uses all GPUs but one")
    submitted = Submitted(lab, tmp_path / "search", digits())
    until_executed(submitted, 1, INTERVAL + 2)
    lab.finish("other")
    # Worth a move: it ends earlier by more than `move_time.ASSUMED_S`.
    until_executed(submitted, 2, INTERVAL + 3)
    if checkpoints == "deleted":
        shutil.rmtree(submitted.folder.checkpoints / "trial-00000")
    lose_machine(submitted)
    reference = alone(tmp_path / "alone")
    if checkpoints == "deleted":
        until_executed(submitted, 3, 2 * INTERVAL + 2)
        with pytest.raises(AssertionError, match="executed again"):
            check_resumed(epochs(submitted), reference, interruptions=2, interval=INTERVAL)
        return
    report = submitted.until_ended(240)
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    check_resumed(epochs(submitted), reference, interruptions=2, interval=INTERVAL)
    starts = [events(path)[0] for path in sorted(submitted.folder.logs.glob("trial-00000/epoch-*/launcher-*.jsonl"))]
    assert len({one["host"] for one in starts}) >= 2
    assert {1, 2} <= set(world_sizes(submitted))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("communication", ["planned", "plain"])
def test_planned_training_is_planned_anew_in_each_place_with_the_losses_of_plain(lab, tmp_path, communication):
    """On the two GPUs that another application leaves; on four when that ends, two on each machine; on others when a
    machine is lost. Planned or not, all losses are those of training in one process."""
    notes = tmp_path / "notes"
    notes.mkdir()
    command = ["python", "-m", "tests.torch_jobs.noted_digits", f"--notes={notes}", *COMMAND[3:]]
    lab.submit("other", gpus=6, work_s=100_000)
    eventually(lambda: len(lab.intervals()) == 6, "another application uses all GPUs but two")
    searched = digits(command, {"min": 2, "max": 4, "step": 2}, 2.0, communication=communication)
    submitted = Submitted(lab, tmp_path / "search", searched)
    for start, after in enumerate((lambda: lab.finish("other"), lambda: lose_machine(submitted), lambda: None), 1):
        until_executed(submitted, start, INTERVAL + 12)
        if communication == "planned":
            eventually(lambda start=start: len(list(notes.iterdir())) == start, f"start {start} is planned", 120)
        after()
    report = submitted.until_ended(240)
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    reference = dict(alone(tmp_path / "alone", command))
    check_resumed(epochs(submitted), list(reference.items()), interruptions=2, interval=INTERVAL)
    # Half of what planned and plain training may differ by.
    furthest = max(abs(loss - reference[step]) for start in epochs(submitted) for step, loss in start)
    print(f"{communication}: losses within {furthest:.1e} of one process; world sizes {world_sizes(submitted)}")
    assert furthest < 5e-6
    plans = [json.loads(path.read_text()) for path in sorted(notes.iterdir())]
    assert [plan["ranks"][0] for plan in plans] == ([2, 4, 4] if communication == "planned" else [])
    # Between them it may start for a moment on the GPUs that it has when the machine is lost.
    assert hosts(submitted)[1] == hosts(submitted)[-1] == 2


def hosts(submitted):
    """How many machines each start was on."""
    found = []
    for epoch in sorted(submitted.folder.logs.glob("trial-00000/epoch-*")):
        starts = [one for path in epoch.glob("launcher-*.jsonl") for one in events(path) if one["type"] == "started"]
        found.append(len({one["host"] for one in starts}))
    return found


def digits(command=COMMAND, gpus=None, step_s=1.0, **fields):
    """The search: one trial, on one or two GPUs."""
    fields = {
        "name": "digits",
        "command": [*command, f"--checkpoint-every={INTERVAL}", f"--emulated-step-ms={1000 * step_s:g}"],
        "environment": {"env": {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}},
        "space": {"rate": {"type": "float", "low": 0.01, "high": 0.2}},
        "enqueue": [{"rate": 0.1}],
        "algorithm": "plain",
        "trials": 1,
        "max_steps": STEPS,
        "step_s": step_s,
        "gpus_per_trial": gpus or {"min": 1, "max": 2},
        "grace_s": 20,
        "orphan_s": 30,
        **fields,
    }
    return read(fields, "digits")


def alone(folder, command=COMMAND):
    """The losses of the same training, never interrupted."""
    command = [word.replace("{rate}", "0.1") for word in (sys.executable, *command[1:])]
    assert launch(folder, command, env={"JAX_PLATFORMS": "cpu"}).wait(150) == 0
    return [(one["step"], one["loss"]) for one in journal(folder, 1) if one["type"] == "reported"]


def epochs(submitted):
    return [one for one in executed_by_epoch(submitted.folder.logs) if one]


def until_executed(submitted, start, steps):
    """Wait until so many steps have been executed by the start with this number."""

    def there():
        found = epochs(submitted)
        return len(found) >= start and len(found[start - 1]) >= steps

    try:
        eventually(there, f"start {start} of the trial has executed {steps} steps", 150)
    except AssertionError as problem:
        raise AssertionError(f"{problem}\n{submitted.log.read_text()[-6000:]}") from None


def lose_machine(submitted):
    """kill -9 of everything that the machine of rank 0 runs for the trial, and of its NodeManager."""
    ((_, attempt),) = submitted.state().attempts
    host = attempt.places[0].host
    os.kill(submitted.lab.cluster.daemons[f"nm-{host}"], signal.SIGKILL)
    for launcher in submitted.launchers():
        for process in (launcher, *launcher.children(recursive=True)):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


def world_sizes(submitted):
    return [
        read_spec(path).world_size for path in sorted(submitted.folder.root.glob("trials/*/epoch-*/launcher-*.json"))
    ]
