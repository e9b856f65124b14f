"""A trial whose processes are killed again and again, at any moment: nothing that was committed is executed again."""

import os
import random
import shutil
import signal
import time

import psutil
import pytest

from tests.trial_agent import journal, launch, script

TRAINING = """
import os, time
from themis_agent.trial import newest_checkpoint, report, save_checkpoint
newest = newest_checkpoint()
step = int(newest.joinpath("a/step").read_text()) if newest else 0
while True:
    step += 1
    if os.environ["RANK"] == "0":
        report(step, 1 / step)
        if step % 3 == 0:
            with save_checkpoint(step) as directory:
                directory.joinpath("a").mkdir()
                directory.joinpath("a/step").write_text(str(step))
                directory.joinpath("weights").write_bytes(b"%d" % step * 100_000)
    time.sleep(0.01)
"""
MASTER = {"host": "localhost", "port": 1}


def processes_of(launchers):
    """Each launcher's two processes and the training processes, as far as they have begun."""
    found = []
    for one in launchers:
        try:
            found += [psutil.Process(one.pid), *psutil.Process(one.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return found


def told(folder, epoch, kind):
    path = folder / f"logs/t1/epoch-{epoch:06}/launcher-0.jsonl"
    return [one for one in journal(folder, epoch) if one["type"] == kind] if path.exists() else []


def wait_for_commit(folder, epoch):
    deadline = time.monotonic() + 60
    while not told(folder, epoch, "checkpointed"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(1, 12))])
def test_killed_at_any_moment(tmp_path, seed):
    """Two launchers, as on two hosts. One process of theirs is killed, then both launchers are stopped or killed
    too.
    """
    chance, store, command = random.Random(seed), tmp_path / "store", script(tmp_path / "script", TRAINING)
    store.mkdir()
    everything, committed, next_step = [], 0, 1
    for epoch in range(1, 5):
        launchers = [
            launch(
                tmp_path / f"host-{rank}",
                command,
                epoch=epoch,
                ranks=[rank],
                world_size=2,
                master=MASTER,
                grace_s=1.0,
                checkpoint={"directory": str(tmp_path / f"host-{rank}/checkpoints-{epoch}"), "url": store.as_uri()},
            )
            for rank in (0, 1)
        ]
        if epoch % 2:
            wait_for_commit(tmp_path / "host-0", epoch)
        time.sleep(chance.uniform(0, 1.0 if epoch % 2 else 2.5))
        processes = processes_of(launchers)
        everything += processes
        victim = chance.choice(processes)
        if victim.is_running():
            os.kill(victim.pid, signal.SIGKILL)
        time.sleep(chance.choice([0, 0.2]))
        for one in launchers:
            one.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        folder = tmp_path / "host-0"
        for one in launchers:
            one.wait(30)
        steps = [event["step"] for event in told(folder, epoch, "reported")]
        if steps:
            # From what was committed, or a little later: the commit may not have been journaled any more.
            assert committed < steps[0] <= next_step
            assert (steps[0] - 1) % 3 == 0
            assert steps == list(range(steps[0], steps[0] + len(steps)))
            next_step = max(next_step, steps[-1] + 1)
        committed = max([committed, *(event["step"] for event in told(folder, epoch, "checkpointed"))])
    _, alive = psutil.wait_procs(everything, 10)
    assert alive == []
    assert committed > 0
    shutil.rmtree(store)
