"""Submits searches to a cluster with an arbiter, kills their parts, and reads what they did."""

import getpass
import json
import os
import platform
import signal
import sys
from pathlib import Path

import psutil

from tests.eventually import eventually
from tests.integration.sleepers import Sleepers
from tests.leased.intervals import Interval, overlaps
from themis_agent.app_file import read
from themis_agent.live import recorded
from themis_agent.local.folder import Folder
from themis_agent.yarn import submission
from themis_agent.yarn.submission import ArbiterAccess, ContainerSize, Submission
from yarn_plugin import files
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "tests" / "data" / "train_quadratic.py"
MASTER = "themis_agent.yarn.main"


def app(name, step_s, executed, more="", **fields):
    """A search for the best rate of a quadratic. `more`: options of its script."""
    return read(
        {
            "name": name,
            "command": f"python {TRAIN} --rate={{rate}} --step-s={step_s} --executed={executed} {more}",
            "space": {"rate": {"type": "float", "low": 0.1, "high": 0.9}},
            "grace_s": 5,
            "orphan_s": 30,
            **fields,
        },
        "app",
    )


class Submitted:
    """A search on YARN. `lab`: a `tests.leased.lab.Lab`, with its arbiter. `user`: whose; by default, ours."""

    def __init__(self, lab, folder, searched, attempts=4, user=None):
        self.lab, self.app, self.folder = lab, searched, Folder(folder)
        self._yarn = Sleepers(lab.cluster.rm_url, user) if user else lab.sleepers
        environment = {"PYTHONPATH": str(ROOT), "HADOOP_CONF_DIR": str(lab.cluster.conf_dir)}
        self.folder.begin(searched, folder)
        self.yarn_app = self._new_application()
        self._submit(environment, attempts)
        token = lab.arbiter.admin().issue_token(user or getpass.getuser()).token
        request = wire.Register(name=searched.name, request_id=self.yarn_app, pool="gpu", yarn_app=self.yarn_app)
        client = ArbiterClient(lab.arbiter.url, token)
        registered = eventually(lambda: self._registered(client, request), "the arbiter has seen the application")
        self.arbiter_app = registered.app
        if jobs := searched.declared_jobs:
            client.declare_jobs(registered.app, jobs)
        files.write_private(folder / submission.ARBITER_TOKEN, registered.token)
        submission.write(
            folder,
            Submission(
                yarn_app=self.yarn_app,
                resource_manager=lab.cluster.rm_url,
                arbiter=ArbiterAccess(
                    url=lab.arbiter.url,
                    app=registered.app,
                    pool=registered.pool,
                    recovery_token=registered.recovery_token,
                ),
                python=sys.executable,
                container=ContainerSize(memory_mb=1400),
                environment=environment,
            ),
        )

    @staticmethod
    def _registered(client, request):
        try:
            return client.register(request)
        except ArbiterRefusedError:
            return None

    def _new_application(self):
        made = self._yarn.session.post(f"{self._yarn.url}/apps/new-application", timeout=20).json()
        return made.get("application-id") or next(iter(made.values()))["application-id"]

    def _submit(self, environment, attempts):
        # As `themis-agent submit` starts it: it waits until the submission is complete.
        start = ("--submission", self.folder.root, sys.implementation.cache_tag, platform.machine(), MASTER)
        words = (sys.executable, ROOT / "themis_agent/yarn/start.py", *start, self.folder.root)
        command = f"exec {' '.join(map(str, words))} 1><LOG_DIR>/stdout 2>>{self.log}"
        body = {
            "application-id": self.yarn_app,
            "application-name": self.app.name,
            "queue": "root.gpu",
            "max-app-attempts": attempts,
            "keep-containers-across-application-attempts": True,
            "attempt-failures-validity-interval": 600_000,
            "am-container-spec": {
                "commands": {"command": command},
                "environment": {"entry": [{"key": key, "value": one} for key, one in environment.items()]},
            },
            "resource": {"memory": 512, "vCores": 1},
        }
        answer = self._yarn.session.post(f"{self._yarn.url}/apps", json=body, timeout=20)
        assert answer.status_code == 202, answer.text

    # What it does.

    @property
    def log(self):
        return self.folder.root / "master.log"

    @property
    def report(self):
        return self.lab.sleepers.get(f"/apps/{self.yarn_app}")["app"]

    def until_ended(self, limit_s=120):
        """Wait until it has ended; returns YARN's report."""

        def ended():
            report = self.report
            return report if report["finalStatus"] != "UNDEFINED" else None

        try:
            return eventually(ended, f"{self.app.name} ends", limit_s)
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.said()}") from None

    def until_steps(self, trials, steps, limit_s=60):
        """Wait until so many trials have executed so many steps."""

        def there():
            done = self.steps().values()
            return sum(max(one, default=0) >= steps for one in done) >= trials

        try:
            eventually(there, f"{trials} trials of {self.app.name} have executed {steps} steps", limit_s)
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.said()}") from None

    def said(self):
        """The last lines of its application master."""
        return self.log.read_text()[-6000:] if self.log.exists() else ""

    def steps(self):
        """The executed steps by rate, in their order, repeated ones included."""
        path, found = self.executed(), {}
        for line in path.read_text().splitlines() if path.exists() else ():
            rate, step, _ = json.loads(line)
            found.setdefault(rate, []).append(step)
        return found

    def executed(self):
        words = " ".join(self.app.words)
        return Path(words.partition("--executed=")[2].split()[0])

    def state(self):
        return self.folder.state()

    # Its processes.

    def processes(self, *words):
        """Its processes whose command line has these words; parents before their children."""
        found = []
        for process in psutil.process_iter():
            try:
                line = process.cmdline()
            except psutil.Error:
                continue
            if set(words) <= set(line) and any(str(self.folder.root) in one for one in line):
                found.append(process)
        return found

    def master(self):
        """The process of the application master."""
        return next(iter(self.processes(MASTER, sys.executable)), None)

    def java(self):
        """The master's JVM."""
        master = self.master()
        return next((one for one in master.children() if "java" in one.name()), None) if master else None

    def trials(self):
        """The training processes."""
        return [one for launcher in self.launchers() for one in launcher.children(True) if str(TRAIN) in one.cmdline()]

    def attempts(self):
        """The trials that are started, as the agent knows."""
        state = recorded(self.folder.journal) if self.folder.journal.exists() else None
        return list(state.attempts) if state is not None else []

    def kill_master(self):
        """kill -9 of the application master, and wait until another attempt goes on."""
        self.kill_attempt(self.master())

    def kill_attempt(self, process):
        """kill -9 of a process without which the master ends, and wait until another attempt goes on."""
        before = self.restarts()
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: self.restarts() > before, "another attempt goes on", 60)

    def restarts(self):
        """How many attempts have gone on with the search."""
        return self.log.read_text().count(" goes on as attempt ")

    def launchers(self):
        """The outer processes of launchers."""
        found = self.processes("themis_agent.trial.launcher", sys.executable)
        ours = {one.pid for one in found}
        return [one for one in found if one.ppid() not in ours]

    def intervals(self):
        """Who held which GPU, by the journals of launchers: from `started` to `ended`, or to the last event."""
        found = []
        for path in sorted(self.folder.logs.glob("*/epoch-*/launcher-*.jsonl")):
            events = _events(path)
            started = next((one for one in events if one["type"] == "started"), None)
            for device in started["devices"] if started else ():
                cell = f"{started['host']}/{device}"
                name = "/".join([self.app.name, *path.parts[-3:]])
                found.append(Interval(cell, name, started["at"], events[-1]["at"], True))
        return sorted(found, key=lambda one: (one.begun, one.cell))


def _events(path):
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def check_progress(searched, interruptions=0, interval=1):
    """Every step of each trial was executed, and at most `interval` again at each interruption of a trial."""
    repeated = 0
    for rate, steps in searched.steps().items():
        assert sorted(set(steps)) == list(range(1, max(steps) + 1)), f"rate {rate}: steps are missing: {steps}"
        repeated += len(steps) - len(set(steps))
    assert repeated <= interval * interruptions, f"{repeated} steps were executed again: {searched.steps()}"


def check_same_winner(submitted, report, interruptions, interval=1):
    """The search succeeded, its best trial has the best of all rates, and nothing was lost or held twice."""
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    state = submitted.state()
    assert state.best.parameters == max((one.parameters for one in state.trials.values()), key=rate_of)
    assert {one.fate for one in state.trials.values()} == {"complete"}
    assert {max(steps) for steps in submitted.steps().values()} == {submitted.app.max_steps}
    check_progress(submitted, interruptions, interval)
    assert not overlaps(submitted.intervals())


def rate_of(parameters):
    """Up to 1, a larger rate is better."""
    return json.loads(parameters)["rate"]
