"""A trial on a real GPU, where there is one, trains, is killed and goes on as it would on a CPU."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.resumed_steps import check_resumed, executed_by_epoch
from tests.trial_agent import Agent, launch

STEPS, INTERVAL = 40, 10


def missing():
    """Why JAX cannot train on a GPU here; "": it can."""
    if shutil.which("nvidia-smi") is None:
        return "needs a GPU: there is no nvidia-smi"
    tried = subprocess.run(
        [sys.executable, "-c", "import jax; jax.devices()"],
        env={**os.environ, "JAX_PLATFORMS": "cuda"},
        capture_output=True,
        check=False,
    )
    return "needs a GPU that JAX can use: pip install '.[cuda]'" if tried.returncode else ""


def test_a_trial_resumes_on_a_gpu_with_the_losses_of_a_cpu(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    agent, started = Agent(), []
    (tmp_path / "store").mkdir()

    def train(folder, platform, epoch=1, step_ms=0):
        command = [sys.executable, "-m", "themis_agent.examples.digits_jax", "--steps", str(STEPS)]
        checkpoints = {"directory": str(tmp_path / folder / f"checkpoints-{epoch}")}
        started.append(
            launch(
                tmp_path / folder,
                [*command, "--checkpoint-every", str(INTERVAL), "--emulated-step-ms", str(step_ms)],
                agent if platform == "cuda" else None,
                epoch=epoch,
                devices=["0"] if platform == "cuda" else [],
                checkpoint={**checkpoints, "url": (tmp_path / "store").as_uri() if platform == "cuda" else None},
                env={"JAX_PLATFORMS": platform, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
            )
        )
        return started[-1]

    try:
        alone, first = train("reference", "cpu"), train("on_gpu", "cuda", step_ms=100)
        agent.wait_for("checkpointed", timeout=150)
        agent.wait_for("reported", INTERVAL + 3)
        os.kill(first.pid, signal.SIGKILL)
        assert train("on_gpu", "cuda", epoch=2).wait(150) == alone.wait(150) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()
        agent.close()
    (reference,) = executed_by_epoch(tmp_path / "reference/logs", "t1")
    epochs = executed_by_epoch(tmp_path / "on_gpu/logs", "t1")
    assert INTERVAL < len(epochs[0]) < STEPS
    check_resumed(epochs, reference, interruptions=1, interval=INTERVAL)
