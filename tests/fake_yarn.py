"""A cluster for an application master in tests: its containers are processes of this machine."""

import itertools
import os
import subprocess
import tempfile
from pathlib import Path

from themis_agent.yarn.application_master import Completed, Container, Heartbeat

ROOT = Path(__file__).parents[1]


class FakeYarn:
    """`processes`: the containers that run, by id. `attempt`, `tracking_url`: as registered.
    `ended`: how applications ended. `refuses`: nodes start nothing."""

    def __init__(self, folder):
        self.folder, self.processes, self.ended, self.refuses, self.started = folder, {}, [], False, []
        self.attempt, self.tracking_url = 0, ""
        self._numbers = itertools.count(2)

    def master(self, attempt=1):
        return FakeMaster(self, attempt)

    def run(self, command, environment):
        directory = tempfile.mkdtemp(dir=self.folder)
        known = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        return subprocess.Popen(["bash", "-c", command.replace("<LOG_DIR>", directory)], cwd=directory, env=known)

    def name(self, attempt):
        return f"container_1_0001_{attempt:02}_{next(self._numbers):06}"

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


class FakeMaster:
    """What `themis_agent.yarn.application_master.ApplicationMaster` offers."""

    def __init__(self, yarn, attempt):
        self.yarn, self._attempt, self._requests, self._ended = yarn, attempt, {}, []

    def register(self, host="", port=-1, tracking_url=""):
        self.yarn.attempt, self.yarn.tracking_url = self._attempt, tracking_url
        return tuple(Container(name, "node", -1, None) for name in self.yarn.processes)

    def request(self, number, size, host=None):
        self._requests[number] = host

    def cancel(self, number):
        self._requests.pop(number, None)

    def _check(self):
        if self._attempt < self.yarn.attempt:
            raise OSError("YARN no longer knows this attempt")

    def heartbeat(self, progress=0.0):
        self._check()
        found = [Container(self.yarn.name(self._attempt), host, one, None) for one, host in self._requests.items()]
        self._requests = {}
        processes = self.yarn.processes
        completed = [Completed(name, one.returncode, "") for name, one in processes.items() if one.poll() is not None]
        for one in completed:
            del processes[one.id]
        return Heartbeat(tuple(found), tuple(completed))

    def start(self, container, command, environment, resources=()):
        if self.yarn.refuses:
            raise OSError("the node refuses")
        self.yarn.started.append(container)
        self.yarn.processes[container.id] = self.yarn.run(command, environment)

    def stop(self, container):
        if container.id in self.yarn.processes:
            self.yarn.processes[container.id].terminate()

    def release(self, container):
        assert container.id not in self.yarn.processes

    def finish(self, succeeded=True, message="", tracking_url=""):
        self._check()
        self.yarn.ended.append((succeeded, message))
