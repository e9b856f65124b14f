"""An application master that asks for one container on a host: `python -m tests.searches.brief_master FOLDER HOST HOW`.

HOW: `dies` before it starts the container; its next attempt says what YARN hands over and ends within some seconds.
`waits` for the file `go` in the folder, then starts the container, and releases it if that fails. What happened is in
FOLDER/said.jsonl.
"""

import json
import os
import sys
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError

from themis_agent.yarn.application_master import ApplicationMaster, Size
from themis_agent.yarn.gateway import launch
from themis_agent.yarn.main import attempt_of

WATCHED_S = 15.0


class Master:
    def __init__(self, folder):
        self._folder, self._master = folder, ApplicationMaster(launch(Path(os.environ["HADOOP_CONF_DIR"])))
        self.previous = [one.id for one in self._master.register()]
        self.say(attempt=attempt_of(os.environ["CONTAINER_ID"]), previous=self.previous)

    def say(self, **fields):
        with (self._folder / "said.jsonl").open("a") as file:
            file.write(json.dumps(fields) + "\n")

    def allocated(self, host):
        self._master.request(1, Size(128), host)
        while not (found := self._beat()):
            time.sleep(0.2)
        self.say(allocated=found[0].id)
        return found[0]

    def start(self, container):
        try:
            self._master.start(container, "exec sleep 600.25", {})
        except Py4JJavaError as problem:
            self.say(problem=str(problem.java_exception))
            self._master.release(container)
            self._beat()
        else:
            self.say(problem=None)

    def watch(self):
        until = time.monotonic() + WATCHED_S
        while time.monotonic() < until:
            self._beat()
            time.sleep(0.2)

    def finish(self):
        self._master.finish()

    def _beat(self):
        beat = self._master.heartbeat()
        for one in beat.completed:
            self.say(completed=one.id, status=one.exit_status)
        return beat.allocated


def main(folder, host, how):
    master = Master(folder)
    if how == "waits":
        container = master.allocated(host)
        while not (folder / "go").exists():
            time.sleep(0.1)
        master.start(container)
    elif attempt_of(os.environ["CONTAINER_ID"]) == 1:
        master.allocated(host)
        os._exit(1)
    master.watch()
    master.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
    os._exit(0)
