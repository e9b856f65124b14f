"""Trials of a search that share GPUs on a real cluster: in one container, measured, and moved where they suffer."""

import os
import signal

import pytest

from tests.eventually import eventually
from tests.leased.lab import Lab, ledger_pool
from tests.searches.lab import Submitted, app, check_progress
from themis_agent.agent.cell_names import gpu_of
from yarn_plugin.sharing import Interference, Pair, Profile
from yarn_plugin.sharing.file import write_interference

pytestmark = pytest.mark.integration

PART = {"kind": "quadratic", "computing": 0.4, "memory": 0.2}


@pytest.fixture
def lab(cluster, tmp_path):
    known = Interference({"quadratic": Profile()}, (Pair("quadratic", "quadratic", 0.05),))
    write_interference(tmp_path / "pairs.json", known)
    # Of the four GPUs of the node, two are leased: it has memory for two tasks.
    node = {"gpu_memory_mb": 16384, "task_memory_mb": 1400, "nodes": [cluster.nodes[0].host]}
    settings = {"interference": str(tmp_path / "pairs.json"), "old_weight": 0.0, "move_s": 1, "adjust_every_s": 2}
    made = Lab(cluster, tmp_path, config=ledger_pool("shared_gpus", settings, **node))
    yield made
    made.close()


def submitted(lab, folder, name, more="", steps=60):
    fields = {"algorithm": "plain", "trials": 2, "max_steps": steps, "sharing": PART}
    return Submitted(lab, folder / "search", app(name, 0.1, folder / "executed", more, **fields))


def gpus(search):
    """The trials that run on each GPU."""
    found = {}
    for trial, attempt in search.attempts():
        found.setdefault(gpu_of(attempt.cells[0]), []).append(trial.id)
    return found


def environments(search):
    return [one.environ() for one in search.trials()]


def test_two_trials_run_on_one_gpu_and_are_moved_apart_when_they_slow_each_other_down(lab, tmp_path):
    (tmp_path / "beside").mkdir()
    search = submitted(lab, tmp_path, "shared", f"--beside={tmp_path / 'beside'}", steps=150)
    eventually(lambda: len(search.trials()) == 2, "two trials run", 90)
    together = environments(search)
    (devices,) = {one["CUDA_VISIBLE_DEVICES"] for one in together}
    assert devices, "both see the GPU"
    assert {one["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for one in together} == {"40"}
    assert len({one["CONTAINER_ID"] for one in together}) == 1, "YARN gives the GPU to one container"
    eventually(lambda: len(gpus(search)) == 2, "one was moved to another GPU", 60)
    report = search.until_ended()
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    state = search.state()
    assert {trial.fate for trial in state.trials.values()} == {"complete"}
    assert sorted(trial.epoch for trial in state.trials.values()) == [1, 2]
    check_progress(search, interruptions=1)


@pytest.mark.matrix
def test_a_host_is_adopted_by_the_next_master_and_lost_with_its_container(lab, tmp_path):
    search = submitted(lab, tmp_path, "adopted", steps=100)
    search.until_steps(2, 5, 90)
    running = {one.pid for one in search.launchers()}
    search.kill_master()
    search.until_steps(2, 15)
    assert running == {one.pid for one in search.launchers()}
    (host, *_) = search.processes("themis_agent.trial.host")
    os.kill(host.pid, signal.SIGKILL)
    report = search.until_ended()
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    check_progress(search, interruptions=2)
