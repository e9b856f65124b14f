"""Files and processes of launchers on this machine, beside those of others."""

import errno
import json
import os
import queue
import stat
import subprocess
import sys

import psutil
import pytest

from themis_agent.agent.commands import Place, StartTrial
from themis_agent.agent.events import Running
from themis_agent.app_file import read
from themis_agent.local.folder import Folder
from themis_agent.local.launchers import Launchers
from themis_agent.trial.wire import LAUNCHER

APP = {
    "name": "secret",
    "command": "python train.py",
    "max_steps": 1,
    "algorithm": "plain",
    "trials": 1,
    "storage": "postgresql://me:secret@host/study",
    "space": {"lr": {"type": "int", "low": 1, "high": 2}},
    "environment": {"env": {"KEY": "secret"}},
}
TWO_PROCESSES = "import os, time; os.fork(); os.write(1, b'.'); time.sleep(60)"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "state").mkdir(mode=0o755)
    return Folder(tmp_path / "state")


@pytest.fixture
def running(folder):
    """A process with the command line of a launcher, and its child with the same."""
    command = [sys.executable, "-c", TWO_PROCESSES, LAUNCHER, str(folder.spec("trial-00000", 1))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert len(process.stdout.read(2)) == 2
        both = [*psutil.Process(process.pid).children(), process]
        yield both
        for one in both:
            one.kill()


def launchers(folder, ended):
    return Launchers(read(APP, "app"), folder.root, folder, "http://127.0.0.1:1", ended.append)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_files_with_secrets_are_for_their_owner_alone(folder, monkeypatch):
    def refused(*_, **__):
        raise OSError("no processes here")

    monkeypatch.setattr(psutil, "Popen", refused)
    folder.begin(read(APP, "app"), folder.root)
    ended = []
    launchers(folder, ended).start(StartTrial("trial-00000", 1, (Place("m", ("m/0",), 0),), json.dumps({"lr": 1})))
    assert "could not be started" in ended[0].last_lines[0]
    for file in (folder.root / "app.json", folder.spec("trial-00000", 1)):
        assert "secret" in file.read_text()
        assert mode(file) == 0o600


def test_a_launcher_is_adopted_once_though_it_is_two_processes(folder, running):
    assert launchers(folder, []).adopt() == (Running("trial-00000", 1),)


def test_launchers_of_other_users_are_not_believed(folder, running, monkeypatch):
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert launchers(folder, []).adopt() == ()


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, None), (errno.ENOENT, 1)])
def test_a_full_disk_is_no_crash_of_the_command(folder, tmp_path, monkeypatch, number, code):
    app, ended = read(APP, "app"), queue.SimpleQueue()
    folder.begin(app, tmp_path)

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("themis_agent.local.launchers.files.write", fail)
    monkeypatch.setattr("themis_agent.local.launchers.SHORTAGE_S", 0.05)
    made = Launchers(app, tmp_path, folder, "http://127.0.0.1:1", ended.put)
    made.start(StartTrial("trial-00000", 1, (Place("localhost", ("localhost/0",), 0),), "{}"))
    event = ended.get(timeout=10)
    assert (event.code, event.epoch) == (code, 1)
    assert os.strerror(number).lower() in event.last_lines[0]
