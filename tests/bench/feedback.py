"""How soon applications are notified of a change, and what that costs the ResourceManager.

50 tiny applications (a sleeping master of 128 MB each, submitted over REST) are registered with the arbiter and each
followed by a stream, all in this process. Then others arrive and end; for each, the time from the ResourceManager's own
record of it (startedTime, finishedTime) to the last of the 50 being told. The processor time of the ResourceManager's
process is taken over equal spans, without the arbiter and with it, in turns.
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
SPAN_S, TURNS = 30.0, 3
IDLE_TIMEOUT_S = 1.0
USER = getpass.getuser()
CONFIG = f"""
[[pools]]
name = "sql"
queue = "root.sql"
idle_timeout_s = {IDLE_TIMEOUT_S}
"""


WAITED_FOR = {"app-arrived": "arrived", "app-ended": "ended"}


@dataclass
class Heard:
    """When each stream first heard that an application arrived or ended."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    times: dict[str, dict[int, float]] = field(default_factory=dict)

    def note(self, listener: int, share: wire.Share) -> None:
        now = time.time()
        with self.lock:
            for happened in share.cause["causes"]["named"] if share.cause else ():
                what = WAITED_FOR.get(happened["kind"])
                if what:
                    self.times.setdefault(f"{happened['app']} {what}", {}).setdefault(listener, now)

    def last(self, what: str, seconds: float = 20.0) -> float:
        """When the last of all listeners had heard it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.lock:
                heard = self.times.get(what, {})
                if len(heard) == APPS:
                    return max(heard.values())
            time.sleep(0.02)
        raise RuntimeError(f"{what}: {len(self.times.get(what, {}))} of {APPS} were told within {seconds:g} s")


def measure() -> dict[str, Any]:
    """Seconds until the last application is notified, and the ResourceManager's CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        spec = ClusterSpec(Path(folder) / "cluster", memory_mb=4096, vcores=32, gpus_per_node=0)
        made = embedded.up(ClusterSpec(**{**_fields(spec), "port_base": free_base(spec.hosts)}))
        try:
            rm = Manager(made.rm_url)
            apps = [rm.submit(f"root.sql.s{number}") for number in range(APPS)]
            rm.await_running(apps)
            cpu = _cpu(made, Path(folder))
            told = _told(made, rm, apps, Path(folder))
        finally:
            made.down()
    return told | cpu


def _fields(spec: ClusterSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("dir", "memory_mb", "vcores", "gpus_per_node")}


def _told(made: Cluster, rm: "Manager", apps: list[str], folder: Path) -> dict[str, Any]:
    with _arbiter(made, folder / "told") as (url, token):
        client, heard = ArbiterClient(url, token), Heard()
        for number, app in enumerate(apps):
            request = wire.Register(name=f"s{number}", request_id=new_request_id(), yarn_app=app, pool="sql")
            registered = client.register(request)
            threading.Thread(
                target=_follow, args=(ArbiterClient(url, registered.token), registered.app, number, heard), daemon=True
            ).start()
        time.sleep(3)
        arrivals, ends = [], []
        for number in range(CHANGES):
            # Not in step with the arbiter's looks.
            time.sleep(random.uniform(0.0, 1.0))
            app = rm.submit(f"root.sql.guest{number}")
            arrivals.append(heard.last(f"{app} arrived") - rm.app(app)["startedTime"] / 1000.0)
            time.sleep(random.uniform(0.0, 0.5))
            rm.kill(app)
            ends.append(heard.last(f"{app} ended") - rm.app(app)["finishedTime"] / 1000.0)
            out.print(f"  arrival told to all {APPS} in {arrivals[-1]:.3f} s, end in {ends[-1]:.3f} s")
    return {
        "arrival_s_p50": statistics.median(arrivals),
        "arrival_s_p95": statistics.quantiles(arrivals, n=20)[-1],
        "end_s_p50": statistics.median(ends),
        "end_s_p95": statistics.quantiles(ends, n=20)[-1],
    }


def _follow(client: ArbiterClient, app: str, number: int, heard: Heard) -> None:
    for share in client.follow(app):
        heard.note(number, share)


def _cpu(made: Cluster, folder: Path) -> dict[str, Any]:
    """The ResourceManager's processor time in cores, in turns without and with an arbiter that watches it."""
    process = psutil.Process(made.daemons["rm"])
    without, with_arbiter = [], []
    for turn in range(TURNS):
        without.append(_cores(process))
        with _arbiter(made, folder / f"cpu{turn}"):
            time.sleep(3)
            with_arbiter.append(_cores(process))
        out.print(f"  RM uses {without[-1]:.4f} cores without the arbiter, {with_arbiter[-1]:.4f} with it")
    more = statistics.median(b - a for a, b in zip(without, with_arbiter, strict=True))
    return {
        "rm_cpu_without": statistics.median(without),
        "rm_cpu_with": statistics.median(with_arbiter),
        "rm_cpu_more": more,
    }


def _cores(process: psutil.Process) -> float:
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(SPAN_S)
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return spent / (time.monotonic() - began)


@contextmanager
def _arbiter(made: Cluster, state: Path) -> Iterator[tuple[str, str]]:
    state.mkdir()
    (state / "config.toml").write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("yarn-plugin")), "arbiter", "--rm", made.rm_url, "--quiet"]
    command += ["--state", str(state), "--listen", "127.0.0.1:0", "--config", str(state / "config.toml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while not (state / "arbiter.json").exists():
                assert process.poll() is None, "the arbiter ended"
                time.sleep(0.1)
            yield json.loads((state / "arbiter.json").read_text())["url"], (state / "admin.token").read_text().strip()
        finally:
            process.terminate()


class Manager:
    """The ResourceManager's REST, as a client that submits sleepers."""

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
        """What the RM records of an application."""
        found: dict[str, Any] = self._session.get(f"{self._base}/apps/{app}").json()["app"]
        return found

    def kill(self, app: str) -> None:
        """End an application, and wait until the RM has recorded it."""
        self._session.put(f"{self._base}/apps/{app}/state", json={"state": "KILLED"}).raise_for_status()
        while not self.app(app)["finishedTime"]:
            time.sleep(0.02)

    def await_running(self, apps: list[str]) -> None:
        """Wait until each has its master."""
        while sum(self.app(app)["runningContainers"] == 1 for app in apps) < len(apps):
            time.sleep(1)
