"""An arbiter process, its journal, and clients that follow their shares."""

import getpass
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

from tests.eventually import eventually
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, new_request_id
from yarn_plugin.journal.records import decode

CONFIG = """
[[pools]]
name = "sql"
queue = "root.sql"
grace_s = 3
preempt_after_s = 6
idle_timeout_s = 2
submit_timeout_s = 60
max_weight = 10
max_apps_per_user = 100

[poll]
metrics_s = 0.2
apps_s = 1
nodes_s = 2
"""


def command(*arguments):
    return [sys.executable, "-c", "from yarn_plugin.cli import main; main()", *map(str, arguments)]


def run(*arguments):
    """Run a command of `yarn-plugin`."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


class ArbiterProcess:
    """An arbiter that can be killed and started again at the same address with the same state."""

    def __init__(self, rm_url, folder, config=CONFIG):
        self.rm_url, self.folder, self.state = rm_url, folder, folder / "state"
        self.folder.mkdir(parents=True, exist_ok=True)
        (folder / "arbiter.toml").write_text(config)
        self.process, self.url, self.starts = None, None, 0

    def start(self):
        """Start it, and wait until it answers."""
        self.starts += 1
        address = self.url.removeprefix("http://") if self.url else "127.0.0.1:0"
        (self.state / "arbiter.json").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command(address), stdout=log, stderr=subprocess.STDOUT)
        self.url = eventually(self._address, f"the arbiter starts: {self.log()[-2000:]}")
        return self

    def _command(self, address):
        words = ("--rm", self.rm_url, "--state", self.state, "--listen", address, "--config")
        return command("arbiter", *words, self.folder / "arbiter.toml")

    def _address(self):
        assert self.process.poll() is None, f"the arbiter has exited: {self.log()[-2000:]}"
        path = self.state / "arbiter.json"
        return json.loads(path.read_text())["url"] if path.exists() else None

    def kill(self):
        """kill -9."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        """Stop it with SIGTERM; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def log(self):
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    @property
    def admin_token_file(self):
        return self.state / "admin.token"

    def admin(self):
        return ArbiterClient(self.url, self.admin_token_file.read_text().strip())

    def register(self, name, user=None, **more):
        """Register an application, by default as the current user, and follow it."""
        user = self.admin().issue_token(user or getpass.getuser()).token
        request = wire.Register(name=name, request_id=new_request_id(), **more)
        return Follower(self.url, ArbiterClient(self.url, user).register(request))

    def journal(self):
        """The complete records of its journal."""
        lines = (self.state / "journal").read_bytes().splitlines(keepends=True)
        return [record for record in map(decode, lines) if record is not None]


class Follower:
    """Follows an application's shares in a thread, as its driver would."""

    def __init__(self, url, registered):
        self.app, self.queue, self.token = registered.app, registered.queue, registered.token
        self.shares, self.lost, self._stop = [], [], threading.Event()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ArbiterClient(url, self.token),), daemon=True)
        self._thread.start()

    def _run(self, client):
        for share in client.follow(self.app, on_lost=self.lost.append, should_stop=self._stop.is_set):
            self.shares.append(share)
        self.ended.set()

    def close(self):
        self._stop.set()

    def share(self, condition, expected):
        """Wait for the first share that matches, and return it."""
        return eventually(
            lambda: next((one for one in list(self.shares) if condition(one)), None), f"{self.app}: {expected}"
        )

    def after(self, count, condition, expected):
        """Like `share`, ignoring the first `count` shares."""
        return eventually(
            lambda: next((one for one in list(self.shares)[count:] if condition(one)), None), f"{self.app}: {expected}"
        )


def check_journal(records, followers):
    """Check that events are recorded once and in order, with one decision each, and shares received once, in order."""
    inputs = [record["seq"] for record in records if record["kind"] == "input"]
    assert inputs == list(range(1, len(inputs) + 1))
    decisions = Counter(record["seq"] for record in records if record["kind"] == "decision")
    assert set(decisions.values()) == {1}
    # A running arbiter may have recorded its last inputs, and not yet its decisions on them.
    assert sorted(decisions) == inputs[: len(decisions)]
    for follower in followers:
        sent = [
            one["share"]["seq"]
            for record in records
            if record["kind"] == "decision"
            for one in record["commands"]
            if one["type"] == "TellShare" and one["app"] == follower.app
        ]
        received = [share.seq for share in follower.shares]
        # A stream tells an application the latest share at most twice a second: earlier ones may be skipped.
        assert received == sorted(set(received)), "a share was repeated or out of order"
        assert set(received) <= set(sent), "a share was received that was never decided"
