"""A search whose store is in a real HDFS: submitted to YARN by its URL, with nothing of it on a shared file system."""

import getpass
import json
import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from tests.eventually import eventually
from tests.hdfs_daemons import Hdfs
from tests.leased.lab import Lab
from tests.searches.lab import TRAIN, app
from themis_agent.local import stored_folder
from themis_agent.submitting import client
from themis_agent.submitting.search import state_of

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

STEPS = 40


@pytest.fixture
def hdfs(tmp_path):
    made = Hdfs(tmp_path / "hdfs")
    yield made
    made.close()


@pytest.fixture
def lab(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Lab(cluster, tmp_path, lease_s=60)
    yield made
    made.close()


def process_of(module, search):
    """The first process of a search that runs a module of ours."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if module in words and any(word.startswith(search.place) for word in words):
            return process
    return None


def themis_agent(*words):
    command = [sys.executable, "-c", "from themis_agent.cli import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_search_in_hdfs_outlives_its_containers_and_its_best_is_exported(lab, hdfs, tmp_path):
    store, executed = hdfs.store("/user/me/searches"), tmp_path / "executed"
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(TRAIN, home)
    searched = app("in-hdfs", 0.5, executed, algorithm="plain", trials=2, max_steps=STEPS)
    given = {
        "command": " ".join(searched.words).replace(str(TRAIN), TRAIN.name),
        "environment": {"files": [TRAIN.name], "python": sys.executable},
        "checkpoint": store.url,
        "memory_mb": 1400,
    }
    searched = type(searched).model_validate({**searched.model_dump(), **given})
    token = tmp_path / "token"
    token.write_text(lab.arbiter.admin().issue_token(getpass.getuser()).token)
    search = client.submit(searched, home, client.Access(lab.cluster.rm_url, lab.arbiter.url, token), print)
    shutil.rmtree(home)

    def steps(at_least):
        state = state_of(search.folder)
        return state and len(state.trials) == 2 and min(one.step for one in state.trials.values()) >= at_least

    eventually(lambda: steps(3), "trials train", 150)
    os.kill(process_of("themis_agent.trial.launcher", search).pid, signal.SIGKILL)
    os.kill(process_of("themis_agent.yarn.main", search).pid, signal.SIGKILL)
    mine = hdfs.store("/user/me/searches/in-hdfs")
    eventually(lambda: (stored_folder.newest_journal(mine) or "").startswith("journal/000002/"), "it goes on", 90)
    eventually(lambda: steps(12), "trials train on", 90)
    hdfs.kill("nn")
    hdfs.start("nn")
    result = search.wait(240)
    assert result.succeeded, result.reason
    assert result.step == STEPS
    done = {}
    for line in executed.read_text().splitlines():
        rate, step, _ = json.loads(line)
        done.setdefault(rate, []).append(step)
    assert len(done) == 2 and all(sorted(set(one)) == list(range(1, STEPS + 1)) for one in done.values())
    assert sum(map(len, done.values())) < 3 * STEPS, "trials went on from their checkpoints"
    themis_agent("best", search.place, "--export", tmp_path / "best")
    assert json.loads((tmp_path / "best" / f"step-{STEPS}" / "state.json").read_text())["step"] == STEPS
    assert "== start 1" in themis_agent("logs", search.place, result.best)
    assert "all trials have ended" in themis_agent("why", search.place)
    store.remove("in-hdfs")
    assert [name for name in store.names("") if not name.startswith(".staging")] == []
