"""The arbiter with the toys as a process that is killed and started again; applications follow it over HTTP."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from tests.eventually import eventually
from tests.toys.registry import TOYS
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterUnavailableError, new_request_id
from yarn_plugin.drive.replay import replay

CONFIG = """
[[pools]]
name = "sql"
queue = "root.sql"

[[pools]]
name = "gpu"
queue = "root.gpu"
submit_timeout_s = 3600
controller = "{controller}"
parameters = {parameters}

[poll]
metrics_s = 0.1
apps_s = 0.2
nodes_s = 0.5
"""


class Process:
    """`parameters`: the controller's, as TOML."""

    def __init__(self, rm_url, folder, parameters, controller="toy-auction"):
        self.rm_url, self.folder, self.state = rm_url, folder, folder / "state"
        (folder / "arbiter.toml").write_text(CONFIG.format(parameters=parameters, controller=controller))
        self.process, self.url = None, None
        self._replayed = 0, None

    @property
    def journal(self):
        return self.state / "journal"

    def start(self, *version):
        """`version`: "earlier", see `arbiter`."""
        listen = self.url.removeprefix("http://") if self.url else "127.0.0.1:0"
        address = self.state / "arbiter.json"
        address.unlink(missing_ok=True)
        words = [self.rm_url, self.state, listen, self.folder / "arbiter.toml", *version]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "tests.toys.arbiter", *map(str, words)],
                                            stdout=log, stderr=log, cwd=Path(__file__).parents[2])  # fmt: skip
        eventually(lambda: address.exists() or self.process.poll() is not None, "the arbiter starts")
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        self.url = json.loads(address.read_text())["url"]

    def kill(self):
        """kill -9; its worker process ends with it."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        gone, alive = psutil.wait_procs(workers, timeout=30)
        assert not alive, "a worker outlives its arbiter"
        return len(gone)

    def kill_and_start(self):
        self.kill()
        self.start()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)

    def replayed(self):
        """The journal replayed; again only if it has grown, as who waits asks twenty times a second."""
        size = self.journal.stat().st_size
        if self._replayed[0] != size:
            self._replayed = size, replay(self.journal, TOYS)
        return self._replayed[1]

    def auction(self):
        """The auction's state from the journal."""
        kept = self.replayed().state.pool_states.get("gpu")
        return kept.state if kept is not None else None

    def register(self, user, manager=None):
        """An application of this user; it runs in YARN, if there is a scripted ResourceManager."""
        admin = ArbiterClient(self.url, (self.state / "admin.token").read_text().strip())
        client = ArbiterClient(self.url, admin.issue_token(user).token)
        registered = client.register(wire.Register(name=user, request_id=new_request_id(), pool="gpu"))
        if manager is not None:
            manager.use(manager.submit(registered.queue, user, user), 1)
        return Follower(ArbiterClient(self.url, registered.token), registered.app)


class Follower:
    """Follows an application's messages over restarts, and answers when a test asks it to."""

    def __init__(self, client, app):
        self.client, self.app, self.heard, self._stop = client, app, [], threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for _ in self.client.follow(
            self.app, should_stop=self._stop.is_set, on_message=lambda *told: self.heard.append(told)
        ):
            pass

    def close(self):
        self._stop.set()

    def ids(self, name):
        return [message["id"] for kind, message in self.heard if kind == name]

    def answer(self, number, wants):
        """Answer the question of a round."""
        self.say("toy-auction.answer", round=number, wants=wants)

    def say(self, name, **message):
        """Send a message; again, where the arbiter is away."""

        def answered():
            try:
                self.client.send(self.app, name, **message)
            except ArbiterUnavailableError:
                return False
            return True

        eventually(answered, "the answer is taken")
