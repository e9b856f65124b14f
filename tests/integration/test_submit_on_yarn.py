"""A search submitted from an environment that is gone soon after: what runs on the nodes needs nothing of it."""

import contextlib
import getpass
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest

import themis_agent
from tests.eventually import eventually
from tests.leased.lab import Lab
from themis_agent.local.folder import Folder
from themis_agent.space import choice
from themis_agent.submitting import applications, packages, recent
from themis_agent.submitting.search import Search, state_of
from themis_agent.yarn import submission
from yarn_plugin.observe.resource_manager import ResourceManager

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

APP = """
name = "thrown-away"
command = "python train.py {rate}"
algorithm = "successive_halving"
trials = 4
eta = 2
max_steps = 32
grace_s = 5
memory_mb = 1400
checkpoint = "{store}"
[space]
rate = { type = "float", low = 0.1, high = 0.9 }
[environment]
files = ["own.py#train.py"]
archives = ["packed.zip#packed"]
[data]
urls = ["{store}/numbers#data"]
"""

TRAIN = """
import os, sys, time
from pathlib import Path
from themis_agent import trial

assert "themis-packages" not in os.environ["PYTHONPATH"], "a script keeps its own packages"
assert (Path("packed/inside").read_text(), Path("data").read_text()) == ("packed", "1 2 3")
found = trial.newest_checkpoint()
step = int((found / "step").read_text()) if found else 0
while step < int(os.environ["THEMIS_MAX_STEPS"]) and not trial.should_stop():
    time.sleep(0.5)
    step += 1
    with trial.save_checkpoint(step) as directory:
        (directory / "step").write_text(str(step))
    trial.report(step, (1 - float(sys.argv[1])) ** step)
"""


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path, lease_s=12)
    yield made
    made.close()


class ThrownAway:
    """A virtual environment with copies of what the agent needs."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=60)
        (self.site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        installed = packages.own_code() | packages.dependencies()
        for one in packages.closure(packages.DISTRIBUTIONS):
            installed |= {str(path): one.locate_file(path) for path in one.files if ".dist-info/" in str(path)}
        pyspark = Path(importlib.metadata.distribution("pyspark").locate_file("pyspark"))
        installed |= {f"pyspark/jars/{name}": path for name, path in packages.hadoop_jars().items()}
        installed["pyspark/__init__.py"] = pyspark / "__init__.py"
        for name, source in installed.items():
            target = self.site / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        (folder / "own.py").write_text(TRAIN)
        with zipfile.ZipFile(folder / "packed.zip", "w") as packed:
            packed.writestr("inside", "packed")

    def run(self, *words, **environment):
        command = [self.folder / "venv/bin/python", "-I", "-c", "from themis_agent.cli import main; main()", *words]
        given = {**os.environ, **environment}
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            env=given,
            cwd=self.folder,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_a_search_outlives_the_environment_that_submitted_it(lab, tmp_path, monkeypatch):
    store = tmp_path / "store"
    store.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "token").write_text(lab.arbiter.admin().issue_token(getpass.getuser()).token)
    environment = ThrownAway(tmp_path / "gone")
    (store / "numbers").write_text("1 2 3")
    text = APP.replace("{store}", store.as_uri())
    if shutil.which(packages.interpreter()) is None:
        text = text.replace("[data]", f'python = "{sys._base_executable}"\n[data]')
    (environment.folder / "app.toml").write_text(text)
    there = ("--rm", lab.cluster.rm_url, "--arbiter", lab.arbiter.url, "--token-file", tmp_path / "token")
    said = environment.run("submit", "app.toml", *there, "--master-memory-mb", 512)
    app = said.split(",")[0]
    assert recent.folder_of(app) == store / "thrown-away"
    folder = Folder(store / "thrown-away")
    manager = ResourceManager([lab.cluster.rm_url], getpass.getuser())
    search = Search(manager, app, folder.root)
    eventually(lambda: has_reports(folder), "trials train", 60)
    shutil.rmtree(environment.folder)
    gone, address = time.time(), folder.address.read_text()
    os.kill(running("themis_agent.trial.launcher", folder), signal.SIGKILL)
    os.kill(running("themis_agent.yarn.main", folder), signal.SIGKILL)
    eventually(lambda: folder.address.read_text() != address, "another attempt runs", 60)
    result = search.wait(120)
    assert result.succeeded, result.reason
    assert folder.state().best.step == 32
    started = folder.root.glob("trials/*/epoch-*/launcher-*.json")
    assert [path for path in started if path.stat().st_mtime > gone], "no trial was started after it was gone"
    assert app in [one.id for one in applications.searches(manager)]
    assert lab.replayed().state.pool_states["gpu"].state.allocated.round_number >= 2
    written = submission.read(folder.root).model_dump_json()
    assert str(environment.folder) not in written and sys.prefix not in written


def test_a_function_that_was_submitted_goes_on_after_kill_9(lab, tmp_path, monkeypatch):
    store, executed, steps = tmp_path / "store", str(tmp_path / "executed"), 16
    store.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "token").write_text(lab.arbiter.admin().issue_token(getpass.getuser()).token)

    def train(parameters):
        from themis_agent import trial

        found = trial.newest_checkpoint()
        step = int((found / "step").read_text()) if found else 0
        while step < steps and not trial.should_stop():
            time.sleep(0.5)
            step += 1
            with Path(executed).open("a") as log:
                log.write(f"{parameters['rate']} {step}\n")
            with trial.save_checkpoint(step) as directory:
                (directory / "step").write_text(str(step))
            trial.report(step, (1 - parameters["rate"]) ** step)

    has_interpreter = shutil.which(packages.interpreter()) is not None
    search = themis_agent.submit(
        train,
        space={"rate": choice(0.2, 0.8)},
        sampler="grid",
        algorithm="plain",
        max_steps=steps,
        memory_mb=1400,
        grace_s=5,
        environment={} if has_interpreter else {"python": sys._base_executable},
        checkpoint=store.as_uri(),
        rm=lab.cluster.rm_url,
        arbiter=lab.arbiter.url,
        token_file=tmp_path / "token",
    )
    folder = Folder(store / "train")
    eventually(lambda: has_reports(folder), "trials train", 60)
    address = folder.address.read_text()
    os.kill(running("themis_agent.trial.launcher", folder), signal.SIGKILL)
    os.kill(running("themis_agent.yarn.main", folder), signal.SIGKILL)
    result = search.wait(120)
    assert result.succeeded, result.reason
    assert folder.address.read_text() != address, "the first attempt went on"
    assert (folder.state().best.step, json.loads(folder.state().best.parameters)) == (steps, {"rate": 0.8})
    found = [tuple(map(float, line.split())) for line in Path(executed).read_text().splitlines()]
    assert set(found) == {(rate, float(step)) for rate in (0.2, 0.8) for step in range(1, steps + 1)}
    assert len(found) <= 2 * steps + 1, "more than one step of the killed trial was executed again"


def has_reports(folder):
    state = state_of(folder.root)
    return state is not None and any(one.step for one in state.trials.values())


def running(module, folder):
    """A process of the search that runs this module."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if module in words and words[-1].startswith(str(folder.root)):
                return process.pid
    raise AssertionError(f"no {module} runs")
