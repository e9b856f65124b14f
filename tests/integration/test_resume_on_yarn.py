"""Real training on a real cluster is moved to more GPUs, loses its machine, and goes on elsewhere: no step is lost, and
the losses are those of training that was never interrupted.
"""

import os
import shutil
import signal
import sys

import psutil
import pytest

from tests.integration.sleepers import eventually
from tests.leased.lab import Lab
from tests.resumed_steps import check_resumed, events, executed_by_epoch
from tests.searches.lab import ROOT, Submitted
from tests.trial_agent import journal, launch
from themis_agent.app_file import read
from themis_agent.trial.launcher import read_spec

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


def digits():
    """The search: one trial, on one or two GPUs."""
    fields = {
        "name": "digits",
        "command": [*COMMAND, f"--checkpoint-every={INTERVAL}", "--emulated-step-ms=1000"],
        "environment": {"env": {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}},
        "space": {"rate": {"type": "float", "low": 0.01, "high": 0.2}},
        "enqueue": [{"rate": 0.1}],
        "algorithm": "plain",
        "trials": 1,
        "max_steps": STEPS,
        "step_s": 1.0,
        "gpus_per_trial": {"min": 1, "max": 2},
        "grace_s": 20,
        "orphan_s": 30,
    }
    return read(fields, "digits")


def alone(folder):
    """The losses of the same training, never interrupted."""
    command = [word.replace("{rate}", "0.1") for word in (sys.executable, *COMMAND[1:])]
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
