"""Real training is interrupted and goes on: every step was executed, none lost, with the same losses at any world
size.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.resumed_steps import check_resumed, executed_by_epoch
from tests.trial_agent import ROOT, Agent, journal, launch

STEPS, INTERVAL = 40, 10


def executed(folder, epoch):
    """The steps that a launcher has journaled, with their losses, in order."""
    return [(one["step"], one["loss"]) for one in journal(folder, epoch) if one["type"] == "reported"]


@pytest.mark.parametrize("example", ["digits_jax", "digits_torch"])
def test_losses_agree_over_a_kill_and_another_world_size(tmp_path, example):
    if example == "digits_torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    agent, started = Agent(), []
    store = tmp_path / "store"
    store.mkdir()
    shared = store.as_uri()

    def train(folder, epoch, ranks, steps=STEPS, url=shared, step_ms=0):
        command = [sys.executable, "-m", f"themis_agent.examples.{example}", "--steps", str(steps)]
        started.append(
            launch(
                tmp_path / folder,
                [*command, "--checkpoint-every", str(INTERVAL), "--emulated-step-ms", str(step_ms)],
                agent if folder == "interrupted" else None,
                epoch=epoch,
                ranks=ranks,
                world_size=len(ranks),
                checkpoint={"directory": str(tmp_path / folder / f"checkpoints-{epoch}"), "url": url},
                env={"JAX_PLATFORMS": "cpu"},
            )
        )
        return started[-1]

    try:
        alone = train("reference", 1, [0], url=None)
        first = train("interrupted", 1, [0], step_ms=100)
        agent.wait_for("checkpointed", timeout=150)
        agent.wait_for("reported", INTERVAL + 3)
        os.kill(first.pid, signal.SIGKILL)
        second = train("interrupted", 2, [0, 1])
        assert second.wait(150) == alone.wait(150) == 0
        reference = executed(tmp_path / "reference", 1)
        epochs = [executed(tmp_path / "interrupted", epoch) for epoch in (1, 2)]
        assert INTERVAL < len(epochs[0]) < STEPS
        assert epochs[1][0][0] > INTERVAL
        check_resumed(epochs, reference, interruptions=1, interval=INTERVAL)

        # The check detects lost checkpoints.
        shutil.rmtree(store / "t1")
        assert train("interrupted", 3, [0], steps=INTERVAL + 2).wait(150) == 0
        with pytest.raises(AssertionError, match="executed again"):
            check_resumed(
                [epochs[0], executed(tmp_path / "interrupted", 3)], reference, interruptions=1, interval=INTERVAL
            )
    finally:
        for process in started:
            process.kill()
            process.wait()
        agent.close()


SEARCH = """
name = "digits"
command = [
    "python", "-m", "themis_agent.examples.digits_jax", "--steps={steps}", "--checkpoint-every={interval}",
    "--learning-rate={{rate}}", "--emulated-step-ms=300",
]
algorithm = "successive_halving"
trials = 2
eta = 2
max_steps = {steps}
gpus_per_trial = {{ max = 2 }}
enqueue = [{{ rate = 0.1 }}, {{ rate = 0.0001 }}]
[space]
rate = {{ type = "float", low = 0.0001, high = 0.1 }}
[environment]
env = {{ JAX_PLATFORMS = "cpu", PYTHONPATH = "{path}" }}
"""


def search(folder):
    command = [sys.executable, "-c", "from themis_agent.cli import main; main()", "run", "--local", "app.toml"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [*command, "--gpus", "2", "--state", "state"], cwd=folder, env={**os.environ, "PYTHONPATH": path}
    )


def steps_of_best(folder):
    """The steps of the first trial with their losses, start by start."""
    return executed_by_epoch(folder / "state/logs")


@pytest.mark.matrix
@pytest.mark.parametrize("checkpoints", ["kept", "deleted"])
def test_a_search_loses_no_step_over_a_promotion_and_a_kill(tmp_path, checkpoints):
    """Its best trial trains on one GPU, is promoted to two, and its launcher is killed there."""
    text = SEARCH.format(steps=2 * STEPS, interval=INTERVAL, path=ROOT)
    (tmp_path / "app.toml").write_text(text)
    agent = search(tmp_path)
    try:
        # The second rung begins at half of the steps; so far in it, a checkpoint of it is stored, and much is left.
        until(lambda: any(step > STEPS + 12 for one in steps_of_best(tmp_path) for step, _ in one), agent)
        if checkpoints == "deleted":
            shutil.rmtree(tmp_path / "state/checkpoints/trial-00000")
        for process in psutil.Process(agent.pid).children():
            process.kill()
        assert agent.wait(150) == 0
    finally:
        agent.kill()
        agent.wait()
    sizes = [json.loads(one.read_text())["world_size"] for one in sorted(tmp_path.glob("state/trials/*0/*/spec.json"))]
    # Promoted, it trains on if the other trial was there first; after the kill, both GPUs are free.
    assert (sizes[0], sizes[-1]) == (1, 2)
    launched = launch(
        tmp_path / "alone",
        [sys.executable, "-m", "themis_agent.examples.digits_jax", "--steps", str(2 * STEPS), "--learning-rate", "0.1"],
        env={"JAX_PLATFORMS": "cpu"},
    )
    assert launched.wait(150) == 0
    reference = executed(tmp_path / "alone", 1)
    if checkpoints == "kept":
        check_resumed(steps_of_best(tmp_path), reference, interruptions=2, interval=INTERVAL)
    else:
        with pytest.raises(AssertionError, match="executed again"):
            check_resumed(steps_of_best(tmp_path), reference, interruptions=2, interval=INTERVAL)


def until(condition, agent):
    deadline = time.monotonic() + 150
    while not condition():
        assert agent.poll() is None, "the search has ended"
        assert time.monotonic() < deadline
        time.sleep(0.1)
