"""A GPU of a host is used by one launcher at a time."""

import itertools
import os
import socket
import subprocess
import sys

import pytest

from tests.trial_agent import Agent, launch, script
from themis_agent.trial import gpu_locks
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
    assert [one.type for one in agent.events] == ["started", "log_read", "reported", "ended"]


def test_gpus_with_long_names_are_told_apart(tmp_path):
    host = "h" * 120
    locks = GpuLocks([f"{tmp_path}/{host}/{number}" for number in range(2)])
    assert locks.take()
    assert not GpuLocks([f"{tmp_path}/{host}/1"]).take()
    locks.close()


def test_locks_of_other_users_are_not_waited_for_for_ever(tmp_path, monkeypatch):
    mine, other, strange = names = [f"{tmp_path}/{number}" for number in range(3)]
    held, foreign = GpuLocks([mine]), GpuLocks([other])
    locks = GpuLocks(names)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(f"\0themis-agent/gpu/{strange}")
        assert held.take() and foreign.take()
        assert not locks.take()
        user, holder = os.getuid(), gpu_locks._holder
        assert [holder(name) for name in names] == [user, user, None]
        monkeypatch.setattr(gpu_locks, "_holder", lambda name: user + 1 if name == other else holder(name))
        assert locks.without_other_users() == (other, strange)
        assert locks.missing == (mine,)
        held.close()
        assert locks.take()
    foreign.close()
    locks.close()


def test_a_holder_of_the_same_user_is_seldom_asked_and_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_locks, "OTHER_USERS_S", 100.0)
    now, asked, holder = itertools.count(step=30.0), [], gpu_locks._holder
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    monkeypatch.setattr(gpu_locks, "_holder", lambda name: asked.append(name) or holder(name))
    held, locks = GpuLocks([str(tmp_path)]), GpuLocks([str(tmp_path)])
    assert held.take()
    waits = sum(1 for _ in itertools.islice(locks.until_held(), 10))
    assert (waits, asked) == (10, [str(tmp_path)] * 2)
    held.close()
    assert not list(locks.until_held())
    locks.close()


def test_a_launcher_goes_on_when_another_user_keeps_the_lock_of_its_gpu(tmp_path, agent, capfd):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(f"\0themis-agent/gpu/{tmp_path}/gpu")
        command = script(tmp_path, "print('step 1 loss 0.5')")
        code = "from themis_agent.trial import gpu_locks, launcher; gpu_locks.OTHER_USERS_S = 1.0; launcher.main()"
        with launch(tmp_path, command, agent, gpu_locks=[f"{tmp_path}/gpu"], code=code) as launcher:
            assert launcher.wait(30) == 0
    assert f"another user still holds the lock of GPU {tmp_path}/gpu" in capfd.readouterr().err
