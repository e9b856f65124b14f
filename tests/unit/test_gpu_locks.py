"""A GPU of a host is used by one launcher at a time."""

import subprocess
import sys

import pytest

from tests.trial_agent import Agent, launch, script
from themis_agent.trial.gpu_locks import GpuLocks


def test_a_gpu_is_held_until_the_last_process_with_its_lock_is_gone(tmp_path):
    names = [f"{tmp_path}/{number}" for number in range(2)]
    held, others = GpuLocks(names[:1]), GpuLocks(names)
    assert held.take()
    assert not others.take()
    assert others.missing == (names[0],)
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=held.descriptors)
    held.close()
    try:
        assert not others.take()
    finally:
        sleeper.communicate(b"\n")
    assert others.take()
    assert others.missing == ()
    others.close()


@pytest.fixture
def agent():
    made = Agent()
    yield made
    made.close()


def test_a_launcher_waits_until_its_gpu_is_free(tmp_path, agent):
    held = GpuLocks([f"{tmp_path}/gpu"])
    assert held.take()
    command = script(tmp_path, "print('step 1 loss 0.5')")
    with launch(tmp_path, command, agent, gpu_locks=[f"{tmp_path}/gpu"]) as launcher:
        with agent.changed:
            assert agent.changed.wait_for(lambda: agent.batches > 3, 30)
        assert not agent.events
        held.close()
        assert launcher.wait(30) == 0
    assert [one.type for one in agent.events] == ["started", "reported", "ended"]


def test_gpus_with_long_names_are_told_apart(tmp_path):
    host = "h" * 120
    locks = GpuLocks([f"{tmp_path}/{host}/{number}" for number in range(2)])
    assert locks.take()
    assert not GpuLocks([f"{tmp_path}/{host}/1"]).take()
    locks.close()
