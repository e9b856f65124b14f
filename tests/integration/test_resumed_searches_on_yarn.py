"""Searches that are killed and resumed by the commands, and searches whose arbiter has lost its state."""

import getpass
import shutil
import subprocess
import sys

import pytest

from tests.eventually import eventually
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab
from tests.searches.lab import TRAIN, Submitted, app, check_same_winner
from themis_agent.local.folder import Folder
from themis_agent.submitting import client
from themis_agent.yarn import submission

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

UNPACKED_S = 150.0
"""Within that, every node has unpacked what the search was submitted with, and its trials train."""


class ByUser(Submitted):
    """A search that is submitted, stopped and resumed as users do that."""

    def __init__(self, lab, folder, searched):
        folder.mkdir()
        self.lab, self._token = lab, folder / "user-token"
        self.issue_token()
        environment = {"files": [TRAIN.name], "python": sys.executable}
        given = {"environment": environment, "checkpoint": folder.as_uri(), "memory_mb": 1400}
        self.app = type(searched).model_validate({**searched.model_dump(), **given})
        access = client.Access(lab.cluster.rm_url, lab.arbiter.url, self._token)
        found = client.submit(self.app, TRAIN.parent, access, print)
        self.folder, self.yarn_app = Folder(found.folder), found.application

    def issue_token(self):
        """Have the arbiter issue a token to the user."""
        self._token.write_text(self.lab.arbiter.admin().issue_token(getpass.getuser()).token)

    def stop_and_resume(self):
        self._agent("stop", "--kill", self.folder.root)
        killed = self.yarn_app
        eventually(lambda: self.report["state"] == "KILLED", "it is killed")
        self._agent("resume", self.folder.root, "--token-file", self._token)
        self.yarn_app = submission.read(self.folder.root).yarn_app
        assert self.yarn_app != killed

    def said_of_it(self):
        """What `themis-agent status` says."""
        return " ".join(self._agent("status", self.folder.root).split())

    def _agent(self, *words):
        command = [sys.executable, "-c", "from themis_agent.cli import main; main()", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def lab(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Lab(cluster, tmp_path, lease_s=60)
    yield made
    made.close()


def plain(name, tmp_path, **fields):
    searched = app(name, 0.5, tmp_path / f"executed-{name}", algorithm="plain", **fields)
    return searched.model_copy(update={"command": searched.command.replace(str(TRAIN), TRAIN.name)})


def test_a_search_that_is_killed_goes_on_where_it_was(lab, tmp_path):
    submitted = ByUser(lab, tmp_path / "store", plain("killed", tmp_path, trials=3, max_steps=30))
    submitted.until_steps(3, 5, UNPACKED_S)
    submitted.stop_and_resume()
    check_same_winner(submitted, submitted.until_ended(240), interruptions=3, interval=2)


def test_a_search_outlives_the_state_of_its_arbiter(lab, tmp_path):
    """The new arbiter knows neither the search nor its leases, and leases its GPUs to another one: no GPU is used by
    both. The old search starts nothing more, says why, and goes on when it is resumed."""
    first = ByUser(lab, tmp_path / "first", plain("first", tmp_path, trials=6, max_steps=120))
    first.until_steps(6, 3, UNPACKED_S)
    lab.arbiter.kill()
    shutil.rmtree(lab.arbiter.state)
    lab.arbiter.start()
    eventually(lambda: first.state().arbiter_problem, "the arbiter does not know the search")
    assert "does not listen to it" in first.said_of_it()
    second = ByUser(lab, tmp_path / "second", plain("second", tmp_path, trials=4, max_steps=20))
    second.until_steps(1, 2, UNPACKED_S)
    first.issue_token()
    first.stop_and_resume()
    check_same_winner(second, second.until_ended(240), interruptions=8, interval=2)
    # Each of its 6 trials is killed by the new arbiter, or by `stop --kill`; some of those never were.
    check_same_winner(first, first.until_ended(240), interruptions=6, interval=2)
    assert not overlaps(sorted(first.intervals() + second.intervals(), key=lambda one: (one.begun, one.cell)))
