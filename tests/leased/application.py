"""An application master under leases, as a YARN container: `python -m tests.leased.application CONFIG`.

It registers with YARN and the arbiter, declares the `jobs` of CONFIG if there are any, bids for its work, and keeps one
sleeping container on each GPU that it leases. A test holds it back at a step (register, estimate, bid, place, vacate)
while the file `NAME.STEP` is in the folder `holds`, and has it end early by `NAME.finish`.
"""

import json
import logging
import os
import queue
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from themis_agent.agent import messages
from themis_agent.bids import bid_table, estimate
from themis_agent.search import single_job
from themis_agent.yarn.application_master import ApplicationMaster, Size, command_line
from themis_agent.yarn.gateway import launch
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError, ArbiterUnavailableError
from yarn_plugin.api.jobs import Jobs
from yarn_plugin.model.auction import Release
from yarn_plugin.model.gpus import Job, Slowdown

log = logging.getLogger("application")
BEAT_S = 0.1
LAUNCHER = Path(__file__).with_name("launcher.py")


class Arbiter:
    """The connection to the arbiter: messages arrive in `heard`; what is said is sent in order, until it is taken."""

    def __init__(self, config, yarn_app):
        self._config = config
        self.heard, self._said = queue.SimpleQueue(), queue.SimpleQueue()
        request = wire.Register(name=config["name"], request_id=yarn_app, pool="gpu", yarn_app=yarn_app)
        registered = self._insist(lambda: ArbiterClient(config["url"], config["token"]).register(request))
        self._app, self._token = registered.app, registered.token
        if jobs := config.get("jobs"):
            declared = Jobs.model_validate({"jobs": jobs}).jobs
            self._insist(lambda: self._client().declare_jobs(self._app, declared))
        for task in (self._listen, self._speak):
            threading.Thread(target=task, daemon=True).start()

    def say(self, answer):
        self._said.put(answer)

    def deregister(self):
        self._insist(lambda: self._client().deregister(self._app))

    def _client(self):
        return ArbiterClient(self._config["url"], self._token)

    def _listen(self):
        for _ in self._client().follow(self._app, on_message=lambda *message: self.heard.put(messages.read(*message))):
            pass

    def _speak(self):
        client = self._client()
        while True:
            kind, fields = messages.write(self._said.get())
            try:
                self._insist(lambda kind=kind, fields=fields: client.send(self._app, kind, **fields))
            except ArbiterRefusedError as refused:
                log.warning("%s refused: %s", kind, refused)

    @staticmethod
    def _insist(call):
        while True:
            try:
                return call()
            except ArbiterUnavailableError:
                time.sleep(0.3)


class Application:
    """`leased`: the lease of each GPU; `hosts`: their nodes; `leaving`: those to be vacated. `wanted`: by request
    number; `running`: the containers by GPU. What should run follows from the leases, what runs from YARN."""

    def __init__(self, config):
        self._config, self._folder, self._name = config, Path(config["folder"]), config["name"]
        self._master = ApplicationMaster(launch(Path(os.environ["HADOOP_CONF_DIR"]), heap_mb=96))
        self._master.register()
        self._yarn_app = "_".join(["application", *os.environ["CONTAINER_ID"].split("_")[-4:-2]])
        while self._is_told("register"):
            self._master.heartbeat()
            time.sleep(BEAT_S)
        self._arbiter = Arbiter(config, self._yarn_app)
        self._arrived, self._counted, self._done = time.monotonic(), time.monotonic(), 0.0
        gpus = config["gpus"]
        self._job = Job("0", config["work_s"], 1.0, max_gpus=gpus, slowdown=Slowdown(1.0, 1.0, 1.0))
        self._known, self._questions = set(), []
        self._leased, self._hosts, self._leaving = {}, {}, set()
        self._wanted, self._running, self._stopping, self._number = {}, {}, set(), 0

    def run(self):
        while not self._is_over():
            self._hear()
            self._beat()
        self._leaving.update(self._leased)
        while self._running or self._wanted:
            self._beat()
        self._arbiter.deregister()
        self._master.finish()
        log.info("done: %.0f GPU seconds", self._done)

    def _is_over(self):
        return self._done >= self._config["work_s"] or self._is_told("finish")

    def _is_told(self, step):
        return (self._folder / "holds" / f"{self._name}.{step}").exists()

    # The arbiter.

    def _hear(self):
        while not self._arbiter.heard.empty():
            message = self._arbiter.heard.get()
            if message is None or message.id in self._known:
                continue
            self._known.add(message.id)
            log.info("%s", message)
            self._take(message)
        self._questions = [one for one in self._questions if not self._answer(one)]

    def _take(self, message):
        match message:
            case messages.Ask() | messages.Offer():
                self._questions.append(message)
            case messages.Grant():
                for lease in message.leases:
                    self._begin(lease)
            case messages.Leases():
                self._leased, self._leaving = {}, set()
                for lease in message.leases:
                    self._begin(lease)
                    self._leaving.update(lease.revoked)
            case messages.Revoke():
                self._leaving.update(self._cells(message))
            case messages.LeaseEnded():
                for cell in self._cells(message):
                    self._leaving.discard(cell)
                    del self._leased[cell]

    def _begin(self, lease):
        self._leased.update(dict.fromkeys(lease.cells, lease.id))
        self._hosts.update({one.cell: one.place.host for one in lease.holdings})
        self._leaving.difference_update(lease.cells)

    def _cells(self, message):
        return [
            cell
            for cell, lease in self._leased.items()
            if lease == message.lease and (not message.cells or cell in message.cells)
        ]

    def _answer(self, message):
        left = max(self._config["work_s"] - self._done, 0.01)
        work = single_job(replace(self._job, iterations_left=left, iterations_done=self._done))
        elapsed = time.monotonic() - self._arrived
        if isinstance(message, messages.Ask):
            if self._is_told("estimate"):
                return False
            self._arbiter.say(estimate(work, message.question, elapsed))
        else:
            if self._is_told("bid"):
                return False
            self._arbiter.say(bid_table(work, message.offer, elapsed))
        return True

    # YARN.

    def _beat(self):
        self._ask_for_containers()
        self._stop_containers()
        beat = self._master.heartbeat(min(self._done / self._config["work_s"], 1.0))
        now = time.monotonic()
        self._done += len(self._running) * (now - self._counted)
        self._counted = now
        for ended in beat.completed:
            cell = next((cell for cell, one in self._running.items() if one.id == ended.id), None)
            if cell is not None:
                log.info("%s on %s has ended: %d %s", ended.id, cell, ended.exit_status, ended.diagnostics)
                del self._running[cell]
                self._stopping.discard(cell)
        for container in beat.allocated:
            self._start(container)
        self._release()
        time.sleep(BEAT_S)

    def _ask_for_containers(self):
        if not self._is_told("place"):
            for cell in self._leased:
                if cell not in self._leaving and cell not in self._running and cell not in self._wanted.values():
                    self._number += 1
                    self._wanted[self._number] = cell
                    self._master.request(self._number, Size(128, gpus=1), host=self._hosts[cell])

    def _stop_containers(self):
        if self._is_told("vacate"):
            return
        for number, cell in list(self._wanted.items()):
            if cell not in self._leased or cell in self._leaving:
                self._master.cancel(number)
                del self._wanted[number]
        for cell, container in self._running.items():
            if (cell not in self._leased or cell in self._leaving) and cell not in self._stopping:
                self._stopping.add(cell)
                self._master.stop(container)

    def _start(self, container):
        cell = self._wanted.pop(container.request, None)
        if cell is None or cell not in self._leased or cell in self._leaving:
            self._master.release(container)
            return
        self._running[cell] = container
        words = (sys.executable, "-ISE", LAUNCHER, self._folder / "intervals", cell, container.id)
        self._master.start(container, command_line(*words), {})
        log.info("%s runs on %s", container.id, cell)

    def _release(self):
        """Say which revoked GPUs are vacated."""
        waiting, vacated = set(self._wanted.values()), {}
        for cell in sorted(self._leaving & self._leased.keys() - self._running.keys() - waiting):
            vacated.setdefault(self._leased.pop(cell), []).append(cell)
        for lease, cells in vacated.items():
            self._leaving.difference_update(cells)
            self._arbiter.say(Release(lease, tuple(cells)))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    Application(json.loads(Path(sys.argv[1]).read_text())).run()
