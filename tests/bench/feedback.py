"""How soon applications are notified of a change, and the load that this puts on the ResourceManager.

50 tiny applications (a sleeping application master of 128 MiB each, submitted over REST) are registered with the
arbiter, and this process follows a stream for each. Then others arrive and end: measured is the time from the
ResourceManager's own record of it (startedTime, finishedTime) until the last of the 50 is notified. The CPU time of the
ResourceManager's process is measured over equal periods, alternately without and with an arbiter.
"""

import getpass
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, new_request_id
from yarn_plugin.console import out
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import Cluster, ClusterSpec
from yarn_plugin.embedded.ports import free_base

APPS = 50
CHANGES = 15
PERIOD_S, ROUNDS = 30.0, 3
IDLE_TIMEOUT_S = 1.0
USER = getpass.getuser()
CONFIG = f"""
[[pools]]
name = "sql"
queue = "root.sql"
idle_timeout_s = {IDLE_TIMEOUT_S}
"""


CHANGES_BY_KIND = {"app-arrived": "arrived", "app-ended": "ended"}


@dataclass
class Notifications:
    """When each stream was first notified that an application arrived or ended."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    times: dict[str, dict[int, float]] = field(default_factory=dict)

    def record(self, stream: int, share: wire.Share) -> None:
        now = time.time()
        with self.lock:
            for cause in share.cause["causes"]["named"] if share.cause else ():
                change = CHANGES_BY_KIND.get(cause["kind"])
                if change:
                    self.times.setdefault(f"{cause['app']} {change}", {}).setdefault(stream, now)

    def wait_for_last(self, change: str, seconds: float = 20.0) -> float:
        """Wait until all streams are notified of a change; when the last one was."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.lock:
                times = self.times.get(change, {})
                if len(times) == APPS:
                    return max(times.values())
            time.sleep(0.02)
        notified = len(self.times.get(change, {}))
        raise RuntimeError(f"{change}: {notified} of {APPS} applications notified within {seconds:g} s")


def measure() -> dict[str, Any]:
    """Seconds until the last application is notified, and the ResourceManager's CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        spec = ClusterSpec(Path(folder) / "cluster", memory_mb=4096, vcores=32, gpus_per_node=0)
        cluster = embedded.up(ClusterSpec(**{**_fields(spec), "port_base": free_base(spec.hosts)}))
        try:
            rm = Manager(cluster.rm_url)
            apps = [rm.submit(f"root.sql.s{number}") for number in range(APPS)]
            rm.await_running(apps)
            cpu = _cpu(cluster, Path(folder))
            delays = _delays(cluster, rm, apps, Path(folder))
        finally:
            cluster.down()
    return delays | cpu


def _fields(spec: ClusterSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("dir", "memory_mb", "vcores", "gpus_per_node")}


def _delays(cluster: Cluster, rm: "Manager", apps: list[str], folder: Path) -> dict[str, Any]:
    """Seconds from arrivals and ends until the last application is notified."""
    with _arbiter(cluster, folder / "delays") as (url, token):
        client, notifications = ArbiterClient(url, token), Notifications()
        for number, app in enumerate(apps):
            request = wire.Register(name=f"s{number}", request_id=new_request_id(), yarn_app=app, pool="sql")
            registered = client.register(request)
            threading.Thread(
                target=_follow,
                args=(ArbiterClient(url, registered.token), registered.app, number, notifications),
                daemon=True,
            ).start()
        time.sleep(3)
        arrivals, ends = [], []
        for number in range(CHANGES):
            # Out of phase with the arbiter's polls.
            time.sleep(random.uniform(0.0, 1.0))
            app = rm.submit(f"root.sql.guest{number}")
            arrivals.append(notifications.wait_for_last(f"{app} arrived") - rm.app(app)["startedTime"] / 1000.0)
            time.sleep(random.uniform(0.0, 0.5))
            rm.kill(app)
            ends.append(notifications.wait_for_last(f"{app} ended") - rm.app(app)["finishedTime"] / 1000.0)
            out.print(f"  all {APPS} notified of an arrival in {arrivals[-1]:.3f} s, of an end in {ends[-1]:.3f} s")
    return {
        "arrival_s_p50": statistics.median(arrivals),
        "arrival_s_p95": statistics.quantiles(arrivals, n=20)[-1],
        "end_s_p50": statistics.median(ends),
        "end_s_p95": statistics.quantiles(ends, n=20)[-1],
    }


def _follow(client: ArbiterClient, app: str, number: int, notifications: Notifications) -> None:
    for share in client.follow(app):
        notifications.record(number, share)


def _cpu(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """The CPU use of the ResourceManager in cores, alternately without and with an arbiter."""
    process = psutil.Process(cluster.daemons["rm"])
    without, with_arbiter = [], []
    for number in range(ROUNDS):
        without.append(_cores(process))
        with _arbiter(cluster, folder / f"cpu{number}"):
            time.sleep(3)
            with_arbiter.append(_cores(process))
        out.print(f"  RM uses {without[-1]:.4f} cores without the arbiter, {with_arbiter[-1]:.4f} with it")
    increase = statistics.median(b - a for a, b in zip(without, with_arbiter, strict=True))
    return {
        "rm_cpu_without": statistics.median(without),
        "rm_cpu_with": statistics.median(with_arbiter),
        "rm_cpu_increase": increase,
    }


def _cores(process: psutil.Process) -> float:
    before, started = process.cpu_times(), time.monotonic()
    time.sleep(PERIOD_S)
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return spent / (time.monotonic() - started)


@contextmanager
def _arbiter(cluster: Cluster, state: Path) -> Iterator[tuple[str, str]]:
    state.mkdir()
    (state / "config.toml").write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("yarn-plugin")), "arbiter", "--rm", cluster.rm_url, "--quiet"]
    command += ["--state", str(state), "--listen", "127.0.0.1:0", "--config", str(state / "config.toml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while not (state / "arbiter.json").exists():
                assert process.poll() is None, "the arbiter exited"
                time.sleep(0.1)
            yield json.loads((state / "arbiter.json").read_text())["url"], (state / "admin.token").read_text().strip()
        finally:
            process.terminate()


class Manager:
    """A client of the ResourceManager's REST API that submits applications that sleep."""

    def __init__(self, url: str) -> None:
        self._base = f"{url}/ws/v1/cluster"
        self._session = requests.Session()
        self._session.params = {"user.name": USER}

    def submit(self, queue: str) -> str:
        """Submit an application whose master sleeps."""
        new = self._session.post(f"{self._base}/apps/new-application").json()
        app: str = new["application-id"]
        submission = {
            "application-id": app,
            "application-name": queue.rsplit(".", 1)[-1],
            "application-type": "SLEEPER",
            "queue": queue,
            "max-app-attempts": 1,
            "resource": {"memory": 128, "vCores": 1},
            "am-container-spec": {"commands": {"command": "sleep 3600"}},
        }
        self._session.post(f"{self._base}/apps", json=submission).raise_for_status()
        return app

    def app(self, app: str) -> dict[str, Any]:
        """The RM's record of an application."""
        record: dict[str, Any] = self._session.get(f"{self._base}/apps/{app}").json()["app"]
        return record

    def kill(self, app: str) -> None:
        """Kill an application, and wait until the RM has recorded it."""
        self._session.put(f"{self._base}/apps/{app}/state", json={"state": "KILLED"}).raise_for_status()
        while not self.app(app)["finishedTime"]:
            time.sleep(0.02)

    def await_running(self, apps: list[str]) -> None:
        """Wait until the application master of each is running."""
        while sum(self.app(app)["runningContainers"] == 1 for app in apps) < len(apps):
            time.sleep(1)
